"""Which projects there are, and one that goes on under another name: in every read, and back."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from journal_lines import START_NS, append, payload
from memory_rows import MemoryRows, minutes

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.reprocess_run import ReprocessOptions, reprocess
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.control import ControlState
from headwater.schemas.errors import InputError
from headwater.schemas.events import Event, Kind
from headwater.storage.control import ControlJournal
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore
from headwater.surface.cli import cli
from headwater.surface.operations import OPERATIONS, Context
from headwater.surface.project_operations import move_project

OLD, NEW, OTHER, LEFT = "/p/old", "/p/new", "/p/other", "/p/left"


@pytest.fixture(scope="module")
def filled() -> Iterator[Home]:
    """A home with an event, a memory, an active event and a turn of each of four projects."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        yield fill(Home.open(Path(folder) / "home"))


@pytest.fixture
def kept(filled: Home) -> Home:
    """The same home before anything was decided."""
    ControlJournal(filled).path.unlink(missing_ok=True)
    return filled


def fill(made: Home) -> Home:
    """Write the rows."""
    lance = LanceStore(made.lance)
    places = ((OLD, "o", 0), (NEW, "n", 10), (OTHER, "x", 20), (LEFT, "l", -60))
    lance.open(EVENTS).add(
        events_to_arrow(
            [
                Event(f"evt_{name}", "codex", f"s_{name}", place, minutes(n), Kind.PROMPT, f"webhook {name}")
                for place, name, n in places
            ]
        )
    )
    rows = MemoryRows(lance)
    for place, name, n in places:
        rows.member(name, n, project=place, session_id=f"s_{name}")
        rows.memory(name, f"Asked: webhook {name}.", n, project=place)
        rows.turn(name, 0.8, n, project=place)
        rows.session(name, f"Asked: {name}.", n, project=place)
    return made


def ask(context: Context, operation: str, **args: Any) -> Any:
    """Return what an operation answers."""
    return OPERATIONS[operation](context, args)


def seen(context: Context, project: str) -> dict[str, set[str]]:
    """Return which things each kind of read gives for a project, with the projects that they name."""
    found = ask(context, "search", query="webhook", project=project)["index"]
    memories = ask(context, "memories", project=project)["memories"]
    ids = ["evt_o", "evt_n", "evt_x", "evt_l"]
    moment = "2026-01-05T09:30:00Z"
    return {
        "search": {one["id"] for one in found} | {one["project"] for one in found},
        "memories": {one["id"] for one in memories} | {one["project"] for one in memories},
        "memory search": {
            one["id"] for one in ask(context, "memories", query="webhook", project=project)["memories"]
        },
        "working set": {
            one["id"] for one in ask(context, "working_set", at=moment, project=project)["events"]
        },
        "details": {one["id"] for one in ask(context, "details", ids=ids, project=project)["details"]},
        "timeline": {one["id"] for one in ask(context, "timeline", ids=ids, project=project)["timeline"]},
        "continuity": {one["project"] for one in ask(context, "continuity", project=project)["continuity"]},
        "sessions": {row["session_id"] for row in context.cache().sessions(context.stores.called(project))},
    }


def things(*names: str, project: str) -> dict[str, set[str]]:
    """Return what `seen` gives when a project has the things of these names."""
    events = {f"evt_{name}" for name in names}
    memories = {f"mem_{name}" for name in names}
    return {
        "search": events | memories | {project},  # memories stand beside events
        "memories": memories | {project},
        "memory search": memories,
        "working set": events,
        "details": events,
        "timeline": events,
        "continuity": {project},
        "sessions": {f"{name}" for name in names},
    }


def move(home: Home, old: str, new: str, *, back: bool = False) -> bool:
    """Decide a move and return whether it changed anything."""
    return move_project(home, {OLD, NEW, OTHER, LEFT}, old, new, back=back).is_new


