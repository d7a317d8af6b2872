from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from lance_rows import NOW

from headwater.schemas import limits
from headwater.storage.usage import Access, Injection, ToldItem, Usage


@pytest.fixture
def usage(tmp_path: Path) -> Usage:
    """A file that does not exist yet."""
    return Usage(tmp_path / "usage.sqlite")


def test_readings_are_counted(usage: Usage) -> None:
    """Each call counts a memory once, and keeps the newest time."""
    usage.mark_accessed(["m1", "m2", "m1"], NOW)
    usage.mark_accessed(["m1"], NOW + timedelta(hours=1))
    usage.mark_accessed(["m2"], NOW - timedelta(hours=1))
    assert usage.accesses(["m1", "m2", "m3"]) == {
        "m1": Access(NOW + timedelta(hours=1), 2),
        "m2": Access(NOW, 2),
    }


def test_counts_survive_the_process(usage: Usage, tmp_path: Path) -> None:
    """Another process reads what was written; ids are derived, so the counts outlive rebuilt tables."""
    usage.mark_accessed(["m1"], NOW)
    usage.close()
    assert Usage(tmp_path / "usage.sqlite").accesses(["m1"])["m1"].access_count == 1


def test_reading_makes_no_file(usage: Usage, tmp_path: Path) -> None:
    """Who only looks leaves nothing behind."""
    assert usage.accesses(["m1"]) == {}
    assert usage.injections("s") == ()
    assert usage.fresh_start("s") is None
    usage.mark_accessed([], NOW)
    assert list(tmp_path.iterdir()) == []


def test_many_ids_are_asked_for_in_parts(usage: Usage) -> None:
    """More ids than one statement takes are all found."""
    ids = [f"m{n}" for n in range(limits.IDS_PER_FILTER + 3)]
    usage.mark_accessed(ids, NOW)
    assert len(usage.accesses(ids)) == len(ids)


def test_injections_of_a_session(usage: Usage) -> None:
    """What was brought in is remembered per session and ask, oldest first; the same ask again replaces."""
    first = Injection("a", NOW, 10, ("e1", "e2"))
    second = Injection("b", NOW + timedelta(seconds=1), 5, ())
    for one in (second, first, first):
        usage.record_injection("s1", one)
    usage.record_injection("s2", first)
    assert usage.injections("s1") == (first, second)


def test_a_fresh_start_forgets(usage: Usage) -> None:
    """An emptied context was told nothing; other sessions keep theirs."""
    one = Injection("a", NOW, 10, ("e1",))
    usage.record_injection("s1", one)
    usage.record_injection("s2", one)
    usage.start_afresh("s1", NOW + timedelta(hours=1))
    assert usage.injections("s1") == ()
    assert usage.injections("s2") == (one,)
    assert usage.fresh_start("s1") == NOW + timedelta(hours=1)


def test_old_sessions_are_forgotten(usage: Usage) -> None:
    """What is older than USAGE_KEEP_S goes when something new is written."""
    late = NOW + timedelta(seconds=limits.USAGE_KEEP_S + 1)
    usage.start_afresh("s1", NOW)
    usage.record_injection("s1", Injection("a", NOW, 10, ("e1",)))
    usage.record_injection("s2", Injection("a", late, 10, ("e1",)))
    assert usage.injections("s1") == ()
    assert usage.fresh_start("s1") is None
    assert len(usage.injections("s2")) == 1


def told(item: str, **more: object) -> ToldItem:
    """Return a thing that a session was told."""
    return replace(ToldItem("codex:s1", "a", item, "/p", NOW, is_start=False, score=0.5), **more)  # type: ignore[arg-type]


def test_what_was_told_waits_for_its_outcome_and_keeps_it(usage: Usage) -> None:
    """Each thing is kept once, and outlives an emptied context; an outcome is not lost when it is told again."""
    assert usage.told() == []
    items = [told("found:e1"), told("memory:m1", score=None)]
    for _ in range(2):
        usage.record_injection("codex:s1", Injection("a", NOW, 10, ("found:e1", "memory:m1")), items)
    assert usage.told(undecided=True) == items
    done = told("found:e1", turn="evt_a", used=False, terms=1, files=0)
    usage.decide([done])
    usage.decide([done])
    usage.record_injection("codex:s1", Injection("a", NOW, 10, ("found:e1",)), items[:1])
    usage.start_afresh("codex:s1", NOW)
    assert usage.told() == [done, items[1]]
    assert usage.told(undecided=True) == items[1:]


def test_what_was_told_a_year_ago_is_forgotten(usage: Usage) -> None:
    """What is older than TOLD_KEEP_S goes when something new is told."""
    late = NOW + timedelta(seconds=limits.TOLD_KEEP_S + 1)
    usage.record_injection("codex:s1", Injection("a", NOW, 10, ("found:e1",)), [told("found:e1")])
    new = told("found:e2", ask="b", at=late)
    usage.record_injection("codex:s1", Injection("b", late, 10, ("found:e2",)), [new])
    assert usage.told() == [new]
