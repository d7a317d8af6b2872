"""Layer 3: whole items, with what is known about them and what they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.query.budget import estimate_tokens
from headwater.query.scope import ids_where, one_of
from headwater.query.timeline import check_ids
from headwater.schemas.answers import Detail, DetailMetadata, Relations, Scope
from headwater.schemas.text import has_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.query.stores import Stores

_COLUMNS = ("id", "content", "kind", "at", "session_id", "project", "files", "tool", "parent_id")
_CHILD_ORDER = ("at", "agent", "session_id", "seq", "id")


@dataclass(frozen=True, slots=True)
class Details:
    """Items in the order they were asked for, and the asked ids that are not there or not inside the scope."""

    items: tuple[Detail, ...]
    unknown: tuple[str, ...]


def get_details(stores: Stores, ids: Sequence[str], scope: Scope) -> Details:
    """Return the whole items of some ids, each once, in the order asked.

    Raises InputError for more than DETAILS_MAX ids.
    """
    wanted = check_ids(ids)
    if not wanted:
        return Details((), ())
    found = stores.renamed(stores.events.scan(list(_COLUMNS), ids_where(wanted, scope)))
    rows = {row["id"]: row for row in found.iter_rows(named=True)}
    children = _children(stores, rows, scope)
    items = tuple(_detail(rows[item], children.get(item, [])) for item in wanted if item in rows)
    return Details(items, tuple(item for item in wanted if item not in rows))


def _children(
    stores: Stores, rows: dict[str, dict[str, Any]], scope: Scope
) -> dict[str, list[dict[str, Any]]]:
    """Return the events whose parent is one of the rows, by parent, in order; they are in the parent's session."""
    if not rows:
        return {}
    sessions = one_of("session_id", sorted({row["session_id"] for row in rows.values()}))
    # a child is told of whatever its kind, time or file: only the project is a wall
    walls = ids_where(list(rows), scope.of_project(), "parent_id")
    found = stores.events.scan([*_CHILD_ORDER, "parent_id", "tool"], f"{sessions} AND {walls}").sort(
        _CHILD_ORDER
    )
    children: dict[str, list[dict[str, Any]]] = {}
    for row in found.iter_rows(named=True):
        children.setdefault(row["parent_id"], []).append(row)
    return children


def _detail(row: dict[str, Any], children: list[dict[str, Any]]) -> Detail:
    tools = [
        event["tool"]["name"]
        for event in (row, *children)
        if event["tool"] is not None and event["tool"]["name"]
    ]
    return Detail(
        id=row["id"],
        content=row["content"],
        kind=row["kind"],
        at=row["at"],
        session_id=row["session_id"],
        project=row["project"],
        metadata=DetailMetadata(
            token_count=estimate_tokens(row["content"]),
            has_code=has_code(row["content"]),
            files=tuple(dict.fromkeys(ref["path"] for ref in row["files"] or ())),
            tools=tuple(dict.fromkeys(tools)),
        ),
        relations=Relations(parent_id=row["parent_id"], child_ids=tuple(child["id"] for child in children)),
    )
