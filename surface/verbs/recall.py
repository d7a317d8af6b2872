"""search, timeline, show: the three layers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headwater.schemas import limits
from headwater.schemas.events import Kind
from headwater.surface import client
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, as_day_end, as_time, open_home, scope_args, scoped

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")
"""A verb's function."""

_FILTERS = (
    click.option(
        "--since", metavar="DAY", callback=as_time, help="From this day or time on (ISO 8601, local)."
    ),
    click.option(
        "--until", metavar="DAY", callback=as_day_end, help="Up to this time; a day is taken whole."
    ),
    click.option(
        "--kind", "kinds", multiple=True, type=click.Choice([kind.value for kind in Kind]), help="Repeatable."
    ),
    click.option("--session", metavar="ID", help="Only this session."),
    click.option("--agent", metavar="NAME", help="Only this agent, such as claude-code."),
    click.option("--file", metavar="PATH", help="Only events that touch this file."),
)


def _filtered(function: F) -> F:
    """Add the options that narrow what is looked at."""
    for option in reversed(_FILTERS):
        function = option(function)
    return function


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--top-k", type=click.IntRange(1, limits.TOP_K_MAX), help="Rows at most.  [default: 10]")
@click.option("--min-score", type=click.FloatRange(0, 1), help="Rows below are weak.  [default: 0.7]")
@click.option(
    "--max-tokens",
    type=click.IntRange(100, limits.ANSWER_TOKENS_MAX),
    help="Budget of the answer.  [default: 2000]",
)
@click.option(
    "--disclosure",
    type=click.Choice(["index", "timeline", "details", "auto"]),
    default="auto",
    show_default=True,
    help="Up to which layer; auto: as the results deserve.",
)
@click.option(
    "--expand-timeline/--no-expand-timeline", default=None, help="Ask for a timeline, or forbid it."
)
@click.option("--expand-details/--no-expand-details", default=None, help="The same of whole texts.")
@_filtered
@scoped
@HOME
@JSON
def search(query: tuple[str, ...], home_path: Path | None, *, as_json: bool, **options: Any) -> None:
    """Find events, memories and sessions by words and meaning.

    One line each; what is sure is shown with its timeline and whole, within the budget. Ids in the query, a day
    ("yesterday", 2026-03-24) and a wish for detail are understood. Defaults are those of config.toml.
    """
    home = open_home(home_path)
    names = ("top_k", "min_score", "max_tokens", "disclosure", "expand_timeline", "expand_details")
    args = {
        "query": " ".join(query),
        "text": not as_json,
        **{name: options[name] for name in names if options[name] is not None},
        **_scope(options),
    }
    with progress("searching"):
        answer = client.ask(home, "search", args, with_model=True)
    if as_json:
        show_json(answer)
        return
    say(answer["text"])


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--window",
    type=click.IntRange(0, limits.TIMELINE_WINDOW_MAX),
    default=3,
    show_default=True,
    help="Events on each side of an id.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, limits.TIMELINE_ROWS_MAX),
    default=limits.TIMELINE_ROWS,
    show_default=True,
    help="Rows of a stretch of time.",
)
@_filtered
@scoped
@HOME
@JSON
def timeline(
    ids: tuple[str, ...], window: int, limit: int, home_path: Path | None, *, as_json: bool, **options: Any
) -> None:
    """Show what happened around ids, or, without any, from --since to --until."""
    if not ids and options["since"] is None and options["until"] is None:
        raise click.UsageError("name an id, or a time: --since, --until")
    home = open_home(home_path)
    args = {"ids": list(ids), "window": window, "limit": limit, "text": not as_json, **_scope(options)}
    answer = client.ask(home, "timeline", args)
    if as_json:
        show_json(answer["timeline"])
    else:
        say(answer["text"] or "Nothing happened then.")
    _tell_unknown(answer["unknown"])
    if answer["more"]:
        note(f"{answer['more']:,} more: raise --limit, or narrow --since and --until")


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@scoped
@HOME
@JSON
def show(
    ids: tuple[str, ...], project: str | None, home_path: Path | None, *, all_projects: bool, as_json: bool
) -> None:
    """Show events, memories and summaries of sessions whole."""
    home = open_home(home_path)
    args = {"ids": list(ids), "text": not as_json, **scope_args(project, all_projects=all_projects)}
    answer = client.ask(home, "details", args)
    if as_json:
        show_json(answer["details"])
    else:
        say(answer["text"])
    _tell_unknown(answer["unknown"])


def _scope(options: dict[str, Any]) -> dict[str, Any]:
    """Return the scope of a request from a verb's options."""
    from headwater.schemas.clock import iso

    scope = scope_args(options["project"], all_projects=options["all_projects"])
    for name in ("since", "until"):
        if options[name] is not None:
            scope[name] = iso(options[name])
    scope |= {name: options[name] for name in ("session", "agent") if options[name] is not None}
    if options["kinds"]:
        scope["kinds"] = list(options["kinds"])
    if options["file"] is not None:
        scope["file"] = _in_project(options["file"], scope["project"] or scope["here"])
    return scope


def _in_project(file: str, project: str) -> str:
    """Return a path as events name it: relative to the project when it is there, else as it was typed."""
    path = Path(file).expanduser()
    absolute = path.absolute()
    if (path.is_absolute() or path.exists()) and absolute.is_relative_to(project):
        return absolute.relative_to(project).as_posix()
    return path.as_posix().removeprefix("./")


def _tell_unknown(unknown: list[str]) -> None:
    if unknown:
        note(f"not found in this scope: {', '.join(one[:40] for one in unknown)}")
