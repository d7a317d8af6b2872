"""Layer 2: what happened around some items, in their sessions, or in a stretch of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from headwater.query import summaries
from headwater.query.scope import both, ids_where, one_of, where
from headwater.query.search import label
from headwater.query.summary import preview
from headwater.schemas import limits
from headwater.schemas.answers import Scope, TimelineItem
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import InputError
from headwater.schemas.events import Kind
from headwater.storage.control import ControlJournal
from headwater.storage.day_files import scan_days

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headwater.query.stores import Stores
    from headwater.query.summaries import Summary

_ORDER = ("at", "agent", "session_id", "seq", "id")
_SESSION = ("agent", "session_id")
_TEXT = ("id", "content", "tool")
_HEAD = (*_ORDER, "kind")
WINDOW = 3


@dataclass(frozen=True, slots=True)
class Timeline:
    """Items in order, the asked ids that are not there or not inside the scope, and how many more there are."""

    items: tuple[TimelineItem, ...]
    unknown: tuple[str, ...]
    more: int = 0


def timeline(stores: Stores, ids: Sequence[str], scope: Scope, window: int = WINDOW) -> Timeline:
    """Return the events at most `window` places before or after any of the ids in its session, each once, in order.

    Places are counted among the session's events inside the scope, in the order (at, agent, session, seq, id).
    `is_target` holds for each of the ids, also where it is another one's neighbour. A memory stands behind the last of
    its events, a session's summary behind the last of the session, and the `window` events before it are shown. Raises
    InputError for a window outside 0 to TIMELINE_WINDOW_MAX or more than DETAILS_MAX ids.
    """
    if not 0 <= window <= limits.TIMELINE_WINDOW_MAX:
        problem = f"wanted 0 to {limits.TIMELINE_WINDOW_MAX} events on each side, got {window}"
        raise InputError("window", problem, "ask for a smaller window")
    wanted = check_ids(ids)
    found = summaries.get_summaries(stores, wanted, scope)
    events = [one for one in wanted if one not in found]
    targets = (
        stores.events.scan(["id", *_SESSION], ids_where(events, scope))
        if events
        else pl.DataFrame(schema=dict.fromkeys(("id", *_SESSION), pl.String))
    )
    known = {*targets.get_column("id").to_list(), *found}
    unknown = tuple(item for item in wanted if item not in known)
    shown = [_around(stores, targets, scope, window)] if not targets.is_empty() else []
    shown += [_before(stores, one, scope, window) for one in found.values()]
    return Timeline(_placed(stores, shown, tuple(found.values())), unknown)


def timeline_between(
    stores: Stores, scope: Scope, limit: int = limits.TIMELINE_ROWS, targets: Sequence[str] = ()
) -> Timeline:
    """Return the first `limit` items of a scope's stretch of time, in order, the targets marked.

    Events are read from the table and from the archive's days, each once; what was forgotten is in neither. Raises
    InputError for a limit outside 1 to TIMELINE_ROWS_MAX.
    """
    if not 1 <= limit <= limits.TIMELINE_ROWS_MAX:
        problem = f"wanted 1 to {limits.TIMELINE_ROWS_MAX} rows, got {limit}"
        raise InputError("limit", problem, "ask for fewer rows, or for a shorter time")
    live = stores.events.scan(list(_HEAD), where(scope))
    kept = _archived(stores, scope, _HEAD)
    heads = live if kept is None else pl.concat([live, kept]).unique("id")
    beside = summaries.summaries_between(stores, scope)
    first = heads.sort(_ORDER).head(limit).with_columns(pl.col("id").is_in(list(targets)).alias("is_target"))
    texts = stores.events.by_ids(first.get_column("id").to_list(), list(_TEXT))
    missing = first.filter(~pl.col("id").is_in(texts.get_column("id").to_list())).get_column("id")
    if missing.len() and (older := _archived(stores, scope, _TEXT, missing)) is not None:
        texts = pl.concat([texts, older], how="vertical_relaxed")
    items = [*_items(first, texts), *(_summary_item(one, is_target=one.id in targets) for one in beside)]
    items.sort(key=lambda item: item.at)
    return Timeline(tuple(items[:limit]), (), heads.height + len(beside) - min(limit, len(items)))


def around(rows: pl.DataFrame, targets: Sequence[str], window: int) -> pl.DataFrame:
    """Return the rows (`at, agent, session_id, seq, id, ...`) near a target, in order, with `is_target`."""
    placed = rows.sort(_ORDER).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).over(_SESSION).alias("place"),
        pl.col("id").is_in(list(targets)).alias("is_target"),
    )
    centres = placed.filter("is_target").select(*_SESSION, pl.col("place").alias("centre"))
    near = placed.join(centres, on=_SESSION).filter((pl.col("place") - pl.col("centre")).abs() <= window)
    return near.drop("centre").unique("id").sort(_ORDER)


def check_ids(ids: Sequence[str]) -> list[str]:
    """Return the ids, each once, in order. Raises InputError for more than DETAILS_MAX."""
    wanted = list(dict.fromkeys(ids))
    if len(wanted) > limits.DETAILS_MAX:
        raise InputError(
            "ids", f"wanted at most {limits.DETAILS_MAX}, got {len(wanted)}", "ask for fewer at a time"
        )
    return wanted


def _around(stores: Stores, targets: pl.DataFrame, scope: Scope, window: int) -> pl.DataFrame:
    sessions = one_of("session_id", targets.get_column("session_id").unique().sort().to_list())
    rows = stores.events.scan(list(_HEAD), both(sessions, where(scope)))
    return around(rows, targets.get_column("id").to_list(), window).drop("place")


def _before(stores: Stores, one: Summary, scope: Scope, window: int) -> pl.DataFrame:
    """Return the last events that a summary is made of, none of them a target."""
    walls = replace(scope, kinds=())  # a scope of summaries still tells what one was made of
    own = both(one_of("session_id", [one.session_id]), one_of("agent", [one.agent]))
    inside = both(own, where(walls)) if one.session_id else None
    if not one.session_id:
        inside = ids_where(one.source_events[-limits.IDS_PER_FILTER :], walls) if one.source_events else None
    if inside is None or not window:
        return pl.DataFrame()
    rows = stores.events.scan(list(_HEAD), inside).sort(_ORDER).tail(window)
    return rows.with_columns(pl.lit(value=False).alias("is_target"))


def _archived(
    stores: Stores, scope: Scope, columns: Sequence[str], ids: pl.Series | None = None
) -> pl.DataFrame | None:
    """Return rows of a scope from the archive's days, None when there are none. What was forgotten is left out."""
    if stores.home is None:
        return None
    days = scan_days(stores.home, EVENTS, scope.since, scope.until)
    if days is None:
        return None
    kept = days.filter(_inside(scope))
    forgotten = ControlJournal(stores.home).state().forgets
    if forgotten:
        kept = kept.filter(~pl.col("id").is_in(sorted(forgotten)))
    if ids is not None:
        kept = kept.filter(pl.col("id").is_in(ids.to_list()))
    return kept.select(list(columns)).collect()


