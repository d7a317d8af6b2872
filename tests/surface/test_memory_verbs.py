"""Working set, memories, continuity and endless mode as the command line shows them."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click
import pytest
from memory_rows import PROJECT, MemoryRows, minutes

from headwater.schemas import clock, limits
from headwater.schemas.clock import iso
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.control import DecisionKind
from headwater.schemas.errors import InputError
from headwater.schemas.events import Event, Kind
from headwater.storage.control import ControlJournal, effective_mode
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore
from headwater.surface import client
from headwater.surface.cli import cli
from headwater.surface.operations import OPERATIONS, Context

if TYPE_CHECKING:
    from pathlib import Path

NOW = minutes(60)
RETRY = "the webhook worker must retry each delivery five times"


@pytest.fixture
def kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with a working set, two memories of which one was reversed, and a log; it is an hour after its start."""
    monkeypatch.setattr(clock, "SYSTEM", clock.FakeClock(NOW))
    made = Home.open(home)
    lance = LanceStore(made.lance)
    told = [("a", Kind.PROMPT, RETRY), ("b", Kind.RESPONSE, "deliveries now retry 8 times")]
    lance.open(EVENTS).add(
        events_to_arrow(
            [
                Event(f"evt_{name}", "claude-code", "s1", PROJECT, minutes(n), kind, text)
                for n, (name, kind, text) in enumerate(told)
            ]
        )
    )
    rows = MemoryRows(lance)
    rows.member("a", 0)
    rows.member("b", 1, kind=Kind.RESPONSE)
    rows.member("elsewhere", 1, project="/p/two")
    rows.memory("old", f"Asked: {RETRY}.", 0, superseded_by="mem_new")
    rows.memory("new", "Found: eight attempts\nChanged: app/worker.py.", 1)
    rows.reversal("r", "old", "new", 1)
    rows.turn("a", 0.8, 30)
    return made


def ask(home: Home, operation: str, **args: Any) -> Any:
    """Return what an operation answers."""
    return OPERATIONS[operation](Context(home), {"project": PROJECT} | args)


