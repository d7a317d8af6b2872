"""Any text in any argument of recall: an answer or a refusal, and never another project's row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recall_home import SECRET, recall_home

from headwater.query.budget import estimate_tokens
from headwater.schemas import limits
from headwater.schemas.errors import InputError
from headwater.storage.home import Home
from headwater.surface.asker import Asker
from headwater.surface.mcp_tools import TOOLS, MemoryTools
from headwater.surface.operations import OPERATIONS, Context

NASTY = (
    "' OR project = '/p/two' --",
    "/p/one' OR '1'='1",
    "evt_s2p1') OR (project = '/p/two",
    "\\' OR 1=1; DROP TABLE events; --",
    '"webhook" AND (retry OR NOT number)',
    "+must -not ~1 ^2 field:value [1 TO 2] {a} *? \\",
    "(((((((((((((((((((((((((((((((((((",
    "\x00\x01\ud800\udfff\uffff",
    "\u202e\u200d\u0301" * 40,
    "웹훅 재시도 " * 700,  # about 10 KB
    "a" * 10_240,
    "$(touch x) `id` %s {0} {{}} ${HOME}",
    "../../../../etc/passwd",
    "evt_s2p1 mem_two ses_s2 show in detail 2026-01-05 yesterday",
    "-1",
    "NaN",
    "",
    " ",
)
TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(exclude_categories=()), max_size=60),
    st.tuples(st.sampled_from(NASTY), st.text(max_size=20)).map("".join),
)
ANYTHING = st.one_of(TEXTS, st.integers(), st.floats(), st.booleans(), st.none(), st.lists(TEXTS, max_size=4))
LOOSE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with two projects."""
    return recall_home(tmp_path_factory.mktemp("fuzz") / "home")


@pytest.fixture(scope="module")
def context(home: Home) -> Context:
    """The home as operations see it."""
    return Context(home)


@pytest.fixture(scope="module")
def tools(home: Home) -> MemoryTools:
    """The tools of an agent that works in project one."""
    return MemoryTools(Asker(home), "/p/one")


def answered(context: Context, operation: str, args: dict[str, Any]) -> None:
    """Ask within project one: nothing of the other project comes, and nothing but InputError is raised."""
    refused: InputError | None = None
    answer: dict[str, Any] = {}
    try:
        answer = OPERATIONS[operation](context, args | {"project": "/p/one"})
    except InputError as error:
        refused = error
    assert "\n" not in str(refused)
    assert SECRET not in json.dumps(answer)


@given(
    query=TEXTS,
    extra=st.dictionaries(st.sampled_from(("session", "agent", "file", "since", "until")), TEXTS, max_size=2),
)
@LOOSE
def test_search(context: Context, query: str, extra: dict[str, str]) -> None:
    """Any query with any text as a filter."""
    answered(context, "search", {"query": query, "text": "markdown", **extra})


@given(
    st.dictionaries(
        st.sampled_from(("query", "top_k", "min_score", "max_tokens", "disclosure", "kinds", "text")),
        ANYTHING,
    )
)
@LOOSE
def test_search_with_arguments_of_any_type(context: Context, args: dict[str, Any]) -> None:
    """Arguments of the wrong type or size are refused, not stumbled over."""
    answered(context, "search", args)


@given(ids=st.lists(TEXTS, max_size=5), window=st.integers(-5, 100), file=st.none() | TEXTS)
@LOOSE
def test_timeline_and_details(context: Context, ids: list[str], window: int, file: str | None) -> None:
    """Any ids: those of another project are as unknown as those that nobody has."""
    scope = {} if file is None else {"file": file}
    answered(context, "timeline", {"ids": [*ids, "evt_s2p1", "mem_two"], "window": window, **scope})
    answered(context, "details", {"ids": [*ids, "evt_s2p1", "ses_s2"], **scope})


@given(since=TEXTS, until=TEXTS, session=TEXTS, limit=ANYTHING)
@settings(LOOSE, max_examples=25)
def test_stretch_of_time(context: Context, since: str, until: str, session: str, limit: Any) -> None:
    """Any text as a time, beside a time that is one."""
    answered(context, "timeline", {"since": since, "until": until})
    answered(context, "timeline", {"since": "2026-01-01", "session": session, "limit": limit, "text": True})


@given(st.data())
@settings(LOOSE, max_examples=120)
def test_tools(tools: MemoryTools, data: st.DataObject) -> None:
    """Any arguments of any tool: a text within bounds, nothing of another project unless that is what was asked for."""
    name = data.draw(st.sampled_from(sorted(TOOLS)))
    own = [one for one in TOOLS[name].arguments if one not in ("project", "all_projects")]
    keys = st.sampled_from([*own, "colour"])
    args = data.draw(st.dictionaries(keys, ANYTHING, max_size=3))
    for required in TOOLS[name].required:
        args.setdefault(required, data.draw(TEXTS))
    answer = tools.call(name, args)
    assert estimate_tokens(answer.text) <= limits.MCP_TOKENS
    assert SECRET not in answer.text.replace(str(args.get("query")), "")


@pytest.mark.parametrize("text", NASTY)
def test_no_text_names_another_project(context: Context, tools: MemoryTools, text: str) -> None:
    """A project of any name is that project or none: the filter is one literal, whatever stands in it."""
    answer = OPERATIONS["search"](context, {"query": "retry", "project": text})
    assert answer["index"] == []
    assert SECRET not in tools.call("search", {"query": "retry", "project": text or "x"}).text
