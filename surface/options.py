"""Options that verbs share, and the home they lead to."""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headwater.schemas.clock import iso
from headwater.schemas.errors import InputError
from headwater.storage.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")
"""A verb's function."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")

HOME = click.option(
    "--home",
    "home_path",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Headwater home; default HEADWATER_HOME, else your user data folder.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
PROJECT = click.option(
    "--project",
    metavar="FOLDER",
    help="Only this project; default the project of this folder, when it is known.",
)
ALL_PROJECTS = click.option("--all-projects", is_flag=True, help="All projects.")


def as_time(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Read a day or a time in ISO 8601, as an option's callback: without a zone it is local, as its writer means it."""
    return _as_moment(ctx, param, value, 0)


def as_day_end(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Read the end of a stretch of time: a day is taken whole, so that it ends with the next one's start."""
    return _as_moment(ctx, param, value, 1)


def _as_moment(ctx: click.Context, param: click.Parameter, value: str | None, days: int) -> datetime | None:
    if value is None:
        return None
    try:
        return _moment(param.name or "time", value, days)
    except InputError as error:
        raise click.BadParameter(error.problem, ctx, param) from error


def whole_day(name: str, value: str) -> str:
    """Return the start of a local day, or a time (local without a zone), as ISO 8601 in UTC. Raises InputError."""
    return iso(_moment(name, value, 0))


def day_after(name: str, value: str) -> str:
    """Return the end of a local day, or a time, as ISO 8601 in UTC. Raises InputError."""
    return iso(_moment(name, value, 1))


def _moment(name: str, value: str, days: int) -> datetime:
    try:
        text = value.strip()
        if _DAY.fullmatch(text):
            return datetime.combine(date.fromisoformat(text) + timedelta(days=days), time()).astimezone(UTC)
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InputError(
            name,
            f"wanted a day or time such as 2026-03-24 or 2026-03-24T15:00Z, got {value!r:.60}",
            "write it in ISO 8601",
        ) from error


def scoped(function: F) -> F:
    """Add --project and --all-projects to a verb."""
    return PROJECT(ALL_PROJECTS(function))


def scope_args(project: str | None, *, all_projects: bool) -> dict[str, Any]:
    """Return the scope of a request: a named project as its canonical path, and the project of this folder."""
    from headwater.surface.projects import resolve_project

    if project is not None and all_projects:
        raise click.UsageError("--project and --all-projects exclude each other")
    named = None
    if project is not None:
        looks_like_path = project.startswith((".", "~", os.sep)) or Path(project).exists()
        named = resolve_project(str(Path(project).expanduser().absolute())) if looks_like_path else project
    return {"project": named, "all_projects": all_projects, "here": resolve_project(str(Path.cwd()))}


def open_home(home_path: Path | None, *, create: bool = True) -> Home:
    """Return the home of a verb: its option, that of the group, the environment, the default."""
    return Home.open(_named(home_path), create=create)


def unopened_home(home_path: Path | None) -> Home:
    """Return the same home without looking at it: for verbs that put one in its place or change its format."""
    named = _named(home_path)
    return Home(Home.default_root() if named is None else named.expanduser().absolute())


def _named(home_path: Path | None) -> Path | None:
    context = click.get_current_context(silent=True)
    if home_path is None and context is not None:
        home_path = (context.find_root().params or {}).get("home_path")
    return home_path
