from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_rows import PROJECT, MemoryRows, minutes

from headwater.query.memories import ConsolidatedStore
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.query.memories import Memory

HERE = Scope(PROJECT)


def names(found: Sequence[Memory]) -> list[str]:
    """Return the ids without their prefix."""
    return [one.id.removeprefix("mem_") for one in found]


def test_a_sentence_finds_a_memory(world: Any, rows: MemoryRows) -> None:
    """A whole sentence finds the memory that shares words with it, in any order; not only a text that contains it."""
    rows.memory("retry", "Asked: retry each webhook five times. Found: backoff lives in app/worker.py.")
    rows.memory("image", "Asked: make the docker image smaller. Found: slim debian.")
    found = ConsolidatedStore(world.stores).search("how many times do we retry a webhook again?", HERE)
    assert names(found)[0] == "retry"
    assert all(0 < (one.score or 0) <= 1 for one in found)


def test_korean_and_code_are_found(world: Any, rows: MemoryRows) -> None:
    """A memory is found by a part of a Korean word, and by an identifier before all that only resemble it."""
    rows.memory("ko", "결제 토큰을 레디스에 저장하고 만료 시간은 60초로 두자")
    rows.memory("code", "Found: `MAX_RETRIES` is read in app/worker.py.")
    rows.memory("prose", "Found: the max of retries is read in the worker of the app, retries, retries.")
    assert names(ConsolidatedStore(world.stores).search("토큰 만료", HERE))[0] == "ko"
    assert names(ConsolidatedStore(world.stores).search("where is MAX_RETRIES read", HERE))[0] == "code"


def test_meaning_finds_what_words_do_not(world: Any, rows: MemoryRows) -> None:
    """With an encoder a memory is found without a word in common; vectors of other items are not looked at."""
    rows.memory("a", "delivery attempts grow apart")
    world.vectors.points = {"mem_a": (0.9, 0.1), "mem_gone": (1.0, 0.0)}
    world.vectors.kind = "memory"
    store = ConsolidatedStore(world.stores, world.encoder)
    assert names(store.search("zzz", HERE)) == ["a"]
    assert world.vectors.filters == [f"project = '{PROJECT}'"]
    world.vectors.kind = "entry"
    assert store.search("zzz", HERE) == []


def test_superseded_stands_below_what_superseded_it(world: Any, rows: MemoryRows) -> None:
    """The memory that holds now comes first, also when the words match the old one only, over a chain of two."""
    rows.memory("old", "retry five times retry five times", superseded_by="mem_mid")
    rows.memory("mid", "eight attempts", 1, superseded_by="mem_new")
    rows.memory("new", "a dozen attempts", 2)
    store = ConsolidatedStore(world.stores)
    assert names(store.search("retry five times", HERE)) == ["new", "mid", "old"]
    assert names(store.search("retry five times", HERE, 1)) == ["new"]


def test_a_circle_of_reversals_ends(world: Any, rows: MemoryRows) -> None:
    """Two memories that supersede one another, and one that names itself, are each found once."""
    rows.memory("a", "retry five times", superseded_by="mem_b")
    rows.memory("b", "retry eight times", superseded_by="mem_a")
    rows.memory("c", "retry never", superseded_by="mem_c")
    assert sorted(names(ConsolidatedStore(world.stores).search("retry", HERE))) == ["a", "b", "c"]


def test_recent_are_by_their_last_event(world: Any, rows: MemoryRows) -> None:
    """The newest memories are those whose last event is newest."""
    for n in range(4):
        rows.memory(f"m{n}", f"words {n}", n)
    store = ConsolidatedStore(world.stores)
    assert names(store.recent(HERE, 3)) == ["m3", "m2", "m1"]
    assert store.count(HERE) == 4
    assert store.last_at(HERE) == minutes(4)
    assert ConsolidatedStore(world.stores).last_at(Scope("/none")) is None


def test_a_project_does_not_see_another(world: Any, rows: MemoryRows) -> None:
    """Search, the newest, rows by id and reversals are all of one project; what superseded is, too."""
    rows.memory("mine", "retry five times", superseded_by="mem_theirs")
    rows.memory("theirs", "retry five times", project="/p/two")
    rows.reversal("r", "mine", "theirs", project="/p/two")
    store = ConsolidatedStore(world.stores)
    assert names(store.search("retry", HERE)) == names(store.recent(HERE)) == ["mine"]
    assert store.get(["mem_theirs"], HERE) == []
    assert store.reversals(["mem_mine"], HERE) == []
    assert len(store.search("retry", Scope(None))) == 2


def test_reversals_name_both_sides(world: Any, rows: MemoryRows) -> None:
    """What was reversed by what is found from either memory, in order of time."""
    rows.reversal("b", "old", "new", 2)
    rows.reversal("a", "older", "old", 1)
    store = ConsolidatedStore(world.stores)
    assert [one.id for one in store.reversals(["mem_old"], HERE)] == ["rev_a", "rev_b"]
    assert store.reversals([], HERE) == []


def test_tables_that_do_not_exist_are_empty(world: Any) -> None:
    """Before the flow has written anything there are no memories, without an error."""
    store = ConsolidatedStore(world.stores)
    assert store.search("retry", HERE) == store.recent(HERE) == store.get(["x"], HERE) == []
    assert store.count(HERE) == 0


def test_five_are_given_unless_asked_otherwise(world: Any, rows: MemoryRows) -> None:
    """A search gives MEMORIES_TOP_K memories."""
    for n in range(limits.MEMORIES_TOP_K + 2):
        rows.memory(f"m{n}", f"retry the webhook {n}")
    assert len(ConsolidatedStore(world.stores).search("webhook", HERE)) == limits.MEMORIES_TOP_K


@pytest.mark.parametrize("top_k", [0, 101])
def test_top_k_has_bounds(world: Any, top_k: int) -> None:
    """A number of rows outside its bounds is an error that says what was wanted."""
    with pytest.raises(InputError, match="wanted 1 to 100"):
        ConsolidatedStore(world.stores).search("x", HERE, top_k)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=60))
def test_no_query_raises(world: Any, rows: MemoryRows, query: str) -> None:
    """Any text can be asked."""
    rows.memory("a", "retry (five) times: 'it's' 100%")
    ConsolidatedStore(world.stores).search(query, HERE)
