"""A home that imports, and what is in its table afterwards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl

from headwater.schemas.columns import EVENTS
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore
from headwater.surface.console import Progress
from headwater.surface.importers.ingest import append_paths, count_events, summary, wait_for_flow
from headwater.surface.importers.records import Format

PARTS = ("lines_with_events", "duplicates", "merged", "noise", "quarantined")


def shared_data() -> Path:
    """Return the folder of the full recorded sets, which are no part of the project; it may not exist."""
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("HEADWATER_BENCH_DATA") or root.parent / "shared" / "data")


def bring_in(home: Home, *paths: Path, wanted: Format | None = None) -> dict[str, Any]:
    """Ingest paths and return the counts; they always add up to the records."""
    appended = append_paths(home, list(paths), wanted, Progress("reading"))
    fates = wait_for_flow(home, appended, Progress("ingesting"))
    report = summary(appended, fates, 0, 0.0, events=count_events(home, appended))
    assert report["lines"] == sum(report[part] for part in PARTS)
    return report


def rows(home: Home) -> pl.DataFrame:
    """Return all events, in order of time."""
    table = LanceStore(home.lance).open(EVENTS)
    return table.scan([column.name for column in EVENTS.columns]).sort(
        "at", "agent", "session_id", "seq", "id"
    )


def kinds(found: pl.DataFrame) -> dict[str, int]:
    """Return how many events there are of each kind."""
    return dict(found["kind"].value_counts().iter_rows())
