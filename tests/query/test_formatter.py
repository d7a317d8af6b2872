from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from headwater.query.formatter import ContextFormatter
from headwater.schemas.answers import (
    Detail,
    DetailMetadata,
    IndexItem,
    Reason,
    Relations,
    SearchAnswer,
    SearchMeta,
    TimelineItem,
)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A person whose clock shows UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(hour: int, minute: int) -> datetime:
    """Return a time of one day."""
    return datetime(2026, 1, 30, hour, minute, tzinfo=UTC)


INDEX = (
    IndexItem("mem_1", "DuckDB 스키마 설계 논의", 0.94, "insight", at(14, 5), "session_xyz", "/p"),
    IndexItem("mem_2", "a | b", 0.87, "response", at(14, 0), "session_xyz", "/p", 2, "mem_1"),
    IndexItem("mem_3", "벡터 저장소 설정", 0.52, "prompt", at(13, 0), "session_xyz", "/p"),
)
TIMELINE = (
    TimelineItem("evt_0", at(14, 0), "prompt", "DB 스키마를 어떻게 설계할까?", False, "session_xyz"),
    TimelineItem("mem_1", at(14, 5), "response", "DuckDB를 사용하여", True, "session_xyz"),
    TimelineItem("evt_2", at(14, 15), "tool", "$ ls", False, "session_xyz"),
)
DETAIL = Detail(
    "mem_1", "DuckDB를 사용하여\n```sql\nSELECT 1;\n```", "response", at(14, 5), "session_xyz", "/p",
    DetailMetadata(20, True, ("src/core/event-store.ts", "src/core/types.ts"), ("Read", "Write")),
    Relations("evt_0", ("evt_2",), ()),
)  # fmt: skip


def answer(**meta: object) -> SearchAnswer:
    """Return an answer of all three layers."""
    known = {
        "total_matches": 5,
        "expanded_count": 1,
        "estimated_tokens": 99,
        "expansion_reason": Reason.CLEAR_WINNER,
    }
    made = SearchMeta(**{**known, "min_score": 0.7, **meta})  # type: ignore[arg-type]
    return SearchAnswer(INDEX, TIMELINE, (DETAIL,), made)


MARKDOWN = """\
## Related Memories (5 matches)

| ID | Summary | Score |
|----|---------|-------|
| mem_1 | DuckDB 스키마 설계 논의 | 0.94 |
| mem_2 | a \\| b (+2 alike) (superseded by mem_1) | 0.87 |
| mem_3 | 벡터 저장소 설정 | 0.52 weak |

*Use "show ID" to see details*

## Related Memories with Timeline

### Context around mem_1 (2026-01-30)

14:00 - User: "DB 스키마를 어떻게 설계할까?" (evt_0)
14:05 - **[mem_1]** Assistant: "DuckDB를 사용하여"
14:15 - Tool: "$ ls" (evt_2)

## Memory Detail: mem_1

**Session**: session_xyz | **Date**: 2026-01-30 14:05

### Content
DuckDB를 사용하여
```sql
SELECT 1;
```

**Related Files**: src/core/event-store.ts, src/core/types.ts
**Tools Used**: Read, Write
**Parent**: evt_0
**Children**: evt_2

Left out, for want of room: evt_7, evt_8 and 3 more

3 of 5 matches, about 99 tokens, clear_winner"""

TERMINAL = """\
mem_1 0.94 2026-01-30 insight
    DuckDB 스키마 설계 논의
mem_2 0.87 2026-01-30 response
    a | b
    also 2 times much the same
    superseded by mem_1
mem_3 0.52 2026-01-30 prompt weak
    벡터 저장소 설정

Use "show ID" to see details

Timeline
Session session_xyz
  2026-01-30 14:00:00  prompt    evt_0
    DB 스키마를 어떻게 설계할까?
> 2026-01-30 14:05:00  response  mem_1
    DuckDB를 사용하여
  2026-01-30 14:15:00  tool      evt_2
    $ ls

mem_1  response  2026-01-30 14:05:00  about 20 tokens
session: session_xyz
project: /p
files: src/core/event-store.ts, src/core/types.ts
tools: Read, Write
parent: evt_0
children: evt_2

DuckDB를 사용하여
```sql
SELECT 1;
```

Left out, for want of room: evt_7, evt_8 and 3 more

3 of 5 matches, about 99 tokens, clear_winner"""


def test_layouts_of_markdown_and_terminal() -> None:
    """Each layer, the hint, what was left out and the size stand in their published layout."""
    whole = answer(hint='Use "show ID" to see details', left_out=("evt_7", "evt_8"), left_out_more=3)
    assert ContextFormatter("markdown").answer(whole) == MARKDOWN
    assert ContextFormatter("terminal").answer(whole) == TERMINAL


def test_json_is_the_answer() -> None:
    """As JSON the answer has all it has, in its own keys."""
    found = json.loads(ContextFormatter("json").answer(answer(suggested=("mem_2",))))
    assert [row["id"] for row in found["index"]] == ["mem_1", "mem_2", "mem_3"]
    assert (found["timeline"][1]["is_target"], found["details"][0]["metadata"]["tools"]) == (
        True,
        ["Read", "Write"],
    )
    assert (found["meta"]["suggested"], found["meta"]["expansion_reason"]) == (["mem_2"], "clear_winner")
    for layer, rows in (("index", INDEX), ("timeline", TIMELINE), ("details", (DETAIL,))):
        one = json.loads(getattr(ContextFormatter("json"), layer)(rows))
        assert one == found[layer]


def test_nothing_found() -> None:
    """An empty answer says so; one that only found no room says that."""
    nothing = SearchAnswer((), None, None, SearchMeta(0, 0, 0, None))
    assert ContextFormatter().answer(nothing) == "Nothing found."
    assert ContextFormatter("markdown").answer(nothing).startswith("## Related Memories (0 matches)")
    full = SearchAnswer((), None, None, SearchMeta(4, 0, 9, None, left_out_more=4))
    assert ContextFormatter().answer(full).startswith("Left out, for want of room: 4")


def test_a_group_without_a_target_and_a_memory_of_no_session() -> None:
    """Places of a day without a target stand under the day; a memory names no session."""
    text = ContextFormatter("markdown").timeline(TIMELINE[:1])
    assert "### Context (2026-01-30)" in text
    memory = Detail("mem_9", "", "insight", at(9, 0), "", "/p", DetailMetadata(0, has_code=False))
    text = ContextFormatter("markdown").details([memory])
    assert text == "## Memory Detail: mem_9\n\n**Date**: 2026-01-30 09:00\n\n### Content\n(no text)"