def run(home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a verb in this process and return what it printed."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    cli.main(["--home", str(home.root), *words], standalone_mode=False)
    return capsys.readouterr().out


def test_working_set_as_json(kept: Home) -> None:
    """The fields of the working set, times in ISO 8601, relevance of now."""
    answer = ask(kept, "working_set")
    assert list(answer) == ["events", "topics", "files", "entities", "last_activity", "continuity"]
    first, second = answer["events"]
    assert first["id"] == "evt_b"
    assert {"id", "relevance", "expires_at", "kind", "summary"} <= first.keys()
    assert (second["summary"], second["kind"]) == (RETRY, "prompt")
    assert 0.9 < first["relevance"] < 1.0
    assert first["expires_at"] == iso(minutes(1 + 24 * 60))
    assert answer["last_activity"] == iso(minutes(1))
    assert answer["continuity"] == {"score": 0.8, "type": "seamless"}


def test_working_set_at_a_time(kept: Home) -> None:
    """`at` shows what was active then."""
    assert [row["id"] for row in ask(kept, "working_set", at=iso(minutes(0)))["events"]] == ["evt_a"]
    with pytest.raises(InputError, match="ISO 8601"):
        ask(kept, "working_set", at="yesterday-ish")


def test_memories_as_json(kept: Home) -> None:
    """The fields of a memory, with what reversed it."""
    new, old = ask(kept, "memories")["memories"]
    wanted = {
        "id", "summary", "topics", "source_events", "confidence", "count", "superseded_by", "created_at", "accessed_at",
        "access_count",
    }  # fmt: skip
    assert wanted <= old.keys()
    assert (old["superseded_by"], new["superseded_by"]) == ("mem_new", None)
    assert old["reversals"] == new["reversals"]
    assert (old["reversals"][0]["old_memory"], old["reversals"][0]["new_memory"]) == ("mem_old", "mem_new")
    assert (old["accessed_at"], old["access_count"]) == (None, 0)


def test_what_a_query_finds_is_counted_as_read(kept: Home) -> None:
    """A search marks the memories it gives as accessed, a look at the newest does not."""
    assert [row["access_count"] for row in ask(kept, "memories", query="retry")["memories"]] == [0, 0]
    ask(kept, "memories")
    rows = ask(kept, "memories", query="retry")["memories"]
    assert [row["id"] for row in rows] == ["mem_new", "mem_old"]
    assert [(row["access_count"], row["accessed_at"]) for row in rows] == [(1, iso(NOW))] * 2


def test_continuity_as_json(kept: Home) -> None:
    """The fields of the log, parts that were left out as null."""
    (row,) = ask(kept, "continuity")["continuity"]
    assert row == {
        "id": "log_a",
        "from": "ctx_a",
        "to": "ctx_b",
        "score": 0.8,
        "parts": {"topics": 0.8, "files": None, "time": 1.0, "entities": None},
        "type": "seamless",
        "score_type": "topic_shift",
        "at": iso(minutes(30)),
        "project": PROJECT,
    }
    assert ask(kept, "continuity", since=iso(minutes(31)))["continuity"] == []


def test_status_of_endless_mode(kept: Home) -> None:
    """The state of the mode of one project: its working set, its log, its memories."""
    assert ask(kept, "endless_status") == {
        "mode": "session",
        "working_set_size": 2,
        "working_set_hours": 24.0,
        "continuity": {"score": 0.8, "type": "seamless"},
        "memories": 2,
        "last_consolidation": iso(minutes(2)),
        "topics": ["webhook retry"],
        "files": ["app/worker.py"],
    }


def test_an_empty_home_answers_with_nothing(home: Path) -> None:
    """Before the first event each of them is empty, and the score is unknown, not 0.5."""
    made = Home.open(home)
    assert ask(made, "working_set")["events"] == ask(made, "memories")["memories"] == []
    assert ask(made, "continuity")["continuity"] == []
    status = ask(made, "endless_status")
    assert (status["continuity"], status["memories"], status["last_consolidation"]) == (None, 0, None)


@pytest.mark.parametrize(
    "words", [["working-set"], ["memories"], ["memories", "--query", "retry"], ["continuity"]]
)
def test_text_fits_eighty_columns(
    kept: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """What a person sees keeps within 80 columns, of one project and of all."""
    for scope in (["--project", PROJECT], ["--all-projects"]):
        shown = run(kept, monkeypatch, capsys, *words, *scope)
        assert max(map(len, shown.splitlines())) <= 80
        assert PROJECT in shown or "--all-projects" not in scope


def test_enable_decides_and_consolidates(
    kept: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`enable` writes the mode and asks for the projects of the last 7 days; `disable` goes back; nothing is lost."""
    assert "Endless mode is on" in run(kept, monkeypatch, capsys, "endless", "enable")
    assert effective_mode(kept) == "endless"
    made = ControlJournal(kept).read().decisions
    assert [(one.kind, dict(one.args)) for one in made] == [
        (DecisionKind.MODE, {"mode": "endless"}),
        (DecisionKind.CONSOLIDATE, {"project": PROJECT}),
    ]
    assert "was on already" in run(kept, monkeypatch, capsys, "endless", "enable")
    assert "Session mode is on" in run(kept, monkeypatch, capsys, "endless", "disable")
    assert effective_mode(kept) == "session"
    assert ask(kept, "endless_status")["memories"] == 2


def test_projects_of_long_ago_are_not_backfilled(kept: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only projects with an event within BACKFILL_S are consolidated when the mode is enabled."""
    late = minutes(1) + timedelta(seconds=limits.BACKFILL_S + 1)
    monkeypatch.setattr(clock, "SYSTEM", clock.FakeClock(late))
    assert ask(kept, "projects", project=None, all_projects=True, recent=True)["projects"] == []
    assert ask(kept, "projects", project=None, all_projects=True)["projects"] == [PROJECT]


def test_consolidate_does_not_guess(
    kept: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In a folder that is no known project a decision asks for a name; with one it is one line of the journal."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="--all-projects"):
        run(kept, monkeypatch, capsys, "endless", "consolidate")
    assert ControlJournal(kept).read().decisions == ()
    assert PROJECT in run(kept, monkeypatch, capsys, "endless", "consolidate", "--project", PROJECT)
    assert len(ControlJournal(kept).read().decisions) == 1


def test_json_of_the_verbs(
    kept: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`memories` and `continuity` print rows, the others an object."""

    def shown(*words: str) -> Any:
        return json.loads(run(kept, monkeypatch, capsys, *words, "--project", PROJECT, "--json"))

    assert [row["id"] for row in shown("memories")] == ["mem_new", "mem_old"]
    assert [row["id"] for row in shown("continuity")] == ["log_a"]
    assert shown("working-set")["continuity"]["type"] == "seamless"
    assert shown("endless", "status")["mode"] == "session"


def test_memories_are_counted_in_status(kept: Home) -> None:
    """`status` counts memories where they lie."""
    assert client.ask(kept, "counts", {})["memories"] == 2


def test_excluding_scopes_is_wrong_use(kept: Home) -> None:
    """A project and all projects cannot both be asked for."""
    with pytest.raises(click.UsageError):
        cli.main(
            ["--home", str(kept.root), "memories", "--project", "x", "--all-projects"], standalone_mode=False
        )
