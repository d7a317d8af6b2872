from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import lancedb
import pytest
from kept_home import NOW, contents, full_home, members, used

from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import BusyError, HomeError
from headwater.storage import migrations
from headwater.storage.home import FORMAT_VERSION, Home
from headwater.storage.locks import hold_lock
from headwater.storage.migrations import Migration, count_rows, history, migrate, pending
from headwater.storage.restore import restore_backup
from headwater.storage.run_files import SUPERVISOR_LOCK
from headwater.storage.tables import LanceStore

BACKUP = "h.before-format-2-from-0-20260324T150000Z.tar.gz"


def add_columns(home: Home) -> None:
    """A step of 0 to 1: a column more in a table and in a database, without values."""
    table = lancedb.connect(home.lance).open_table(EVENTS.name)
    if "mood" not in table.schema.names:
        table.add_columns({"mood": "CAST(NULL AS STRING)"})
    with closing(sqlite3.connect(home.usage_file)) as base, base:
        if "weight" not in [row[1] for row in base.execute("PRAGMA table_info(used)")]:
            base.execute("ALTER TABLE used ADD COLUMN weight REAL")


def mark(home: Home) -> None:
    """A step of 1 to 2: a file more."""
    (home.root / "marked").write_text("yes\n", encoding="ascii")


FIRST = Migration("add-mood", 0, 1, "adds the column mood", add_columns)
SECOND = Migration("mark", 1, 2, "marks the home", mark)
STEPS = (FIRST, SECOND)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A full home of format 0."""
    made = full_home(tmp_path / "h")
    made.format_file.write_text("0\n", encoding="ascii")
    made.migrations_file.unlink()
    return made


def states(home: Home) -> list[tuple[object, object]]:
    """Return what is on record."""
    return [(row["name"], row["state"]) for row in history(home)]


def test_an_old_home_is_brought_up(home: Home, tmp_path: Path) -> None:
    """A backup, then every step in order, each recorded; counts are the same, new columns hold nulls."""
    before = count_rows(home)
    done = migrate(home, now=NOW, registry=STEPS, target=2)
    assert (done.from_version, done.to_version, done.steps) == (0, 2, STEPS)
    assert done.backup == tmp_path / BACKUP
    assert members(done.backup)["FORMAT_VERSION"] == b"0\n"
    assert json.loads(members(done.backup)["manifest.json"])["format_version"] == 0
    assert home.format_version() == 2
    assert count_rows(home) == before
    assert before["lance/gen-1/events"] == 3
    table = lancedb.connect(home.lance).open_table(EVENTS.name)
    assert table.to_arrow()["mood"].null_count == 3
    assert used(home.usage_file) == 2
    assert states(home) == [
        ("add-mood", "started"),
        ("add-mood", "done"),
        ("mark", "started"),
        ("mark", "done"),
    ]
    assert history(home)[0] == {
        "v": 1,
        "name": "add-mood",
        "from": 0,
        "to": 1,
        "state": "started",
        "at": "2026-03-24T15:00:00.000000Z",
        "headwater": history(home)[0]["headwater"],
        "backup": str(tmp_path / BACKUP),
    }
    again = migrate(home, now=NOW, registry=STEPS, target=2)
    assert (again.steps, again.backup) == ((), None)
    assert len(states(home)) == 4


def test_a_dry_run_changes_nothing(home: Home, tmp_path: Path) -> None:
    """The steps and the backup's place are told; no file is made or changed."""
    before = contents(home.root)
    done = migrate(home, now=NOW, dry_run=True, registry=STEPS, target=2)
    assert (done.steps, done.backup, done.dry_run) == (STEPS, tmp_path / BACKUP, True)
    assert contents(home.root) == before
    assert [path.name for path in tmp_path.iterdir()] == ["h"]
    assert pending(home, STEPS, 2) == STEPS
    assert pending(home, STEPS, 1) == (FIRST,)


def test_a_step_that_fails_can_be_run_again(home: Home, tmp_path: Path) -> None:
    """The home stays at the last whole version, the error says how to go on or back, and going on ends in the same."""

    def half(home: Home) -> None:
        (home.root / "half").touch()
        raise RuntimeError("boom")

    failing = (FIRST, replace(SECOND, run=half))
    before = count_rows(home)
    with pytest.raises(HomeError, match=r"stays at format 1.*boom.*Fix: run: headwater migrate") as raised:
        migrate(home, now=NOW, registry=failing, target=2)
    assert f"headwater restore --force {tmp_path / BACKUP}" in raised.value.fix
    assert home.format_version() == 1
    assert states(home)[-1] == ("mark", "started")
    dry = migrate(home, now=NOW, registry=STEPS, target=2, dry_run=True)
    assert (dry.steps, dry.backup) == ((SECOND,), tmp_path / BACKUP)
    done = migrate(home, now=NOW, registry=STEPS, target=2)
    assert done.backup == tmp_path / BACKUP
    assert home.format_version() == 2
    assert count_rows(home) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h", BACKUP]


