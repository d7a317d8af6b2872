from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from memory_rows import MemoryRows

from headwater.schemas import limits
from headwater.schemas.errors import InputError
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore
from headwater.surface.operations import OPERATIONS, Context, scope_of


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """A home with one memory."""
    home = Home.open(tmp_path_factory.mktemp("operations") / "home")
    MemoryRows(LanceStore(home.lance)).memory("m", "The cache was made smaller.")
    return Context(home)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 0),
        ("top_k", limits.TOP_K_MAX + 1),
        ("top_k", "many"),
        ("top_k", True),
        ("min_score", 1.01),
        ("min_score", float("nan")),
        ("max_tokens", 99),
        ("max_tokens", limits.ANSWER_TOKENS_MAX + 1),
        ("disclosure", "all"),
        ("text", "html"),
        ("since", "soon"),
        ("kinds", ["prompt", "speech"]),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(context: Context, name: str, value: Any) -> None:
    """Each says what was wanted and what came."""
    with pytest.raises(InputError) as caught:
        OPERATIONS["search"](context, {"query": "cache", name: value})
    assert "wanted" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_highest_budget_is_taken(context: Context) -> None:
    """ANSWER_TOKENS_MAX itself is a budget."""
    answer = OPERATIONS["search"](
        context, {"query": "cache", "max_tokens": limits.ANSWER_TOKENS_MAX, "text": True}
    )
    assert "mem_m" in answer["text"]


def test_memory_that_is_shown_counts_as_read(context: Context) -> None:
    """Details of a memory, asked for or expanded by a search, count as read, from memory as well; an index does not."""
    OPERATIONS["search"](context, {"query": "cache"})
    OPERATIONS["timeline"](context, {"ids": ["mem_m"]})
    assert context.usage.accesses(["mem_m"]) == {}
    OPERATIONS["details"](context, {"ids": ["mem_m"]})
    OPERATIONS["details"](context, {"ids": ["mem_m"]})
    OPERATIONS["search"](context, {"query": "show mem_m"})
    assert context.usage.accesses(["mem_m"])["mem_m"].access_count == 3


def test_scope_of_a_request(context: Context) -> None:
    """A folder without events gives all projects, a named project itself; times are read in UTC, "" filters nothing."""
    assert scope_of(context, {"here": "/nowhere"}).project is None
    found = scope_of(
        context, {"project": "/p", "since": "2026-03-24", "session": "", "file": "a.py", "kinds": ["tool"]}
    )
    assert (found.project, found.session_id, found.file, found.kinds) == ("/p", None, "a.py", ("tool",))
    assert found.since is not None
    assert found.since.isoformat() == "2026-03-24T00:00:00+00:00"


def test_settings_are_read_again(context: Context, tmp_path: Path) -> None:
    """A change of config.toml holds for the next search."""
    assert OPERATIONS["search"](context, {"query": "cache"})["details"] is None
    context.home.config_file.write_text("[progressive_disclosure]\nenabled = false\n", encoding="utf-8")
    flat = OPERATIONS["search"](context, {"query": "cache"})
    context.home.config_file.unlink()
    assert flat["details"][0]["content"] == "The cache was made smaller."
    assert flat["meta"]["expansion_reason"] == "flat"
