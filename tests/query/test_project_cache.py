from __future__ import annotations

from typing import Any

import pytest
from memory_rows import PROJECT, MemoryRows, minutes

from headwater.query.memories import ConsolidatedStore
from headwater.query.project_cache import ProjectCache, asked_terms, share_named, terms_of
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.config import Config

CONFIG = Config()


def test_what_is_kept_is_given_until_its_table_changes(
    world: Any, rows: MemoryRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read is made once as long as nothing is written, and again after any write of its table."""
    monkeypatch.setattr(limits, "MTIME_TICK_S", 0.0)
    rows.memory("a", "Found: it.")
    cache = ProjectCache(world.stores)
    first = cache.memories(PROJECT)
    assert cache.memories(PROJECT) is first
    rows.member("x")
    assert cache.memories(PROJECT) is first
    rows.memory("b", "Found: more.", 1)
    assert [one.id for one in cache.memories(PROJECT).memories] == ["mem_b", "mem_a"]


def test_a_very_young_change_is_nothing_to_go_by(
    world: Any, rows: MemoryRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within MTIME_TICK_S after a write nothing is kept: a second write may bear the same time."""
    monkeypatch.setattr(limits, "MTIME_TICK_S", 3600.0)
    rows.memory("a", "Found: it.")
    cache = ProjectCache(world.stores)
    assert cache.memories(PROJECT) is not cache.memories(PROJECT)


def test_lines_are_made_once_until_events_change(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of an event is made of its text once, and anew after any write of events; unknown ones have none."""
    monkeypatch.setattr(limits, "MTIME_TICK_S", 0.0)
    world.add(world.event("a", "one"))
    cache = ProjectCache(world.stores)
    made: list[str] = []

    def make(content: str) -> str:
        made.append(content)
        return content.upper()

    for _ in range(2):
        assert cache.lines(PROJECT, ["evt_a", "evt_none"], make) == {"evt_a": "ONE"}
    assert made == ["one"]
    world.events.delete("id = 'evt_a'")
    assert cache.lines(PROJECT, ["evt_a"], make) == {}


def test_all_four_tables_are_read(world: Any, rows: MemoryRows) -> None:
    """Working set, log, memories and sessions are those of the stores, of one project."""
    cache = ProjectCache(world.stores)
    assert cache.active(PROJECT, CONFIG) == ()
    assert cache.continuity(PROJECT, CONFIG).score is None
    assert cache.sessions(PROJECT) == []
    rows.member("a")
    rows.turn("a", 0.5)
    rows.session("s", "Asked: it.")
    rows.memory("m", "Found: it.", project="/p/two")
    assert [one.event_id for one in cache.active(PROJECT, CONFIG)] == ["evt_a"]
    assert cache.continuity(PROJECT, CONFIG).score == 0.5
    assert [row["id"] for row in cache.sessions(PROJECT)] == ["ses_s"]
    assert cache.memories(PROJECT).memories == ()
    assert len(cache.memories("/p/two").memories) == 1


def test_few_projects_are_kept(world: Any, rows: MemoryRows, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most INJECT_KEPT reads stay in memory, the last ones asked for."""
    monkeypatch.setattr(limits, "INJECT_KEPT", 2)
    cache = ProjectCache(world.stores)
    for project in ("a", "b", "a", "c"):
        cache.sessions(project)
    assert [key[1] for key in cache._kept] == ["a", "c"]


def test_the_newest_memories_are_held(world: Any, rows: MemoryRows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a project with very many memories the newest INJECT_MEMORIES_HELD are compared with prompts."""
    for n in range(4):
        rows.memory(f"m{n}", f"Found: ledger {n}.", n)
    monkeypatch.setattr(limits, "INJECT_MEMORIES_HELD", 2)
    index = ProjectCache(world.stores).memories(PROJECT)
    assert [one.id for one in index.memories] == ["mem_m3", "mem_m2"]
    assert [one.last_at for one in ConsolidatedStore(world.stores).recent(Scope(PROJECT), 3)] == [
        minutes(n) for n in (3, 2, 1)
    ]


def test_rare_terms_count_more(world: Any, rows: MemoryRows) -> None:
    """Of memories that name one term of a prompt each, that with the rarest is first; equal ones by newer."""
    for n in range(6):
        rows.memory(f"m{n}", f"Found: the webhook number {n}.", n, topics=[])
    rows.memory("rare", "Found: the deadlock.", -1, topics=[])
    found = ProjectCache(world.stores).memories(PROJECT).match(terms_of("webhook deadlock"))
    assert [one.id for _, one in found][:2] == ["mem_rare", "mem_m5"]
    assert all(0 < share < 1 for share, _ in found)
    assert ProjectCache(world.stores).memories(PROJECT).match(frozenset()) == []


def test_share_of_a_prompt() -> None:
    """Of many terms some are enough; of none nothing is named."""
    many = frozenset("abcdefghij")
    assert share_named(frozenset("ab"), frozenset("a")) == 0.5
    assert share_named(many, frozenset("abc")) == 3 / limits.INJECT_TERMS
    assert share_named(many, many) == 1.0
    assert share_named(frozenset(), many) == 0.0


@pytest.mark.parametrize(
    ("prompt", "about"),
    [
        ("continue with the webhook retries", {"webhook", "retry"}),
        ("remind me what we decided about retries", {"retry"}),
        ("resume, pick it up where we left off", set()),
    ],
)
def test_what_is_wanted_is_not_what_it_is_about(prompt: str, about: set[str]) -> None:
    """Words of asking are no terms of a prompt: no memory has to name them."""
    assert asked_terms(prompt) == about