def _inside(scope: Scope) -> pl.Expr:
    """Return the scope as a filter of polars: for the archive, as `where` is for Lance."""
    parts = [pl.lit(value=True)]
    if scope.project is not None:
        parts.append(pl.col("project").is_in([scope.project, *scope.moved]))
    for column, value in (("session_id", scope.session_id), ("agent", scope.agent)):
        if value is not None:
            parts.append(pl.col(column) == value)
    if scope.kinds:
        parts.append(pl.col("kind").is_in(list(scope.kinds)))
    if scope.since is not None:
        parts.append(pl.col("at") >= scope.since)
    if scope.until is not None:
        parts.append(pl.col("at") < scope.until)
    if scope.file is not None:
        parts.append(pl.col("files").list.eval(pl.element().struct.field("path") == scope.file).list.any())
    return pl.all_horizontal(parts)


def _placed(
    stores: Stores, shown: Sequence[pl.DataFrame], found: Iterable[Summary]
) -> tuple[TimelineItem, ...]:
    frames = [frame for frame in shown if not frame.is_empty()]
    items: list[TimelineItem] = []
    if frames:
        rows = pl.concat(frames).sort("is_target", descending=True).unique("id", keep="first").sort(_ORDER)
        texts = stores.events.by_ids(rows.get_column("id").to_list(), list(_TEXT))
        items = _items(rows, texts)
    items += [_summary_item(one, is_target=True) for one in found]
    return tuple(sorted(items, key=lambda item: item.at))  # stable: a summary stands behind its last event


def _items(shown: pl.DataFrame, texts: pl.DataFrame) -> list[TimelineItem]:
    rows: dict[str, dict[str, Any]] = {row["id"]: row for row in texts.iter_rows(named=True)}
    return [
        TimelineItem(
            id=row["id"],
            at=row["at"],
            kind=row["kind"],
            preview=preview(rows[row["id"]]["content"], label=label(row["kind"], rows[row["id"]]["tool"])),
            is_target=row["is_target"],
            session_id=row["session_id"],
        )
        for row in shown.iter_rows(named=True)
        if row["id"] in rows  # forgotten between the two reads
    ]


def _summary_item(one: Summary, *, is_target: bool) -> TimelineItem:
    return TimelineItem(
        id=one.id,
        at=one.at,
        kind=Kind.INSIGHT.value,
        preview=preview(one.content, label="summary"),
        is_target=is_target,
        session_id=one.session_id,
    )
