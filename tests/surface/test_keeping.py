"""backup, restore, export and migrate, as a person runs them."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from kept_home import full_home, members
from lance_rows import event
from program import Program

from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.errors import HomeError, InputError
from headwater.storage import home as home_module
from headwater.storage import migrations
from headwater.storage.control import ControlJournal, append_durably, set_mode
from headwater.storage.home import Home
from headwater.storage.migrations import Migration
from headwater.storage.tables import LanceStore
from headwater.surface.cli import cli
from headwater.surface.doctor import examine


def run(home: Home, *words: str) -> Result:
    """Run a verb in this process; an error of ours is raised."""
    done = CliRunner().invoke(cli, ["--home", str(home.root), *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def hook_log(path: Path, *texts: str) -> Path:
    """Write a file of prompts."""
    lines = [
        {
            "session_id": "s",
            "cwd": "/home/dev/p",
            "hook_event_name": "UserPromptSubmit",
            "prompt_id": text,
            "prompt": text,
        }
        for text in texts
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def exported(program: Program) -> list[dict[str, Any]]:
    """Return all events of a program's home."""
    text = program.run("export", "--format", "jsonl", "--all-projects").stdout
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.slow
def test_a_home_moves_by_backup_and_restore(program: Program, tmp_path: Path) -> None:
    """Backed up, put back over a home that went another way, and read again: the same events, and the new one."""
    program.run("ingest", str(hook_log(tmp_path / "one.jsonl", "refund test", "webhook retry")), "--no-embed")
    before = exported(program)
    assert [row["content"] for row in before] == ["refund test", "webhook retry"]
    file = tmp_path / "b.tar.gz"
    assert program.json("backup", str(file))["files"] == len(members(file)) - 1
    program.run("ingest", str(hook_log(tmp_path / "two.jsonl", "a wrong turn")), "--no-embed")
    refused = program.run("restore", str(file), code=1)
    assert "Fix: add --force" in refused.stderr
    done = program.json("restore", str(file), "--force")
    assert done["next"] == "headwater up"
    aside = Path(done["moved_aside"][0])
    assert aside.name.startswith("home.before-restore-")
    assert (aside / "lance").is_dir()
    program.run("ingest", str(hook_log(tmp_path / "three.jsonl", "later")), "--no-embed")
    after = exported(program)
    assert after[:2] == before
    assert [row["content"] for row in after[2:]] == ["later"]


def test_a_backup_goes_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a folder under a name with the time, here by default, and the file is said first."""
    home = full_home(tmp_path / "h")
    (tmp_path / "safe").mkdir()
    monkeypatch.chdir(tmp_path / "safe")
    for words in (("backup",), ("backup", str(tmp_path / "safe"), "--force"), ("backup", "x.tar.gz")):
        said = run(home, *words).stdout.splitlines()
        assert Path(said[0]).parent == tmp_path / "safe"
        assert Path(said[0]).is_file()
        assert said[1].startswith("11 files, ")
    assert run(home, "backup", "t.tar.gz", "--with-tables", "--json").exit_code == 0
    assert json.loads(run(home, "restore", "--home", str(tmp_path / "n"), "t.tar.gz", "--json").stdout)[
        "with_tables"
    ]
    with pytest.raises(HomeError, match="found none"):
        run(Home(tmp_path / "none"), "backup")
    text = run(Home(tmp_path / "m"), "restore", "x.tar.gz").stdout
    assert text.splitlines()[-1] == "Next: headwater up"


@pytest.fixture
def two_projects(tmp_path: Path) -> Home:
    """A home with four events, one per second from nine o'clock, in two projects by turns."""
    home = Home.open(tmp_path / "h")
    made = [event(n, f"text {n}", project=f"/p{n % 2}") for n in range(4)]
    LanceStore(home.lance).open(EVENTS).add(events_to_arrow(made))
    return home


