from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from import_bench import bring_in
from journal_lines import DATA
from transcript_lines import S1, answered, at, called, gave, line, said, write

from headwater.storage.home import Home
from headwater.surface.cli import cli
from headwater.surface.console import Progress
from headwater.surface.importers.dry_run import dry_run

LOG = (said(1, "look"), called(2, "t1"), gave(3, "t1"), line("progress", 4), answered(9, "done"))


def test_sessions_times_and_reasons_are_told_and_nothing_is_written(tmp_path: Path) -> None:
    """A look at a log counts its records by kind and names what would be skipped; no home is made."""
    path = write(tmp_path / "s.jsonl", *LOG)
    home = tmp_path / "home"
    shown = CliRunner().invoke(cli, ["ingest", "--dry-run", "--json", "--home", str(home), str(path)])
    report = json.loads(shown.output)
    session = report["sessions"][0]
    assert (session["session_id"], session["project"], session["file"]) == (S1, "/p", str(path))
    assert (session["first_at"], session["last_at"]) == (at(1), at(9))
    assert session["records"] == {"session_start": 1, "prompt": 1, "tool": 1, "tool result": 1, "response": 1}
    assert report["skipped"] == {"progress: repeats what messages tell": 1}
    assert not home.exists()


def test_text_names_sessions_and_reasons(tmp_path: Path) -> None:
    """The same for a person."""
    path = write(tmp_path / "s.jsonl", *LOG)
    shown = CliRunner().invoke(cli, ["ingest", "--dry-run", "--home", str(tmp_path / "home"), str(path)])
    assert f"{S1}  {at(1)}  {at(9)}" in shown.output
    assert "1 skipped: progress: repeats what messages tell" in shown.output
    assert "nothing was written" in shown.output


def test_what_is_told_already_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an import, a look finds nothing new, and writes nothing."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    home = Home.open(tmp_path / "home")
    path = write(tmp_path / "s.jsonl", *LOG)
    bring_in(home, path)
    before = {file: file.stat().st_size for file in home.journal.iterdir()}
    report = dry_run(home, [path], None, Progress("looking"))
    assert (report["lines"], report["duplicates"], report["records"]) == (5, {"told before": 4}, {})
    assert {file: file.stat().st_size for file in home.journal.iterdir()} == before


def test_all_formats_are_counted(tmp_path: Path) -> None:
    """Hook logs, transcripts and rollouts side by side: every record is counted once."""
    paths = [DATA / "claude_code_live.jsonl.gz", DATA / "claude_code_live_transcripts", DATA / "codex_live"]
    report = dry_run(None, paths, None, Progress("looking"))
    assert report["lines"] == 185 + 549 + 6 + 18
    told = (
        sum(report["skipped"].values()) + sum(report["duplicates"].values()) + sum(report["records"].values())
    )
    assert told == report["lines"] + 17  # the beginning of a session is told with its first line
    assert {session["agent"] for session in report["sessions"]} == {"claude-code", "codex"}
