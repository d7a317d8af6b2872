"""The projects that there are: how much of each, when, and from which folders it came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from datetime import datetime

    from headwater.query.stores import Stores


@dataclass(frozen=True, slots=True)
class ProjectCount:
    """A project by what it is called now; `roots` are the names under which its events were captured."""

    project: str
    events: int
    sessions: int
    first_at: datetime
    last_at: datetime
    roots: tuple[str, ...]


def count_projects(stores: Stores) -> list[ProjectCount]:
    """Return all projects with events, the one that was seen last first, equal ones by name."""
    rows = stores.events.scan(["project", "agent", "session_id", "at"])
    if rows.is_empty():
        return []
    counted = (
        stores.renamed(rows.with_columns(pl.col("project").alias("root")))
        .group_by("project")
        .agg(
            pl.len().alias("events"),
            pl.struct("agent", "session_id").n_unique().alias("sessions"),
            pl.col("at").min().alias("first_at"),
            pl.col("at").max().alias("last_at"),
            pl.col("root").unique().sort().alias("roots"),
        )
        .sort(["last_at", "project"], descending=[True, False])
    )
    return [ProjectCount(**(row | {"roots": tuple(row["roots"])})) for row in counted.iter_rows(named=True)]
