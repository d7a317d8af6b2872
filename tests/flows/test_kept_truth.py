"""What stays when all that is derived goes: the truth, decisions included, through archive, reprocess and backup."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from generation_rows import differences, rows_of
from journal_lines import S, append, live, payload

from headwater.flows.archive_run import run_archive
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.reprocess_run import ReprocessOptions, reprocess
from headwater.schemas.control import DecisionKind
from headwater.schemas.errors import StoreError
from headwater.storage.archive import Archive
from headwater.storage.backup import write_backup
from headwater.storage.control import ControlJournal, effective_mode, set_mode
from headwater.storage.faults import Plan, SimulatedCrash, planned
from headwater.storage.home import Home
from headwater.storage.journal import CONTROL_NAME
from headwater.storage.restore import restore_backup

NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> Home:
    """A home in its second generation: half of the recorded lines are sealed, every kind of decision is on record."""
    home = Home.open(tmp_path / "home")
    lines = live()
    for line in lines[:90]:
        append(home.journal, line)
    read(home)
    run_archive(home, older_than_s=-math.inf)
    for line in lines[90:]:
        append(home.journal, line)
    read(home)
    reprocess(home, ReprocessOptions(keep=0))
    decide(home)
    return home


def decide(home: Home) -> None:
    """Write a decision of every kind, and one of a later version."""
    control = ControlJournal(home)
    set_mode(home, "endless", at_ns=1)
    control.append(DecisionKind.PIN, {"id": "evt_1"}, at_ns=2)
    control.append(DecisionKind.FORGET, {"ids": ["evt_2"]}, at_ns=3)
    control.append(DecisionKind.CONSOLIDATE, {"project": "/p"}, at_ns=4)
    control.append(DecisionKind.PROJECT_MOVE, {"from": "/p", "to": "/q"}, at_ns=5)
    control.append("of a later version", {}, at_ns=6)


def read(home: Home) -> None:
    """Run the flow until all is read."""
    run_ingest(home, IngestOptions(None, until_idle=True))


def test_decisions_outlive_everything_derived(place: Home) -> None:
    """Reprocess, archive, and the loss of all tables leave the decisions what they are, and none becomes an event."""
    before, state = rows_of(place), ControlJournal(place).state()
    data = (place.journal / CONTROL_NAME).read_bytes()
    assert (state.mode, state.moves, len(state.ignored)) == ("endless", {"/p": "/q"}, 1)
    run_archive(place, older_than_s=-math.inf)
    assert not any(name == CONTROL_NAME for name in Archive(place.archive).names())
    reprocess(place, ReprocessOptions())
    assert (place.journal / CONTROL_NAME).read_bytes() == data
    assert ControlJournal(place).state() == state
    assert effective_mode(place) == "endless"
    assert differences(rows_of(place), before) == []


def test_mode_of_a_replay_is_that_of_its_last_decision(place: Home) -> None:
    """Decisions are sorted by their time: one that was written late, or twice, does not change what holds."""
    set_mode(place, "session", at_ns=0)
    set_mode(place, "endless", at_ns=1)
    assert effective_mode(place) == "endless"
    set_mode(place, "session", at_ns=7)
    reprocess(place, ReprocessOptions())
    assert effective_mode(place) == "session"


@pytest.mark.parametrize(
    "point", ["archive.written", "archive.sealed", "archive.published", "archive.verified"]
)
@pytest.mark.parametrize("woken", [False, True])
def test_backup_after_a_killed_archive_run_gives_the_same_events(
    place: Home, tmp_path: Path, point: str, *, woken: bool
) -> None:
    """A file on its way to the archive, with or without a new one of its name: each fact is once after the restore."""
    with planned(Plan(point, 2)), pytest.raises((SimulatedCrash, StoreError)):
        run_archive(place, older_than_s=-math.inf)
    if woken:
        on_its_way = [*place.journal.glob("*.sealed"), *place.journal.glob("claude-code-*.jsonl")]
        session = on_its_way[0].name.removeprefix("claude-code-").partition(".")[0]
        told = payload("UserPromptSubmit", prompt="once more", prompt_id="p1") | {"session_id": session}
        append(place.journal, {"received_at_ns": 1_796_100_000 * S, "payload": told})
    backup = write_backup(place, tmp_path / "b.tar.gz", now=NOW)
    other = Home(tmp_path / "other")
    restore_backup(other, backup.file, now=NOW)
    read(other)
    read(place)
    assert not list(other.root.glob("ids.gen-1*"))
    assert other.current().generation == "gen-2"
    assert differences(rows_of(other), rows_of(place)) == []
    assert rows_of(place).height == 108 + woken
    assert effective_mode(other) == "endless"
