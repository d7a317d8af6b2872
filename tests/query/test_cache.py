from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from memory_rows import MemoryRows

from headwater.query.cache import ProgressiveCache, state_of
from headwater.query.retriever import ProgressiveRetriever
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.clock import FakeClock
from headwater.schemas.config import CacheConfig, Config
from headwater.storage.tables import LanceTable

ONE = Scope("/p/one")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of tables that were read, one entry a read."""
    made: list[str] = []
    read = LanceTable._read

    def counted(self: LanceTable, call: Any, empty: Any) -> Any:
        made.append(self.name)
        return read(self, call, empty)

    monkeypatch.setattr(LanceTable, "_read", counted)
    return made


def test_second_identical_call_reads_nothing(world: Any, rows: MemoryRows, calls: list[str]) -> None:
    """Of each layer, and of the search over all three, the second identical call makes no read of any table."""
    world.add(
        world.event("a", "The cache expires too early."), world.event("b", "Why is the cache empty?", 1)
    )
    rows.memory("m", "The cache was made smaller.")
    retriever = ProgressiveRetriever(world.stores, None, Config())
    asks: tuple[Any, ...] = (
        partial(retriever.search_index, "cache", ONE),
        partial(retriever.get_timeline, ["evt_a"], ONE, 1),
        partial(retriever.get_details, ["evt_a", "mem_m"], ONE),
        partial(retriever.smart_search, "why the cache in detail", ONE),
    )
    for ask in asks:
        first: Any = ask()
        assert calls
        calls.clear()
        assert ask() == first
        assert calls == []


def test_every_argument_is_part_of_the_key(world: Any, calls: list[str]) -> None:
    """Another query, number, window, order of ids or any part of the scope is another question."""
    world.add(world.event("a", "cache"), world.event("b", "cache", 1))
    retriever = ProgressiveRetriever(world.stores, None, Config())
    scopes = (
        ONE,
        Scope(None),
        Scope("/p/one", kinds=("prompt",)),
        Scope("/p/one", session_id="s1"),
        Scope("/p/one", agent="codex"),
        Scope("/p/one", file="a.py"),
    )
    asks: list[Any] = [partial(retriever.search_index, "cache", scope) for scope in scopes]
    asks += [
        partial(retriever.search_index, "cache", ONE, 1),
        partial(retriever.search_index, "the cache", ONE),
    ]
    asks += [partial(retriever.get_timeline, ["evt_a"], ONE, n) for n in (0, 1)]
    asks += [partial(retriever.get_details, ids, ONE) for ids in (["evt_a", "evt_b"], ["evt_b", "evt_a"])]
    for ask in asks:
        calls.clear()
        ask()
        assert calls


def test_what_was_forgotten_or_changed_is_never_answered(world: Any, rows: MemoryRows) -> None:
    """A row that was deleted, changed or added is seen by the very next call, in every layer."""
    world.add(world.event("a", "cache one"), world.event("b", "cache two", 1))
    retriever = ProgressiveRetriever(world.stores, None, Config())

    def seen() -> tuple[set[str], set[str], set[str]]:
        return (
            {item.id for item in retriever.search_index("cache", ONE)},
            {item.id for item in retriever.get_timeline(["evt_a"], ONE).items},
            {item.id for item in retriever.get_details(["evt_a", "evt_b"], ONE).items},
        )

    assert seen() == ({"evt_a", "evt_b"},) * 3
    world.events.delete("id = 'evt_b'")
    assert seen() == ({"evt_a"},) * 3
    world.add(world.event("c", "cache three", 2))
    assert seen()[0] == {"evt_a", "evt_c"}
    rows.memory("m", "cache memory")
    assert "mem_m" in seen()[0]


def test_whole_texts_do_not_fill_the_memory(world: Any, calls: list[str]) -> None:
    """Searches keep no whole texts; details of more than CACHE_DETAILS_CHARS are read each time."""
    world.add(world.event("a", "cache " * 10), world.event("b", "x" * (limits.CACHE_DETAILS_CHARS + 1), 1))
    retriever = ProgressiveRetriever(world.stores, None, Config())
    assert retriever._find("cache", ONE, 5).contents == {}
    for ids, is_kept in ((["evt_a"], True), (["evt_b"], False)):
        retriever.get_details(ids, ONE)
        calls.clear()
        retriever.get_details(ids, ONE)
        assert (calls == []) is is_kept


def test_state_of_tables(world: Any, rows: MemoryRows) -> None:
    """The state changes with a commit to any table that is read, and with nothing else."""
    before = state_of(world.stores)
    assert state_of(world.stores) == before
    world.add(world.event("a", "x"))
    rows.memory("m", "x")
    rows.session("s", "x")
    states = {state_of(world.stores)}
    for write in (
        lambda: rows.session("s2", "x"),
        lambda: rows.reversal("v", "m", "n"),
        lambda: rows.threaded("evt_a", "thr_a"),
        lambda: world.events.delete("id = 'evt_a'"),
    ):
        write()
        states.add(state_of(world.stores))
    assert len({before, *states}) == 6


def test_time_and_size_end_what_is_kept() -> None:
    """An answer is kept for its layer's time; of too many the least recently used goes."""
    clock = FakeClock()
    cache = ProgressiveCache(CacheConfig(layer1_ttl=60_000, layer2_ttl=1000, layer3_ttl=0), clock)
    made: list[str] = []

    def ask(layer: int, key: str) -> str:
        def make() -> str:
            made.append(key)
            return key

        return cache.get(layer, key, make)

    for layer, kept_s in ((1, 60.0), (2, 1.0)):
        made.clear()
        ask(layer, "a")
        clock.move(kept_s - 0.001)
        ask(layer, "a")
        assert made == ["a"]
        clock.move(0.001)
        ask(layer, "a")
        assert made == ["a", "a"]
    made.clear()
    ask(3, "a")
    ask(3, "a")
    assert made == ["a", "a"]  # switched off


@pytest.mark.parametrize(
    ("layer", "size"), [(1, limits.CACHE_LAYER1), (2, limits.CACHE_LAYER2), (3, limits.CACHE_LAYER3)]
)
def test_sizes(layer: int, size: int) -> None:
    """Each layer holds its published number; what was used last stays."""
    assert {1: 100, 2: 500, 3: 200}[layer] == size
    cache = ProgressiveCache(CacheConfig(), FakeClock())
    for n in range(size):
        cache.get(layer, n, lambda: 0)
    cache.get(layer, 0, lambda: 1)
    cache.get(layer, size, lambda: 0)
    assert cache.sizes()[layer - 1] == size
    assert cache.get(layer, 0, lambda: 9) == 0
    assert cache.get(layer, 1, lambda: 9) == 9
