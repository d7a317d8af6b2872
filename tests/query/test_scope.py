from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.query.scope import both, ids_where, where
from headwater.schemas.answers import Scope
from headwater.schemas.events import Kind

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def test_everything_lets_everything_through() -> None:
    """A scope of all projects without more is no filter at all."""
    assert where(Scope(None)) is None
    assert ids_where(["a"], Scope(None)) == "id IN ('a')"


def test_vectors_are_not_asked_for_files() -> None:
    """The filter for vector tables leaves the file out and keeps the project."""
    assert where(Scope("p", file="x"), files=False) == "project = 'p'"


def test_both_is_narrower_than_each() -> None:
    """Two filters are joined, one alone stays."""
    assert both(None, None) is None
    assert both("a = 1", None) == both(None, "a = 1") == "a = 1"
    assert both("a = 1 OR b = 2", "c = 3") == "(a = 1 OR b = 2) AND (c = 3)"


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        (Scope("/p/one"), "abcd"),
        (Scope("/p/it's"), "e"),
        (Scope(None), "abcde"),
        (Scope("/p/one' OR 1=1 --"), ""),
        (Scope("/p/one", session_id="s2"), "d"),
        (Scope("/p/one", session_id="s1' OR '1'='1"), ""),
        (Scope("/p/one", agent="codex"), "c"),
        (Scope("/p/one", kinds=("response", "note")), "b"),
        (Scope(None, kinds=("prompt') OR 1=1 --",)), ""),
        (Scope("/p/one", since=NOW + timedelta(minutes=2)), "cd"),
        (Scope("/p/one", until=NOW + timedelta(minutes=2)), "ab"),
        (Scope("/p/one", file="src/it's.py"), "d"),
        (Scope("/p/one", file="src/none.py"), ""),
        (Scope(None, file="x', 'op', 'edit')) OR 1=1 --"), ""),
    ],
    ids=repr,
)
def test_scope_lets_through_what_it_names(world: Any, scope: Scope, names: str) -> None:
    """Each part of a scope narrows it, `since` is inclusive, `until` exclusive, and no value leaves its quotes."""
    world.add(
        world.event("a"),
        world.event("b", minute=1, kind=Kind.RESPONSE),
        world.event("c", minute=2, agent="codex"),
        world.event("d", minute=3, session_id="s2", files=["src/it's.py"]),
        world.event("e", minute=4, project="/p/it's"),
    )
    found = world.events.scan(["id"], where(scope)).get_column("id").to_list()
    assert sorted(found) == [f"evt_{name}" for name in names]
