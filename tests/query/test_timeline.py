from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headwater.query.stores import Stores
from headwater.query.timeline import timeline, timeline_between
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.control import DecisionKind
from headwater.schemas.errors import InputError
from headwater.schemas.events import Kind
from headwater.storage.control import ControlJournal
from headwater.storage.day_files import Export, days_to_write, folder_of, write_day
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore

ONE = Scope("/p/one")


def shape(found: Any) -> str:
    """Return the ids in order, targets in capitals."""
    names = [item.id.removeprefix("evt_") for item in found.items]
    return "".join(
        name.upper() if item.is_target else name for name, item in zip(names, found.items, strict=True)
    )


@pytest.fixture
def filled(world: Any) -> Any:
    """Session s1 has a to j, one a minute; s2 lies in between with x, y, z; project two has the session s9."""
    world.add(*(world.event(name, f"text {name}", minute) for minute, name in enumerate("abcdefghij")))
    world.add(
        *(
            world.event(name, f"text {name}", minute + 0.5, session_id="s2")
            for minute, name in enumerate("xyz")
        )
    )
    world.add(world.event("w", "secret", 2, session_id="s9", project="/p/two"))
    return world


@pytest.mark.parametrize(
    ("ids", "window", "wanted"),
    [
        ("e", 3, "bcdEfgh"),
        ("a", 2, "Abc"),
        ("j", 1, "iJ"),
        ("e", 0, "E"),
        ("ef", 1, "dEFg"),
        ("fe", 1, "dEFg"),
        ("ch", 1, "bCdgHi"),
        ("y", 3, "xYz"),
        ("ay", 1, "AxbYz"),
        ("", 3, ""),
    ],
)
def test_neighbours_in_the_session(filled: Any, ids: str, window: int, wanted: str) -> None:
    """Events around each target in its own session, each once, in order, every target marked."""
    found = timeline(filled.stores, [f"evt_{name}" for name in ids], ONE, window)
    assert shape(found) == wanted
    assert found.unknown == ()


def test_unknown_ids_are_told(filled: Any) -> None:
    """What is not there, or in another project, is named and not shown."""
    found = timeline(filled.stores, ["evt_nope", "evt_e", "evt_w", "x' OR 1=1 --"], ONE, 0)
    assert shape(found) == "E"
    assert found.unknown == ("evt_nope", "evt_w", "x' OR 1=1 --")
    assert timeline(filled.stores, ["evt_w"], ONE).items == ()
    assert shape(timeline(filled.stores, ["evt_w"], Scope(None))) == "W"


def test_scope_holds_for_neighbours(world: Any) -> None:
    """A session that went through two projects shows the asked one only."""
    world.add(world.event("a", "x", 0), world.event("b", "x", 1, project="/p/two"), world.event("c", "x", 2))
    assert shape(timeline(world.stores, ["evt_a"], ONE, 3)) == "Ac"


def test_order_of_equal_times(world: Any) -> None:
    """Equal times are ordered by agent, session, place in the source, id."""
    world.add(*(world.event(name, "x", seq=seq) for name, seq in (("d", 3), ("b", 1), ("c", 2), ("a", 4))))
    assert shape(timeline(world.stores, ["evt_c"], ONE, 1)) == "bCd"


def test_sessions_of_two_agents_with_one_name_are_two(world: Any) -> None:
    """A session belongs to its agent."""
    world.add(world.event("a", "x", 0), world.event("b", "x", 1, agent="codex"), world.event("c", "x", 2))
    assert shape(timeline(world.stores, ["evt_a"], ONE, 1)) == "Ac"


def test_preview_is_one_line_and_never_empty(world: Any) -> None:
    """Long texts are cut at 200 characters, code is abbreviated, an event without text says what it is."""
    world.add(
        world.event("a", "Look:\n```python\nprint(1)\n```\n" + "word " * 100),
        world.event("b", "", 1, kind=Kind.SESSION_END),
        world.event("c", "", 2, kind=Kind.TOOL, tool="Bash"),
    )
    first, second, third = timeline(world.stores, ["evt_a"], ONE).items
    assert first.preview.startswith("Look: [python code] word")
    assert len(first.preview) <= limits.PREVIEW_CHARS
    assert "\n" not in first.preview
    assert (second.preview, third.preview) == ("[session end]", "[tool Bash]")


def test_bounds(filled: Any) -> None:
    """A window or a number of ids outside the bounds is refused."""
    for window in (-1, limits.TIMELINE_WINDOW_MAX + 1):
        with pytest.raises(InputError):
            timeline(filled.stores, ["evt_a"], ONE, window)
    with pytest.raises(InputError):
        timeline(filled.stores, [str(n) for n in range(limits.DETAILS_MAX + 1)], ONE)


def test_a_stretch_of_time_has_its_events_in_order(filled: Any) -> None:
    """Without ids: what happened in the time, across sessions, `since` inclusive and `until` exclusive."""
    inside = Scope("/p/one", since=filled.event("", minute=1).at, until=filled.event("", minute=3).at)
    assert shape(timeline_between(filled.stores, inside)) == "bycz"
    found = timeline_between(filled.stores, inside, 3, targets=["evt_y"])
    assert (shape(found), found.more) == ("bYc", 1)
    for limit in (0, limits.TIMELINE_ROWS_MAX + 1):
        with pytest.raises(InputError):
            timeline_between(filled.stores, inside, limit)


def test_a_stretch_of_time_reads_the_archive_as_well(world: Any, tmp_path: Path) -> None:
    """Events that only the archive's days have are there, those that both have once, forgotten ones not at all."""
    home = Home.open(tmp_path / "home")
    table = LanceStore(home.lance).open(EVENTS)
    days = [
        world.event("a", "one", 0),
        world.event("b", "two", 1, files=["src/a.py"]),
        world.event("c", "three", 2, project="/p/two"),
        world.event("d", "four", 3),
    ]
    table.add(events_to_arrow(days))
    export = Export(EVENTS, "at", ("agent", "session_id", "seq"), ("parts", "content_hash"))
    now = datetime(2026, 3, 1, tzinfo=UTC)
    for day in days_to_write(table, export, folder_of(home, export), now):
        write_day(table, export, folder_of(home, export), day)
    table.delete("id IN ('evt_b', 'evt_d')")
    table.add(events_to_arrow([world.event("e", "five", 24 * 60)]))
    stores = Stores.open(home)
    assert shape(timeline_between(stores, ONE)) == "abde"
    ControlJournal(home).append(DecisionKind.FORGET, {"ids": ["evt_d"]})
    found = timeline_between(stores, ONE)
    assert shape(found) == "abe"
    assert [item.preview for item in found.items] == ["one", "two", "five"]
    assert shape(timeline_between(stores, Scope("/p/one", file="src/a.py"))) == "b"
    assert shape(timeline_between(stores, Scope(None, kinds=("prompt",), until=days[3].at))) == "abc"
    assert shape(timeline_between(stores, Scope("/p/one", session_id="s2"))) == ""
    assert shape(timeline_between(stores, Scope("/p/one", moved=("/p/two",)))) == "abce"
    (folder_of(home, export) / "date=2026-01-05" / "part-0.parquet").write_bytes(b"no parquet")
    assert shape(timeline_between(stores, ONE)) == "ae"
