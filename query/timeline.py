"""Layer 2: what happened around some events, in their sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from headwater.query.scope import both, ids_where, one_of, where
from headwater.query.search import label
from headwater.query.summary import preview
from headwater.schemas import limits
from headwater.schemas.answers import Scope, TimelineItem
from headwater.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.query.stores import Stores

_ORDER = ("at", "agent", "session_id", "seq", "id")
_SESSION = ("agent", "session_id")
WINDOW = 3


@dataclass(frozen=True, slots=True)
class Timeline:
    """Events in order, and the asked ids that are not there or not inside the scope."""

    items: tuple[TimelineItem, ...]
    unknown: tuple[str, ...]


def timeline(stores: Stores, ids: Sequence[str], scope: Scope, window: int = WINDOW) -> Timeline:
    """Return the events at most `window` places before or after any of the ids in its session, each once, in order.

    Places are counted among the session's events inside the scope, in the order (at, agent, session, seq, id).
    `is_target` holds for each of the ids, also where it is another one's neighbour. Raises InputError for a window
    outside 0 to TIMELINE_WINDOW_MAX or more than DETAILS_MAX ids.
    """
    if not 0 <= window <= limits.TIMELINE_WINDOW_MAX:
        problem = f"wanted 0 to {limits.TIMELINE_WINDOW_MAX} events on each side, got {window}"
        raise InputError("window", problem, "ask for a smaller window")
    wanted = check_ids(ids)
    if not wanted:
        return Timeline((), ())
    targets = stores.events.scan(["id", *_SESSION], ids_where(wanted, scope))
    known = set(targets.get_column("id").to_list())
    unknown = tuple(item for item in wanted if item not in known)
    if not known:
        return Timeline((), unknown)
    sessions = one_of("session_id", targets.get_column("session_id").unique().sort().to_list())
    rows = stores.events.scan([*_ORDER, "kind"], both(sessions, where(scope)))
    shown = around(rows, targets.get_column("id").to_list(), window)
    return Timeline(_items(stores, shown), unknown)


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


def _items(stores: Stores, shown: pl.DataFrame) -> tuple[TimelineItem, ...]:
    texts = stores.events.by_ids(shown.get_column("id").to_list(), ["id", "content", "tool"])
    rows = {row["id"]: row for row in texts.iter_rows(named=True)}
    return tuple(
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
    )