def test_the_way_back(home: Home, tmp_path: Path) -> None:
    """After a failed step the backup puts everything back as it was before the first."""
    truth = (home.journal / "claude-code-s1.jsonl").read_bytes()

    def destroy(home: Home) -> None:
        (home.journal / "claude-code-s1.jsonl").write_bytes(b"")

    with pytest.raises(HomeError, match=r"of 18 rows or bytes of journal/claude-code-s1\.jsonl, 0 are left"):
        migrate(home, now=NOW, registry=(FIRST, replace(SECOND, run=destroy)), target=2)
    assert home.format_version() == 1
    restore_backup(home, tmp_path / BACKUP, now=NOW, force=True)
    assert home.format_version() == 0
    assert (home.journal / "claude-code-s1.jsonl").read_bytes() == truth
    assert history(home) == []


def test_rows_are_not_lost_unsaid(home: Home) -> None:
    """A step that drops rows fails and leaves the version, unless it says that it is meant to."""

    def dedupe(home: Home) -> None:
        LanceStore(home.lance).open(EVENTS, create=False).delete("agent_id IS NULL")

    step = replace(SECOND, run=dedupe, from_version=0, to_version=1)
    with pytest.raises(HomeError, match="of 3 rows or bytes of lance/gen-1/events, 0 are left"):
        migrate(home, now=NOW, registry=(step,), target=1)
    assert home.format_version() == 0
    migrate(home, now=NOW, registry=(replace(step, keeps_rows=False),), target=1)
    assert home.format_version() == 1


def test_without_a_backup_nothing_starts(home: Home, tmp_path: Path) -> None:
    """When the backup cannot be written, or something runs, no step is taken; a person may name another place."""
    (tmp_path / "taken").touch()
    with pytest.raises(Exception, match="exists already"):
        migrate(home, now=NOW, backup_file=tmp_path / "taken", registry=STEPS, target=2)
    with hold_lock(home.run / SUPERVISOR_LOCK, "x"), pytest.raises(BusyError, match="headwater down"):
        migrate(home, now=NOW, registry=STEPS, target=2)
    assert home.format_version() == 0
    assert history(home) == []
    (tmp_path / "safe").mkdir()
    done = migrate(home, now=NOW, backup_file=tmp_path / "safe" / "b.tar.gz", registry=STEPS, target=2)
    assert done.backup == tmp_path / "safe" / "b.tar.gz"
    assert "journal/claude-code-s1.jsonl" in members(done.backup)


def test_versions_that_cannot_be_reached(home: Home) -> None:
    """A newer home is refused, and one from which no steps lead here, each with the fix and untouched."""
    before = contents(home.root)
    with pytest.raises(HomeError, match=r"nothing leads from 0 to it.*Fix: use the version of headwater"):
        migrate(home, now=NOW)
    with pytest.raises(HomeError, match="nothing leads from 1 to it"):
        pending(home, (FIRST,), 2)
    with pytest.raises(HomeError, match="nothing leads from 0 to it"):
        pending(home, (replace(FIRST, to_version=3),), 2)
    assert contents(home.root) == before
    home.format_file.write_text(f"{FORMAT_VERSION + 1}\n", encoding="ascii")
    for dry_run in (True, False):
        with pytest.raises(HomeError, match="Fix: update headwater"):
            migrate(home, now=NOW, dry_run=dry_run)


def test_nothing_to_do(tmp_path: Path) -> None:
    """A home of our format, and one that the hook made, need nothing; a missing one is told."""
    home = Home.open(tmp_path / "h")
    before = contents(home.root)
    done = migrate(home, now=NOW)
    assert (done.from_version, done.to_version, done.steps) == (FORMAT_VERSION, FORMAT_VERSION, ())
    assert contents(home.root) == before
    (tmp_path / "hook" / "journal").mkdir(parents=True)
    assert migrate(Home(tmp_path / "hook"), now=NOW).steps == ()
    with pytest.raises(HomeError, match="found none"):
        migrate(Home(tmp_path / "none"), now=NOW)


def test_the_registry_is_a_chain() -> None:
    """The steps we ship have names of their own and lead from one version to the next, up to ours."""
    steps = migrations.REGISTRY
    assert len({step.name for step in steps}) == len(steps)
    for step, following in pairwise(steps):
        assert step.to_version == following.from_version
    assert not steps or steps[-1].to_version == FORMAT_VERSION


def test_a_torn_record_is_passed_over(home: Home) -> None:
    """A line that a dying process left half does not hide the others, and the next one begins a new line."""
    migrate(home, now=NOW, registry=(FIRST,), target=1)
    with home.migrations_file.open("ab") as file:
        file.write(b'{"name": "mar')
    migrate(home, now=NOW, registry=STEPS, target=2)
    assert [state for _, state in states(home)] == ["started", "done", "started", "done"]
