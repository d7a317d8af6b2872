"""Which events stand beside each other: the place of every event in its session, kept in memory for each project.

A reading of all of them takes a tenth of a second at 100,000 events; what came since the last look, some thousandths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from headwater.query.scope import both, time_literal, where
from headwater.schemas import limits
from headwater.schemas.events import Kind

if TYPE_CHECKING:
    from headwater.query.stores import Stores
    from headwater.schemas.answers import Scope

_COLUMNS = ["id", "session_id", "turn_id", "at", "seq", "kind"]
_SILENT = (Kind.SESSION_START, Kind.SESSION_END)


def positions(stores: Stores, scope: Scope) -> pl.DataFrame:
    """Return id, session_id, turn_id, `place` of the events of a scope's project, or of all.

    Messages (what is no tool call) have whole places in their session from 0; calls stand between them, at a half.
    """
    project = scope.of_project()
    version = stores.events.version  # before the read: what is kept may be newer than it says, not older
    kept = stores.positions.get(project)
    if kept is not None and kept[0] == version:
        return kept[1]
    frame = _read(stores, project, None if kept is None else kept[1])
    stores.positions[project] = (version, frame)
    while len(stores.positions) > limits.POSITIONS_KEPT:
        stores.positions.pop(next(iter(stores.positions)), None)
    return frame


def _read(stores: Stores, project: Scope, known: pl.DataFrame | None) -> pl.DataFrame:
    silent = " AND ".join(f"kind <> '{kind.value}'" for kind in _SILENT)
    inside = both(where(project), silent)
    if known is not None and not known.is_empty():
        newest = known.get_column("at").max()
        later = stores.events.scan(_COLUMNS, both(inside, f"at >= {time_literal(newest)}"))  # type: ignore[arg-type]
        new = later.join(known, on="id", how="anti")
        if known.height + new.height == stores.events.count(inside):
            return known if new.is_empty() else _placed(pl.concat([known.select(_COLUMNS), new]))
    return _placed(stores.events.scan(_COLUMNS, inside))


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    ordered = rows.sort("session_id", "at", "seq", "id")
    is_message = pl.col("kind") != Kind.TOOL.value
    said = is_message.cast(pl.Float64).cum_sum().over("session_id")
    return ordered.with_columns((said - pl.when(is_message).then(1.0).otherwise(0.5)).alias("place"))
