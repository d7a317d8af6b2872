"""The one place where a scope becomes a filter. Every read of the query module goes through `where`."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from headwater.schemas.clock import iso
from headwater.schemas.events import FileOp
from headwater.storage.tables import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from headwater.schemas.answers import Scope


def where(scope: Scope, *, files: bool = True, time: str = "at") -> str | None:
    """Return the Lance filter of a scope, None when it lets everything through.

    `files=False` leaves the file out, for tables without that column (vectors). `time` is the table's column of when a
    row happened.
    """
    parts = []
    if scope.project is not None:
        parts.append(one_of_names((scope.project, *scope.moved)))
    if scope.session_id is not None:
        parts.append(f"session_id = {quote(scope.session_id)}")
    if scope.agent is not None:
        parts.append(f"agent = {quote(scope.agent)}")
    if scope.kinds:
        parts.append(one_of("kind", scope.kinds))
    if scope.since is not None:
        parts.append(f"{time} >= {time_literal(scope.since)}")
    if scope.until is not None:
        parts.append(f"{time} < {time_literal(scope.until)}")
    if files and scope.file is not None:
        parts.append(_touches(scope.file))
    return " AND ".join(parts) or None


def both(first: str | None, second: str | None) -> str | None:
    """Return the filter that lets through what both let through."""
    if first is None or second is None:
        return second if first is None else first
    return f"({first}) AND ({second})"


def one_of(column: str, values: Iterable[str]) -> str:
    """Return the filter of a column that holds one of the values (at least one)."""
    return f"{column} IN ({', '.join(quote(value) for value in values)})"


def one_of_names(names: Sequence[str]) -> str:
    """Return the filter of the projects with these names (at least one)."""
    return f"project = {quote(names[0])}" if len(names) == 1 else one_of("project", names)


def ids_where(ids: Sequence[str], scope: Scope, column: str = "id") -> str:
    """Return the filter of ids inside a scope."""
    inside = where(scope)
    wanted = one_of(column, ids)
    return wanted if inside is None else f"{wanted} AND {inside}"


def _touches(path: str) -> str:
    # Lance cannot look into a struct of a list, but it can look for a whole one
    options = (f"array_has(files, named_struct('path', {quote(path)}, 'op', '{op.value}'))" for op in FileOp)
    return f"({' OR '.join(options)})"


def time_literal(at: datetime) -> str:
    """Return a time as a literal of a Lance filter."""
    return f"timestamp '{iso(at.astimezone(UTC))}'"
