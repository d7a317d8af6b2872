"""The command line: exit codes, one line of error with its fix, help for everything."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from program import Program

from headwater.surface.cli import VERBS, cli


def test_every_verb_has_help_and_is_in_the_reference() -> None:
    """A verb without a sentence of help, or missing in docs/cli.md, is not finished."""
    root = click.Context(cli, info_name="headwater")
    reference = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    for name in VERBS:
        command = cli.get_command(root, name)
        assert command is not None
        assert command.help, name
        assert f"## headwater {name}" in reference


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("frobnicate",), 2, "No such command"),
        (("search",), 2, "Missing argument"),
        (("search", "x", "--top-k", "0"), 2, "not in the range"),
        (("search", "x", "--project", "p", "--all-projects"), 2, "exclude each other"),
        (("show", "evt_nothing00000"), 1, "Fix: "),
        (("timeline", "evt_nothing00000"), 1, "Fix: "),
        (("ingest", "missing.jsonl"), 1, "Fix: "),
        (("--home", "relative-home", "down"), 1, "Fix: "),
    ],
)
def test_wrong_use_is_one_line_with_the_next_step(
    program: Program, words: tuple[str, ...], code: int, said: str
) -> None:
    """Exit 2 for wrong use, 1 for not done; never a traceback."""
    done = program.run(*words, code=code)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    if code == 1:
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_broken_setting_is_told_with_file_line_and_key(program: Program) -> None:
    """The message names where the mistake is, what came, and what to do."""
    program.home.config_file.write_text('mode = "session"\n\n[ingest]\nrescan_s = -1\n', encoding="utf-8")
    done = program.run("up", code=1)
    assert "line 4" in done.stderr
    assert "ingest.rescan_s" in done.stderr
    assert "-1" in done.stderr


def test_an_unknown_model_is_answered_at_once(program: Program, tmp_path: Path) -> None:
    """No minute of retries: the name, what is known, and the fix."""
    program.env["HEADWATER_EMBEDDING__MODEL"] = "no-such-model"
    log = tmp_path / "empty.jsonl"
    log.write_text("", encoding="utf-8")
    done = program.run("ingest", str(log), code=1)
    assert "no-such-model" in done.stderr
    assert "Fix: " in done.stderr


def test_search_in_an_empty_home_says_so(program: Program) -> None:
    """No events yet is an answer, not an error."""
    assert program.json("search", "anything")["index"] == []
    assert "Nothing found" in program.run("search", "anything").stdout


def test_status_speaks_json_and_eighty_columns(program: Program) -> None:
    """The promised keys are there, and the text fits a terminal."""
    full = program.status()
    assert full["running"] == {"ingest": False, "server": False}
    keys = {
        "home", "mode", "running", "wakes", "hook_failures", "events", "sessions", "projects", "quarantined",
        "journal_lag_bytes", "jobs", "vectors", "memories", "embedding_version",
    }  # fmt: skip
    assert keys <= full.keys()
    for line in program.run("status").stdout.splitlines():
        assert len(line) <= 80 or full["home"] in line
