from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_lines import encode, envelope, raw

from headwater.flows.claude_hooks import Fact
from headwater.flows.claude_transcripts import facts
from headwater.flows.normalise import normalise, told_time
from headwater.flows.parse import parse
from headwater.schemas.events import Draft, Fate, Kind, Part

NOTES: dict[str, Any] = {"line": "k", "calls": {"t1": {"name": "Edit", "input": {"file_path": "/p/a.py"}}}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "type",
        "message",
        "content",
        "toolUseResult",
        "headwater",
        "isMeta",
        "subtype",
        "compactMetadata",
        "promptId",
    ]
)


def user(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a user line of these blocks."""
    return {
        "type": "user",
        "sessionId": "s",
        "message": {"content": list(blocks)},
        "headwater": NOTES,
        **fields,
    }


def one(line: dict[str, Any]) -> Fact:
    """Return the only fact of a line."""
    found = facts(line, "/p")
    assert isinstance(found, list), found
    assert len(found) == 1
    return found[0]


def result(content: Any, **fields: Any) -> dict[str, Any]:
    """Return a result block."""
    return {"type": "tool_result", "tool_use_id": "t1", "content": content, **fields}


@pytest.mark.parametrize(
    ("line", "ok", "error"),
    [
        (user(result("done")), True, None),
        (user(result([{"type": "text", "text": "done"}])), True, None),
        (user(result(None)), True, None),
        (user(result("x", is_error=True)), False, "x"),
        (user(result("<tool_use_error>no such file</tool_use_error>", is_error=True)), False, "no such file"),
        (user(result("", is_error=True), toolUseResult="Error: gone"), False, "Error: gone"),
        (user(result(""), toolUseResult={"stdout": "x", "interrupted": True}), False, "interrupted"),
    ],
)
def test_result_tells_how_a_call_ended(line: dict[str, Any], ok: bool, error: str | None) -> None:
    """A result has the call's name and files, and its own outcome."""
    found = one(line)
    assert found.tool is not None
    assert (found.tool.name, found.tool.ok, found.tool.error) == ("Edit", ok, error)
    assert [ref.path for ref in found.files] == ["a.py"]
    assert found.part is Part.TRANSCRIPT


def test_result_and_words_of_one_line_are_two_facts() -> None:
    """A line can end several calls and hold a prompt too."""
    found = facts(
        user(result("a"), {**result("b"), "tool_use_id": "t2"}, {"type": "text", "text": "and stop"}), "/p"
    )
    assert isinstance(found, list)
    assert [fact.kind for fact in found] == [Kind.TOOL, Kind.TOOL, Kind.PROMPT]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"type": "progress"}, "progress"),
        ({"type": "brand-new"}, "brand-new: unknown"),
        ({}, "no type: unknown"),
        ({"type": "system", "subtype": "turn_duration"}, "system turn_duration"),
        ({"type": "user", "isMeta": True}, "user meta"),
        ({"type": "assistant", "message": {"model": "<synthetic>"}}, "assistant error"),
        ({"type": "assistant", "message": {"content": [{"type": "thinking"}]}}, "assistant thinking"),
        ({"type": "assistant", "message": None}, "assistant nothing"),
        ({"type": "assistant", "message": {"content": "(no content)"}}, "assistant text"),
        ({"type": "user", "isSidechain": True, "message": {"content": "task"}}, "user sub-agent"),
    ],
)
def test_line_without_an_event_says_why(line: dict[str, Any], reason: str) -> None:
    """What gives no event is noise with a reason."""
    found = facts(line, "/p")
    assert isinstance(found, str)
    assert found.startswith(reason)


@given(
    st.dictionaries(KEYS, JSON, max_size=6),
    st.sampled_from(["user", "assistant", "system", "queue-operation"]),
)
def test_no_line_stops_the_flow(line: dict[str, Any], kind: str) -> None:
    """Whatever stands in a line, it has exactly one kind of fate."""
    content = {"sessionId": "s"} | line | {"type": kind}
    [record] = parse(raw(encode(envelope(content, format="claude-transcript"))))
    made = normalise(record)
    assert made
    drafts = [item for item in made if isinstance(item, Draft)]
    assert len(drafts) in (0, len(made))
    assert [draft.last for draft in drafts] == [False] * (len(drafts) - 1) + [True] * bool(drafts)


def test_line_without_a_session_is_quarantined() -> None:
    """A fact must belong to a session."""
    [record] = parse(
        raw(encode(envelope({"type": "user", "message": {"content": "x"}}, format="claude-transcript")))
    )
    [found] = normalise(record)
    assert not isinstance(found, Draft)
    assert (found.fate, found.reason) == (Fate.QUARANTINED, "the session's id is missing")


@pytest.mark.parametrize(
    ("told", "possible"),
    [
        ("2026-03-01T12:00:00Z", True),
        ("2026-03-01T21:00:00+09:00", True),
        ("2019-12-31T23:59:59Z", False),
        ("2026-03-01T12:10:00Z", True),
        ("2026-03-01T12:10:01Z", False),
        ("yesterday", False),
        ("", False),
    ],
)
def test_time_must_be_possible(told: str, possible: bool) -> None:
    """A time before any agent, or more than ten minutes after its own receipt, is none."""
    noon_ns = 1_772_366_400 * 10**9
    assert (told_time(told, noon_ns) is not None) == possible
