from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recall_home import SECRET, recall_home

from headwater.query.budget import estimate_tokens
from headwater.schemas import limits
from headwater.schemas.errors import InputError
from headwater.surface.asker import Asker
from headwater.surface.mcp_tools import MEMORIES, TOOLS, WORKING_SET, MemoryTools
from headwater.surface.pages import page_of

CURSOR = re.compile(r'cursor="([^"]+)"')


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> MemoryTools:
    """The tools of an agent that works in project one."""
    return MemoryTools(Asker(recall_home(tmp_path_factory.mktemp("mcp") / "home")), "/p/one")


def said(tools: MemoryTools, name: str, **arguments: Any) -> str:
    """Return the text of an answer that is no error."""
    answer = tools.call(name, arguments)
    assert not answer.is_error, answer.text
    return answer.text


def test_from_the_index_to_the_whole(tools: MemoryTools) -> None:
    """A search names ids, a timeline takes them, details show them; each says what comes next."""
    found = said(tools, "search", query="webhook retry number 7", disclosure="index")
    assert found.startswith("## Related Memories (")
    assert "| evt_s1p7 |" in found
    assert "Next: get_details(ids=[" in found
    around = said(tools, "timeline", ids=["evt_s1p7"], window=1)
    assert "### Context around evt_s1p7 (2026-01-05)" in around
    assert '**[evt_s1p7]** User: "Why does the webhook retry number 7?"' in around
    assert "(evt_s1r7)" in around
    for name in ("get_details", "get_observations"):
        assert "## Memory Detail: evt_s1p7" in said(tools, name, ids="evt_s1p7")
    assert "## Memory Detail: mem_one" in said(tools, "get_details", ids=["mem_one"])
    assert "evt_s1p0" in said(tools, "timeline", since="2026-01-05", until="2026-01-05")


def test_the_five_rules(tools: MemoryTools) -> None:
    """The tool that says how to search says all five rules, also in its description."""
    rules = said(tools, "__IMPORTANT")
    for rule in (
        "1. **Always start with `search`** to get compact index",
        "2. **Review scores** before expanding",
        "3. **Use `timeline`** if context is needed",
        "4. **Only call `get_observations`** for selected IDs",
        "5. **Never** fetch all details at once",
    ):
        assert rule in rules
        assert rule in TOOLS["__IMPORTANT"].description


def test_long_answers_come_in_pages(tools: MemoryTools) -> None:
    """No page is above MCP_TOKENS; the pages, put together, are the whole; a cursor of another answer is refused."""
    whole = tools._asker.ask("details", {"ids": ["evt_s1long"], "project": "/p/one", "text": "markdown"})[
        "text"
    ]
    parts: list[str] = []
    cursor: str | None = None
    for _ in range(20):
        page = said(tools, "get_details", ids=["evt_s1long"], **({"cursor": cursor} if cursor else {}))
        assert estimate_tokens(page) <= limits.MCP_TOKENS
        parts.append(page.rpartition("\n\n[characters")[0])
        more = CURSOR.search(page)
        if more is None:
            break
        cursor = more[1]
    assert len(parts) > 3
    assert "".join(parts) == whole
    answer = tools.call("get_details", {"ids": ["evt_s1p1"], "cursor": cursor})
    assert answer.is_error
    assert "call again without cursor" in answer.text


def test_json_keeps_the_other_names(tools: MemoryTools) -> None:
    """As JSON each row has `type` and `timestamp` beside `kind` and `at`."""
    for name, rows, arguments in (
        ("search", "index", {"query": "webhook"}),
        ("timeline", "timeline", {"ids": ["evt_s1p7"]}),
        ("get_details", "details", {"ids": ["evt_s1p7"]}),
    ):
        row = json.loads(said(tools, name, format="json", **arguments))[rows][0]
        assert (row["type"], row["timestamp"]) == (row["kind"], row["at"])


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("search", {}, "search wants it, got none"),
        ("search", {"query": 5}, "wanted a text, got 5"),
        ("search", {"query": "x", "top_k": 0}, "wanted 1 to 100, got 0"),
        ("search", {"query": "x", "top_k": True}, "wanted a whole number"),
        ("search", {"query": "x", "max_tokens": limits.MCP_TOKENS + 1}, "wanted 100 to 8000"),
        ("search", {"query": "x", "kind": ["speech"]}, "wanted one of prompt, response"),
        ("search", {"query": "x", "since": "soon"}, "wanted a day or time"),
        ("search", {"query": "x", "disclosure": "all"}, "wanted one of auto, index"),
        ("search", {"query": "x", "colour": "red"}, "unknown, wanted one of query, top_k"),
        ("timeline", {}, "wanted at least one id"),
        ("timeline", {"ids": ["evt_s2p1"]}, "nothing with it in this scope. Next: call search for ids"),
        ("get_details", {"ids": []}, "wanted at least one id"),
        ("get_details", {"ids": [f"evt_{n}" for n in range(51)]}, "wanted at most 50, got 51"),
        ("forget", {}, "call one of __IMPORTANT, search, timeline"),
    ],
)
def test_errors_are_texts_with_a_next_step(
    tools: MemoryTools, name: str, arguments: dict[str, Any], wanted: str
) -> None:
    """Each says in one line what was wanted and what came, and what to do."""
    answer = tools.call(name, arguments)
    assert answer.is_error
    assert wanted in answer.text
    assert "Next: " in answer.text
    assert "\n" not in answer.text


def test_nothing_found_says_how_to_go_on(tools: MemoryTools) -> None:
    """An empty answer names the next step; with all projects, the stranger's rows are there."""
    assert "Next: other words, or all_projects=true" in said(tools, "search", query=SECRET)
    assert "evt_s2" in said(tools, "search", query=SECRET, all_projects=True)
    assert "evt_s2" in said(tools, "search", query=SECRET, project="/p/two")


def test_resources(tools: MemoryTools) -> None:
    """Working set and memories of the project, none of another; an unknown one is refused with those there are."""
    assert "webhook" in tools.read(MEMORIES)
    for uri in (MEMORIES, WORKING_SET):
        text = tools.read(uri)
        assert SECRET not in text
        assert estimate_tokens(text) <= limits.MCP_TOKENS
    with pytest.raises(InputError, match="read one of"):
        tools.read("headwater://secrets")


@given(st.text(max_size=3000), st.integers(150, 2000))
@settings(max_examples=60)
def test_pages_are_the_text(text: str, budget_tokens: int) -> None:
    """Pages of any text keep within their budget, each goes on where the last ended, and nothing is lost."""
    cursor, parts = "", []
    while True:
        page = page_of(text, cursor, budget_tokens)
        assert estimate_tokens(page.text) <= budget_tokens
        parts.append(page.text)
        cursor = page.cursor
        if not cursor:
            break
        assert page.text
    assert "".join(parts) == text


@pytest.mark.parametrize("text", ["가" * 40_000, "a" * 100_000, " " * 100_000, "\n" * 20_000, "x1_" * 30_000])
def test_pages_of_one_endless_line(text: str) -> None:
    """A text without a line's end is cut all the same, in a bounded number of pages."""
    cursor, pages, size = "", 0, 0
    while pages < 100:
        page = page_of(text, cursor, limits.MCP_TOKENS)
        pages, size, cursor = pages + 1, size + len(page.text), page.cursor
        assert estimate_tokens(page.text) <= limits.MCP_TOKENS
        if not cursor:
            break
    assert size == len(text)
