"""endless enable, disable, status, consolidate: the mode in which work goes on across sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headwater.schemas.control import DecisionKind
from headwater.storage.control import ControlJournal, effective_mode, set_mode
from headwater.surface import client, processes
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, open_home, scope_args, scoped

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.storage.home import Home


@click.group()
def endless() -> None:
    """Endless mode: what is told to the agent is the work that goes on.

    Working set, memories and continuity are kept in both modes; the mode decides what an agent is told: in `session`
    mode lines of a search, in `endless` mode what is active, memories, and continuity.
    """


@endless.command()
@HOME
@JSON
def enable(home_path: Path | None, *, as_json: bool) -> None:
    """Tell agents what goes on, and consolidate the projects of the last 7 days."""
    home = open_home(home_path)
    was = effective_mode(home)
    names, captured_as = _projects(home, {"all_projects": True, "recent": True})
    set_mode(home, "endless")
    _consolidate(home, captured_as)
    if as_json:
        show_json({"mode": "endless", "was": was, "consolidating": names})
        return
    say("Endless mode is on." if was != "endless" else "Endless mode was on already.")
    _tell(home, names)


@endless.command()
@HOME
@JSON
def disable(home_path: Path | None, *, as_json: bool) -> None:
    """Return to session mode; nothing is deleted."""
    home = open_home(home_path)
    was = effective_mode(home)
    set_mode(home, "session")
    if as_json:
        show_json({"mode": "session", "was": was})
        return
    say("Session mode is on." if was != "session" else "Session mode was on already.")


@endless.command()
@scoped
@HOME
@JSON
def status(project: str | None, home_path: Path | None, *, all_projects: bool, as_json: bool) -> None:
    """Show the mode, the size of the working set, continuity and memories."""
    home = open_home(home_path)
    args = scope_args(project, all_projects=all_projects) | {"text": not as_json}
    with progress("reading"):
        answer = client.ask(home, "endless_status", args)
    if as_json:
        show_json(answer)
        return
    say(answer["text"])


@endless.command()
@scoped
@HOME
@JSON
def consolidate(project: str | None, home_path: Path | None, *, all_projects: bool, as_json: bool) -> None:
    """Make memories now of what is open and enough: at least 3 events of a thread."""
    home = open_home(home_path)
    names, captured_as = _projects(home, scope_args(project, all_projects=all_projects))
    _consolidate(home, captured_as)
    if as_json:
        show_json({"consolidating": names})
        return
    _tell(home, names)


def _projects(home: Home, args: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the projects, and the names under which they were captured."""
    with progress("reading"):
        found = client.ask(home, "projects", args)
    return found["projects"], found["captured_as"]


def _consolidate(home: Home, names: list[str]) -> None:
    journal = ControlJournal(home)
    for name in names:
        journal.append(DecisionKind.CONSOLIDATE, {"project": name})


def _tell(home: Home, names: list[str]) -> None:
    """Say which projects are consolidated, and who does it when nobody is up."""
    if not names:
        say("There is nothing to consolidate.")
        return
    say(f"To be consolidated: {len(names)} {'project' if len(names) == 1 else 'projects'}")
    for name in names:
        say(f"    {name}")
    if processes.pids(home)["ingest"] is None:
        note("nothing is up; it is done at the next: headwater up")
