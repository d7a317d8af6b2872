"""working-set, memories, continuity, context: what goes on, what is remembered, and how the two hang together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headwater.schemas import limits
from headwater.schemas.clock import iso
from headwater.surface import client
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, PROJECT, as_time, open_home, scope_args, scoped

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path


@click.command("working-set")
@click.option("--at", callback=as_time, metavar="TIME", help="As it was at a day or time in ISO 8601.")
@scoped
@HOME
@JSON
def working_set(
    at: datetime | None, project: str | None, home_path: Path | None, *, all_projects: bool, as_json: bool
) -> None:
    """Show what is active: at most 100 events, most relevant first."""
    args = {"at": None if at is None else iso(at), **scope_args(project, all_projects=all_projects)}
    _answer(home_path, "working_set", args, as_json=as_json)


@click.command()
@click.option("--query", metavar="TEXT", help="Those that match, by words and meaning; default the newest.")
@click.option(
    "--top-k",
    type=click.IntRange(1, limits.TOP_K_MAX),
    default=limits.MEMORIES_TOP_K,
    show_default=True,
    help="Rows at most.",
)
@scoped
@HOME
@JSON
def memories(
    query: str | None,
    top_k: int,
    project: str | None,
    home_path: Path | None,
    *,
    all_projects: bool,
    as_json: bool,
) -> None:
    """Show consolidated memories, and what was reversed by what."""
    args = {"query": query, "top_k": top_k, **scope_args(project, all_projects=all_projects)}
    with_model = query is not None
    _answer(home_path, "memories", args, as_json=as_json, rows="memories", with_model=with_model)


@click.command()
@click.option("--since", callback=as_time, metavar="TIME", help="Only from a day or time in ISO 8601 on.")
@scoped
@HOME
@JSON
def continuity(
    since: datetime | None, project: str | None, home_path: Path | None, *, all_projects: bool, as_json: bool
) -> None:
    """Show the continuity log: how each turn stands to what went before."""
    args = {"since": None if since is None else iso(since), **scope_args(project, all_projects=all_projects)}
    _answer(home_path, "continuity", args, as_json=as_json, rows="continuity")


@click.command()
@click.option(
    "--prompt", metavar="TEXT", help="The prompt; without one, what the start of a session is told."
)
@click.option(
    "--session", metavar="ID", help="As told to this session: without what it holds in its own context."
)
@click.option("--at", callback=as_time, metavar="TIME", help="As of a day or time in ISO 8601.")
@PROJECT
@HOME
@JSON
def context(
    prompt: str | None,
    session: str | None,
    at: datetime | None,
    project: str | None,
    home_path: Path | None,
    *,
    as_json: bool,
) -> None:
    """Show what an agent would be told with a prompt; nothing is remembered as told."""
    home = open_home(home_path)
    args = {
        "prompt": prompt,
        "session": session,
        "at": None if at is None else iso(at),
        **scope_args(project, all_projects=False),
    }
    with progress("reading"):
        answer = client.ask(home, "preview", args)
    if as_json:
        show_json(answer)
    elif answer["context"]:
        say(answer["context"])
    else:
        note("there is nothing good to tell")


def _answer(
    home_path: Path | None,
    operation: str,
    args: dict[str, Any],
    *,
    as_json: bool,
    rows: str | None = None,
    with_model: bool = False,
) -> None:
    """Ask, and print the answer: its text, or as JSON the rows of that name, or all of it."""
    home = open_home(home_path)
    with progress("reading"):
        answer = client.ask(home, operation, args | {"text": not as_json}, with_model=with_model)
    if not as_json:
        say(answer["text"])
        return
    show_json(answer if rows is None else answer[rows])
