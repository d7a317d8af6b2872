from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas import limits
from headwater.schemas.errors import DamagedError
from headwater.schemas.events import Fate, Part, Position
from headwater.storage.known_ids import Known, KnownIds

S_US = 1_000_000
A = Position("a.jsonl@1", 0)
B = Position("b.jsonl@2", 10)


@pytest.fixture
def known(tmp_path: Path) -> Iterator[KnownIds]:
    """Return an empty register."""
    made = KnownIds(tmp_path / "ids.sqlite")
    yield made
    made.close()


def number(known: KnownIds, offset: int, at_s: float, source: str = "f", delivery: str = "2") -> int:
    """Return the number of an equal fact at an offset."""
    return known.occurrence(source, "key", delivery, offset, int(at_s * S_US))


def test_equal_facts_are_counted(known: KnownIds) -> None:
    """Facts that are equal and not near in time have numbers from 0."""
    assert [number(known, n * 100, n * 60) for n in range(4)] == [0, 1, 2, 3]


def test_two_seconds_are_one_delivery(known: KnownIds) -> None:
    """Within 2 s of the one before, equal content is the same fact; just beyond, it is another."""
    assert limits.DELIVERY_S == 2
    assert [number(known, 0, 0), number(known, 100, 2), number(known, 200, 4.000001)] == [0, 0, 1]


def test_sources_deliveries_and_keys_count_apart(known: KnownIds) -> None:
    """Each source file and each delivery starts at 0: so the hook's fact and the import's meet in one id."""
    assert number(known, 0, 0) == 0
    assert number(known, 100, 60) == 1
    assert number(known, 0, 0, source="g") == 0
    assert number(known, 100, 60, source="g") == 1
    assert number(known, 200, 120, delivery="1") == 0
    assert known.occurrence("f", "other", "2", 300, 0) == 0


def test_replay_gives_the_same_numbers(tmp_path: Path) -> None:
    """Asked again, in any order, also by another process, a fact has the number it had."""
    known = KnownIds(tmp_path / "ids.sqlite")
    facts = [(0, 0.0), (100, 1.0), (200, 60.0), (300, 61.0), (400, 3600.0)]
    first = [number(known, *fact) for fact in facts]
    assert first == [0, 0, 1, 1, 2]
    assert [number(known, *fact) for fact in reversed(facts)] == first[::-1]
    known.close()
    again = KnownIds(tmp_path / "ids.sqlite")
    assert [number(again, *fact) for fact in facts] == first
    again.close()


def test_a_fact_that_comes_late_is_one_of_its_own(known: KnownIds) -> None:
    """One that stands before others and is told after them does not become one of them, unless it is near in time."""
    assert number(known, 500, 600) == 0
    assert number(known, 900, 900) == 1
    assert number(known, 100, 0) == 2
    assert number(known, 490, 599) == 0
    assert number(known, 100, 0) == 2


FACTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12, unique_by=lambda fact: fact[0]
)


@given(FACTS, st.randoms(use_true_random=False))
def test_no_two_facts_become_one(
    tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[int, int]], random: object
) -> None:
    """In any order of arrival, facts that are further apart than a delivery never share a number; replays agree."""
    known = KnownIds(tmp_path_factory.mktemp("ids") / "ids.sqlite")
    told = [(offset, at * 3.0) for offset, at in facts]
    order = list(told)
    random.shuffle(order)  # type: ignore[attr-defined]
    numbers = {offset: number(known, offset, at_s) for offset, at_s in order}
    for offset, at_s in told:
        assert number(known, offset, at_s) == numbers[offset]
        for other, other_s in told:
            assert numbers[offset] != numbers[other] or at_s == other_s
    known.close()


def test_ids_are_known_when_settled(known: KnownIds) -> None:
    """An id is an intent until it is settled; then it counts, with its deliveries and where it came from."""
    known.intend({"e1": Known(Part.HOOK, A)})
    assert (known.intents(), known.count_ids(), known.all_ids()) == (["e1"], 0, set())
    assert known.lookup(["e1", "e2"]) == {"e1": Known(Part.HOOK, A)}
    for _ in range(2):
        known.settle({"e1": Part.HOOK | Part.TRANSCRIPT}, {A: Fate.EVENT, B: Fate.MERGED})
        assert (known.intents(), known.count_ids(), known.all_ids()) == ([], 1, {"e1"})
    assert known.lookup(["e1"]) == {"e1": Known(Part.HOOK | Part.TRANSCRIPT, A)}


def test_an_intent_does_not_undo_what_is_known(known: KnownIds) -> None:
    """Intending a known id again keeps it, its deliveries and its first line."""
    known.intend({"e1": Known(Part.HOOK, A)})
    known.settle({"e1": Part.HOOK}, {})
    known.intend({"e1": Known(Part.TRANSCRIPT, B)})
    assert known.intents() == []
    assert known.lookup(["e1"]) == {"e1": Known(Part.HOOK, A)}


