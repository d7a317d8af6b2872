"""project list, move: which projects there are, and that one goes on under another name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headwater.surface import client
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, open_home

if TYPE_CHECKING:
    from pathlib import Path


@click.group()
def project() -> None:
    """Projects: which there are, and that one goes on under another name."""


@project.command("list")
@HOME
@JSON
def list_(home_path: Path | None, *, as_json: bool) -> None:
    """Show all projects: events, sessions, first and last time, and the folders they were captured in."""
    home = open_home(home_path)
    with progress("reading"):
        answer = client.ask(home, "project_list", {"text": not as_json})
    if as_json:
        show_json(answer["projects"])
        return
    say(answer["text"])


@project.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option("--back", is_flag=True, help="Take it back: each has what it had before.")
@HOME
@JSON
def move(old: str, new: str, home_path: Path | None, *, back: bool, as_json: bool) -> None:
    """Let what was captured as OLD belong to NEW: after a repository was renamed, or a worktree removed.

    Both are projects or folders. It holds for all reads at once, for what is still captured as OLD, and after a
    rebuild; tables stay as they are.
    """
    from headwater.surface.project_operations import move_project

    home = open_home(home_path, create=False)
    with progress("reading"):
        rows = client.ask(home, "project_list", {})["projects"]
    roots = {root for row in rows for root in row["roots"]}
    moved = move_project(home, roots, old, new, back=back)
    if as_json:
        show_json({"from": moved.from_project, "to": moved.to_project, "changed": moved.is_new, "back": back})
        return
    if not moved.is_new:
        note("it does not belong there" if back else "it belongs there already")
        return
    say(f"What was captured as {moved.from_project}")
    say("is a project of its own again." if back else f"belongs to {moved.to_project} now.")