def test_events_are_exported(two_projects: Home, tmp_path: Path) -> None:
    """By project and time, to stdout or a file that appears whole and is not replaced unasked."""
    lines = run(two_projects, "export", "--format", "jsonl", "--project", "/p1").stdout.splitlines()
    assert [json.loads(line)["content"] for line in lines if line.startswith("{")] == ["text 1", "text 3"]
    out = tmp_path / "e.parquet"
    words = ["export", "--format", "parquet", "--out", str(out), "--all-projects"]
    times = ["--since", "2026-01-05T09:00:01Z", "--until", "2026-01-05T10:00:03+01:00"]
    report = json.loads(run(two_projects, *words, *times, "--json").stdout)
    assert (report["events"], report["project"], report["file"]) == (2, None, str(out))
    assert report["since"] == "2026-01-05T09:00:01.000000Z"
    assert pq.read_table(out)["content"].to_pylist() == ["text 1", "text 2"]
    with pytest.raises(InputError, match="exists already"):
        run(two_projects, *words)
    assert pq.read_table(out).num_rows == 2
    run(two_projects, *words, "--force")
    assert pq.read_table(out).num_rows == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.parquet", "h"]


def test_a_time_without_a_zone_is_local(two_projects: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day begins at this machine's midnight."""
    monkeypatch.setenv("TZ", "Asia/Seoul")
    time.tzset()
    try:
        words = ["export", "--format", "jsonl", "--out", str(two_projects.root / "e.jsonl"), "--json"]
        report = json.loads(run(two_projects, *words, "--since", "2026-01-06").stdout)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert datetime.fromisoformat(report["since"]) == datetime(2026, 1, 5, 15, 0, tzinfo=UTC)
    assert report["events"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "parquet"), "name a file: --out FILE"),
        (("--format", "jsonl", "--json"), "name a file: --out FILE"),
        (("--format", "csv"), "'csv' is not one of"),
        (("--format", "jsonl", "--since", "yesterday"), "wanted a day or time such as"),
        ((), "Missing option '--format'"),
    ],
)
def test_wrong_use_of_export(two_projects: Home, words: tuple[str, ...], said: str) -> None:
    """Exit 2, and what was wanted."""
    done = run(two_projects, "export", *words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_migrate_tells_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening an old home names the verb; its dry run names the steps; then the home opens."""
    home = full_home(tmp_path / "h")
    assert run(home, "migrate").stdout == "Nothing to do: the home has format 1.\n"
    step = Migration("mark", 1, 2, "marks the home", lambda home: (home.root / "marked").touch())
    monkeypatch.setattr(home_module, "FORMAT_VERSION", 2)
    monkeypatch.setattr(migrations, "REGISTRY", (step,))
    with pytest.raises(HomeError, match="Fix: run: headwater migrate"):
        run(home, "status")
    dry = run(home, "migrate", "--dry-run").stdout.splitlines()
    assert dry[:2] == ["format 1 → 2, nothing done yet", "  mark (1 → 2): marks the home"]
    assert dry[2].startswith("backup would be ")
    assert not (home.root / "marked").exists()
    report = json.loads(run(home, "migrate", "--json").stdout)
    assert report["steps"] == [{"name": "mark", "from": 1, "to": 2, "says": "marks the home"}]
    assert set(members(Path(report["backup"]))) >= {"FORMAT_VERSION", "journal/control.jsonl"}
    assert Home.open(home.root).format_version() == 2
    home.format_file.write_text("3\n", encoding="ascii")
    for verb in ("migrate", "status"):
        with pytest.raises(HomeError, match="Fix: update headwater"):
            run(home, verb)


def test_status_and_doctor_know_the_decisions(tmp_path: Path) -> None:
    """The mode is the one decided; lines that are no decisions, or mean nothing, are counted and told."""
    home = Home.open(tmp_path / "h")
    set_mode(home, "endless")
    full = json.loads(run(home, "status", "--json").stdout)
    assert full["mode"] == "endless"
    assert full["control"] == {"decisions": 1, "ignored": 0, "unreadable": 0}

    def level() -> tuple[str, str]:
        return next((one.level, one.said) for one in examine(home) if one.name == "control")

    assert level() == ("ok", "1 decisions on record")
    ControlJournal(home).append("dance", {})
    assert level() == ("warn", "2 decisions on record, 1 of them mean nothing to this version")
    append_durably(ControlJournal(home).path, b"junk\n")
    assert level() == ("warn", "1 lines are no decisions")