def test_a_line_keeps_its_first_fate(known: KnownIds) -> None:
    """A line has one fate; told again, it stays."""
    known.settle({}, {A: Fate.EVENT})
    known.settle({}, {A: Fate.DUPLICATE, B: Fate.NOISE})
    assert known.fates([A, B, Position("none", 0)]) == {A: Fate.EVENT, B: Fate.NOISE}
    between, after = Position(A.file, 5), Position(A.file, 9)
    known.settle({}, {between: Fate.NOISE, after: Fate.NOISE})
    assert known.fates([A, after, Position(A.file, 3)]) == {
        A: Fate.EVENT,
        after: Fate.NOISE,
    }  # not of what lies between
    assert known.fates([]) == {}


def test_forgotten_ids_may_come_again(known: KnownIds) -> None:
    """An id that is not in the table is dropped with the fate of its line, so that the line may bring it again."""
    known.intend({"e1": Known(Part.HOOK, A), "e2": Known(Part.HOOK, B)})
    known.settle({"e1": Part.HOOK, "e2": Part.HOOK}, {A: Fate.EVENT, B: Fate.EVENT})
    known.forget(["e1", "none"])
    assert known.all_ids() == {"e2"}
    assert known.fates([A, B]) == {B: Fate.EVENT}
    known.intend({"e1": Known(Part.HOOK, A)})
    assert known.intents() == ["e1"]


def test_adopted_ids(known: KnownIds) -> None:
    """Ids that only the table knows are taken in as written, without a line; an intent among them is settled."""
    known.intend({"e1": Known(Part.HOOK, A)})
    for _ in range(2):
        known.adopt({"e1": Part.HOOK, "e2": Part.TRANSCRIPT})
    assert known.all_ids() == {"e1", "e2"}
    assert known.intents() == []
    assert known.lookup(["e1", "e2"]) == {
        "e1": Known(Part.HOOK, A),
        "e2": Known(Part.TRANSCRIPT, Position("", -1)),
    }


def test_many_ids_at_once(known: KnownIds) -> None:
    """More ids than a statement takes are looked up in pieces."""
    names = {f"e{n}": Known(Part.HOOK, Position("f", n)) for n in range(limits.IDS_PER_FILTER * 2 + 1)}
    known.intend(names)
    assert known.lookup(list(names)) == names
    known.settle(dict.fromkeys(names, Part.HOOK), {})
    assert known.count_ids() == len(names)


def test_fates_are_counted_by_span(known: KnownIds) -> None:
    """Counts are of all lines, or of byte spans of files: start in, end out."""
    fates = {Position("f", n): Fate.EVENT for n in range(0, 50, 10)} | {Position("g", 0): Fate.NOISE}
    known.settle({}, fates)
    none = dict.fromkeys(Fate, 0)
    assert known.count_fates() == none | {Fate.EVENT: 5, Fate.NOISE: 1}
    assert known.count_fates([("f", 10, 30)]) == none | {Fate.EVENT: 2}
    assert known.count_fates([("f", 0, 10), ("f", 40, 41), ("g", 0, 1), ("h", 0, 9)]) == none | {
        Fate.EVENT: 2,
        Fate.NOISE: 1,
    }
    assert known.count_fates([]) == none


def test_looking_writes_nothing(tmp_path: Path) -> None:
    """Asking for lines of unknown files leaves no trace of them."""
    known = KnownIds(tmp_path / "ids.sqlite")
    known.fates([A, B])
    known.count_fates([("x", 0, 1)])
    known.lookup(["e1"])
    with known._db.reading() as connection:
        assert connection.execute("SELECT count(*) FROM files").fetchone() == (0,)
    known.close()


def test_a_failed_write_leaves_no_numbers_behind(known: KnownIds) -> None:
    """A transaction that is undone takes the numbers of its files with it; the next one is right."""
    with pytest.raises(OverflowError):
        known.settle({}, {Position("new", 0): Fate.EVENT, Position("new", 2**70): Fate.EVENT})
    known.settle({}, {B: Fate.NOISE})
    known.settle({}, {Position("new", 0): Fate.EVENT})
    assert known.fates([Position("new", 0), B]) == {Position("new", 0): Fate.EVENT, B: Fate.NOISE}


def test_state_survives_and_damage_is_told(tmp_path: Path) -> None:
    """What is on record is there for the next process; a damaged file says what to do."""
    path = tmp_path / "ids.sqlite"
    known = KnownIds(path)
    known.intend({"e1": Known(Part.HOOK, A)})
    known.settle({"e1": Part.HOOK}, {A: Fate.EVENT})
    known.close()
    assert known.fates([A]) == {A: Fate.EVENT}
    known.close()
    path.write_bytes(b"damaged" * 1000)
    with pytest.raises(DamagedError, match="Fix: "):
        KnownIds(path).count_ids()
