from __future__ import annotations

import json
from pathlib import Path

import pytest
from lance_rows import NOW, rows

from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import InputError
from headwater.schemas.events import Fate, Part, Position
from headwater.storage import generations
from headwater.storage.home import Current, Home
from headwater.storage.known_ids import Known, KnownIds
from headwater.storage.tables import LanceStore

PLAN = {"project": None}


@pytest.fixture
def place(tmp_path: Path) -> Home:
    """A home whose first generation has a table, a register and snapshots."""
    home = Home.open(tmp_path / "home")
    fill(home.pinned())
    return home


def fill(home: Home) -> None:
    """Give a generation a row, and a register that knows it."""
    LanceStore(home.lance).open(EVENTS).add(rows(1))
    known = KnownIds(home.ids_file)
    known.intend({"evt_000001": Known(Part.HOOK, Position("f@1", 0))})
    known.settle({"evt_000001": Part.HOOK}, {Position("f@1", 0): Fate.EVENT})
    known.close()
    home.recovery.mkdir(parents=True, exist_ok=True)
    (home.recovery / "part").touch()


def names(home: Home) -> list[tuple[str, bool, bool]]:
    """Return name, current, complete of all generations."""
    return [(one.name, one.is_current, one.is_complete) for one in generations.generations(home)]


def test_new_generation_is_the_next_and_not_complete(place: Home) -> None:
    """A build begins beside the current generation, which stays as it is."""
    building, resumed = generations.begin(place, PLAN)
    assert (building.lance, resumed) == (place.root / "lance" / "gen-2", False)
    assert names(place) == [("gen-2", False, False), ("gen-1", True, True)]
    assert building.ids_file == place.root / "ids.gen-2.sqlite"
    assert place.ids_file == place.root / "ids.sqlite"


def test_same_plan_goes_on_and_another_begins_anew(place: Home) -> None:
    """What was begun by the same plan and version is gone on with; anything else is deleted first."""
    building, _ = generations.begin(place, PLAN)
    fill(building)
    assert generations.begin(place, PLAN) == (building, True)
    again, resumed = generations.begin(place, {"project": "p"})
    assert (again, resumed) == (building, False)
    assert not building.ids_file.exists()
    assert not building.recovery.exists()
    marker = building.lance / generations.MARKER
    marker.write_text(json.dumps({**json.loads(marker.read_bytes()), "version": "0.0.0"}))
    assert generations.begin(place, {"project": "p"})[1] is False
    marker.write_text("{torn")
    assert generations.begin(place, PLAN)[1] is False


def test_leftovers_of_deleted_tables_are_not_taken_over(place: Home) -> None:
    """A register whose tables somebody deleted does not become that of the new generation."""
    KnownIds(place.at("gen-2").ids_file).count_ids()
    building, _ = generations.begin(place, PLAN)
    assert not building.ids_file.exists()


def test_switch_moves_every_path_at_once(place: Home) -> None:
    """After one rename tables, register and snapshots are those of the new generation; the embedding version stays."""
    place.set_current(Current("gen-1", "v"))
    building, _ = generations.begin(place, PLAN)
    generations.switch(place, "gen-2")
    assert place.current() == Current("gen-2", "v")
    assert (place.lance, place.ids_file, place.recovery) == (
        building.lance,
        building.ids_file,
        building.recovery,
    )
    assert names(place) == [("gen-2", True, True), ("gen-1", False, True)]
    assert place.at("gen-1").ids_file == place.root / "ids.sqlite"


def test_old_ones_are_found_by_name(place: Home) -> None:
    """Only a complete generation that is not current can be gone back to; the error names those."""
    generations.begin(place, PLAN)
    generations.switch(place, "gen-2")
    assert generations.find(place, "gen-1").name == "gen-1"
    generations.begin(place, PLAN)
    for name in ("gen-2", "gen-3", "gen-9", ""):
        with pytest.raises(InputError, match="gen-1"):
            generations.find(place, name)


def test_old_ones_are_kept_by_number_the_last_current_first(place: Home) -> None:
    """`keep` others stay: the one that was current until now, then the newest."""
    for _ in range(3):
        building, _ = generations.begin(place, PLAN)
        fill(building)
        generations.switch(place, building.lance.name)
    assert generations.drop_old(place, 2, "gen-1") == ["gen-2"]
    assert [name for name, _, _ in names(place)] == ["gen-4", "gen-3", "gen-1"]
    (place.archive / "gen-1" / "events").mkdir(parents=True)
    assert generations.drop_old(place, 0, "gen-3") == ["gen-3", "gen-1"]
    assert [path.name for path in place.root.glob("ids*.sqlite")] == ["ids.gen-4.sqlite"]
    assert [path.name for path in (place.root / "recovery").iterdir()] == ["gen-4"]
    assert not (place.archive / "gen-1").exists()


def test_copy_has_rows_and_register_and_leaves_the_original_alone(place: Home) -> None:
    """A copy can be written to and deleted from; the generation it came from does not change."""
    building, _ = generations.begin(place, PLAN)
    generations.copy_tables(place.pinned(), building)
    table = LanceStore(building.lance).open(EVENTS)
    assert table.count() == 1
    table.add(rows(2))
    table.delete("id = 'evt_000001'")
    table.maintain(NOW, force=True)
    known = KnownIds(building.ids_file)
    assert known.all_ids() == {"evt_000001"}
    known.clear()
    known.close()
    original = KnownIds(place.ids_file)
    assert original.all_ids() == {"evt_000001"}
    original.close()
    assert LanceStore(place.lance).open(EVENTS).scan(["id"])["id"].to_list() == ["evt_000001"]