def run(home: Home, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a verb in this process and return what it printed on stdout."""
    cli.main(["--home", str(home.root), *words], standalone_mode=False)
    return capsys.readouterr().out


def test_what_moved_belongs_to_the_other_project_in_every_read(kept: Home) -> None:
    """Search, memories, working set, details, timeline, continuity, sessions: by the new name and by the old one."""
    context = Context(kept)
    assert seen(context, OLD) == things("o", project=OLD)
    assert seen(context, NEW) == things("n", project=NEW)
    assert move(kept, OLD, NEW)
    for name in (NEW, OLD):  # an open context sees it at once
        assert seen(context, name) == things("o", "n", project=NEW)
    assert seen(context, OTHER) == things("x", project=OTHER)
    assert ask(context, "counts")["projects"] == 3
    everything = ask(context, "search", query="webhook", all_projects=True)["index"]
    assert {one["project"] for one in everything} == {NEW, OTHER, LEFT}


def test_a_move_told_twice_is_one_move_and_can_be_taken_back(kept: Home) -> None:
    """Nothing is appended the second time; back again each project has what it had, also a project that came along."""
    context = Context(kept)
    assert move(kept, OTHER, OLD)
    assert move(kept, OLD, NEW)
    assert not move(kept, OLD, NEW)
    assert seen(context, NEW) == things("o", "n", "x", project=NEW)
    assert move(kept, OLD, NEW, back=True)
    assert not move(kept, OLD, NEW, back=True)
    assert seen(context, OLD) == things("o", "x", project=OLD)
    assert seen(context, NEW) == things("n", project=NEW)
    assert move(kept, OTHER, OLD, back=True)
    assert ControlJournal(kept).state() == ControlState()


def test_a_renamed_project_moves_back_under_its_old_name(kept: Home) -> None:
    """Where the new name has no events of its own, moving the other way is the way back."""
    context = Context(kept)
    assert move(kept, OLD, "/p/renamed")
    assert seen(context, "/p/renamed") == things("o", project="/p/renamed")
    assert move(kept, "/p/renamed", OLD)
    assert seen(context, OLD) == things("o", project=OLD)


@pytest.mark.parametrize(("old", "new"), [("/p/nowhere", NEW), (NEW, NEW), ("", NEW)])
def test_an_unknown_project_and_itself_are_refused(kept: Home, old: str, new: str) -> None:
    """What has no events cannot move, and nothing moves to where it is; nothing is decided then."""
    with pytest.raises(InputError, match="wanted"):
        move(kept, old, new)
    assert ControlJournal(kept).read().decisions == ()


def test_what_is_captured_in_the_old_folder_after_the_move_belongs_there_too(kept: Home) -> None:
    """A session that goes on in the old folder, or asks for context there, is the new project's."""
    context = Context(kept)
    move(kept, LEFT, NEW)
    late = Event("evt_late", "codex", "s_l", LEFT, minutes(-50), Kind.RESPONSE, "webhook late")
    LanceStore(kept.lance).open(EVENTS).add(events_to_arrow([late]))
    found = ask(context, "search", query="webhook late", here=LEFT)["index"]
    assert {"evt_late", "evt_l", "evt_n"} == {one["id"] for one in found if one["id"].startswith("evt_")}
    there, here = (ask(context, "preview", project=name) for name in (LEFT, NEW))
    assert there == here
    assert "webhook n" in here["context"]


def test_a_decision_about_a_project_is_one_about_all_its_names(kept: Home) -> None:
    """What closes windows goes by the names that events were captured under."""
    move(kept, OLD, NEW)
    for name in (OLD, NEW):
        assert ask(Context(kept), "projects", project=name) == {"projects": [NEW], "captured_as": [NEW, OLD]}


def test_what_moves_to_a_moved_project_goes_where_that_is(kept: Home) -> None:
    """A move to a name that belongs elsewhere does not call that back."""
    context = Context(kept)
    move(kept, OLD, NEW)
    move(kept, OTHER, OLD)
    assert seen(context, OLD) == things("o", "n", "x", project=NEW)


def test_the_list_shows_what_there_is_and_where_it_came_from(
    kept: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project seen last comes first; a moved one stands under its new name with the old one as a root."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert "Moved" not in run(kept, capsys, "project", "move", OLD, NEW)
    rows = json.loads(run(kept, capsys, "project", "list", "--json"))
    assert [(row["project"], row["events"], row["sessions"], row["roots"]) for row in rows[:2]] == [
        (OTHER, 1, 1, [OTHER]),
        (NEW, 2, 2, [NEW, OLD]),
    ]
    assert (rows[1]["first_at"], rows[1]["last_at"]) == (
        "2026-01-05T09:00:00.000000Z",
        "2026-01-05T09:10:00.000000Z",
    )
    text = run(kept, capsys, "project", "list")
    assert "2 events in 2 sessions" in text
    assert f"captured as {OLD}" in text
    assert max(map(len, text.splitlines())) <= 80


def test_moves_hold_after_all_tables_were_built_anew(tmp_path: Path) -> None:
    """`reprocess` keeps the names of the rows, and reads go on to give them to the project they were moved to."""
    home = Home.open(tmp_path / "h")
    told = payload("UserPromptSubmit", prompt="webhook retry", prompt_id="p1")
    append(home.journal, {"payload": told, "received_at_ns": START_NS}, project=OLD)
    run_ingest(home, IngestOptions(None, until_idle=True))
    context = Context(home)
    assert move_project(home, {OLD}, OLD, NEW).is_new
    reprocess(home, ReprocessOptions(project=NEW))
    reprocess(home, ReprocessOptions())
    assert home.current().generation == "gen-3"
    for at in (context, Context(home)):
        found = ask(at, "search", query="webhook", project=NEW)["index"]
        assert {one["project"] for one in found} == {NEW}
