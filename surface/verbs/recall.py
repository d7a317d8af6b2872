"""search, timeline, show: the three layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headwater.schemas import limits
from headwater.surface import client
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, open_home, scope_args, scoped

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--top-k", type=click.IntRange(1, limits.TOP_K_MAX), default=10, show_default=True, help="Rows at most."
)
@scoped
@HOME
@JSON
def search(
    query: tuple[str, ...],
    top_k: int,
    project: str | None,
    home_path: Path | None,
    *,
    all_projects: bool,
    as_json: bool,
) -> None:
    """Find events by words and meaning: one line each."""
    home = open_home(home_path)
    args = {
        "query": " ".join(query),
        "top_k": top_k,
        "text": not as_json,
        **scope_args(project, all_projects=all_projects),
    }
    with progress("searching"):
        answer = client.ask(home, "search", args, with_model=True)
    if as_json:
        show_json(answer)
        return
    say(answer["text"])


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--window",
    type=click.IntRange(0, limits.TIMELINE_WINDOW_MAX),
    default=3,
    show_default=True,
    help="Events on each side.",
)
@scoped
@HOME
@JSON
def timeline(
    ids: tuple[str, ...],
    window: int,
    project: str | None,
    home_path: Path | None,
    *,
    all_projects: bool,
    as_json: bool,
) -> None:
    """Show what happened around events."""
    home = open_home(home_path)
    args = {
        "ids": list(ids),
        "window": window,
        "text": not as_json,
        **scope_args(project, all_projects=all_projects),
    }
    answer = client.ask(home, "timeline", args)
    if as_json:
        show_json(answer["timeline"])
    else:
        say(answer["text"])
    _tell_unknown(answer["unknown"])


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@scoped
@HOME
@JSON
def show(
    ids: tuple[str, ...], project: str | None, home_path: Path | None, *, all_projects: bool, as_json: bool
) -> None:
    """Show events whole."""
    home = open_home(home_path)
    args = {"ids": list(ids), "text": not as_json, **scope_args(project, all_projects=all_projects)}
    answer = client.ask(home, "details", args)
    if as_json:
        show_json(answer["details"])
    else:
        say(answer["text"])
    _tell_unknown(answer["unknown"])


def _tell_unknown(unknown: list[str]) -> None:
    if unknown:
        note(f"not found in this scope: {', '.join(one[:40] for one in unknown)}")
