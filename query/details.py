"""Layer 3: whole items, with what is known about them and what they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from headwater.query import summaries
from headwater.query.budget import estimate_tokens
from headwater.query.scope import both, ids_where, one_of, where
from headwater.query.timeline import check_ids
from headwater.schemas import limits
from headwater.schemas.answers import Detail, DetailMetadata, Relations, Scope
from headwater.schemas.events import Kind
from headwater.schemas.memory_columns import EVENT_THREADS
from headwater.schemas.text import has_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headwater.query.stores import Stores
    from headwater.query.summaries import Summary

_COLUMNS = ("id", "content", "kind", "at", "session_id", "project", "files", "tool", "parent_id")
_CHILD_ORDER = ("at", "agent", "session_id", "seq", "id")
_PLACES: dict[str, Any] = {"id": pl.String, "thread_id": pl.String, "at": pl.Datetime("us", "UTC")}


@dataclass(frozen=True, slots=True)
class Details:
    """Items in the order they were asked for, and the asked ids that are not there or not inside the scope."""

    items: tuple[Detail, ...]
    unknown: tuple[str, ...]


def get_details(stores: Stores, ids: Sequence[str], scope: Scope) -> Details:
    """Return the whole items of some ids, each once, in the order asked: events, memories, session summaries.

    Parent and children are a prompt, its tools and response; those of a memory are the events that it is made of.
    Related are the nearest RELATED in time of the same thread, but for these. Raises InputError for more than
    DETAILS_MAX ids.
    """
    wanted = check_ids(ids)
    if not wanted:
        return Details((), ())
    found = summaries.get_summaries(stores, wanted, scope)
    rows = _rows(stores, [one for one in wanted if one not in found], scope)
    children = _children(stores, rows, scope)
    relations = {id_: _relations(row["parent_id"], children.get(id_, [])) for id_, row in rows.items()}
    relations |= {one.id: Relations(child_ids=one.source_events) for one in found.values()}
    near = _related(stores, relations, list(found.values()), scope)
    details = {
        id_: _detail(row, children.get(id_, []), _with(relations[id_], near.get(id_, ())))
        for id_, row in rows.items()
    }
    details |= {
        one.id: _of_summary(one, _with(relations[one.id], near.get(one.id, ()))) for one in found.values()
    }
    items = tuple(details[item] for item in wanted if item in details)
    return Details(items, tuple(item for item in wanted if item not in details))


def nearest(places: pl.DataFrame, thread: pl.DataFrame, count: int) -> dict[str, tuple[str, ...]]:
    """Return id -> the `count` nearest in time of its thread, nearest first, equally near by newer, then by id.

    Both frames are `id, thread_id, at`: the items asked about, and all there are of their threads.
    """
    others = thread.rename({"id": "other", "at": "other_at"})
    gaps = (
        places.join(others, on="thread_id")
        .filter(pl.col("id") != pl.col("other"))
        .with_columns((pl.col("at") - pl.col("other_at")).abs().alias("gap"))
        .sort(["id", "gap", "other_at", "other"], descending=[False, False, True, False])
    )
    best = gaps.group_by("id", maintain_order=True).head(count)
    return {
        id_: tuple(rows.get_column("other").to_list())
        for (id_,), rows in best.group_by(["id"], maintain_order=True)
        if isinstance(id_, str)
    }


def _rows(stores: Stores, ids: Sequence[str], scope: Scope) -> dict[str, dict[str, Any]]:
    if not ids:
        return {}
    found = stores.renamed(stores.events.scan(list(_COLUMNS), ids_where(ids, scope)))
    return {row["id"]: row for row in found.iter_rows(named=True)}


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


def _related(
    stores: Stores, relations: dict[str, Relations], memories: Iterable[Summary], scope: Scope
) -> dict[str, tuple[str, ...]]:
    """Return id -> what else is near in the same thread: events for an event, memories for a memory."""
    told = {id_: {*one.child_ids, one.parent_id} for id_, one in relations.items()}
    most = limits.RELATED + max((len(ids) for ids in told.values()), default=0)
    events = [id_ for id_ in relations if not summaries.is_summary(id_)]
    near: dict[str, tuple[str, ...]] = {}
    if events:
        table, walls = stores.table(EVENT_THREADS), where(scope.of_project())
        columns = ["event_id", "thread_id", "at"]
        places = table.scan(columns, both(one_of("event_id", events), walls)).rename({"event_id": "id"})
        threads = places.get_column("thread_id").unique().sort().to_list()
        if threads:
            all_of = table.scan(columns, both(one_of("thread_id", threads), walls))
            near |= nearest(places, all_of.rename({"event_id": "id"}), most)
    kept = [(one.id, one.thread_id, one.at) for one in memories if one.thread_id]
    if kept:
        places = pl.DataFrame(kept, schema=_PLACES, orient="row")
        threads = places.get_column("thread_id").unique().sort().to_list()
        near |= nearest(places, summaries.thread_memories(stores, threads, scope), most)
    return {
        id_: tuple(other for other in others if other not in told[id_])[: limits.RELATED]
        for id_, others in near.items()
    }


def _relations(parent: str | None, children: Sequence[dict[str, Any]]) -> Relations:
    return Relations(parent_id=parent, child_ids=tuple(child["id"] for child in children))


def _with(relations: Relations, related: tuple[str, ...]) -> Relations:
    return Relations(relations.parent_id, relations.child_ids, related)


def _detail(row: dict[str, Any], children: list[dict[str, Any]], relations: Relations) -> Detail:
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
        relations=relations,
    )


def _of_summary(one: Summary, relations: Relations) -> Detail:
    metadata = DetailMetadata(estimate_tokens(one.content), has_code(one.content))
    return Detail(
        one.id, one.content, Kind.INSIGHT.value, one.at, one.session_id, one.project, metadata, relations
    )
