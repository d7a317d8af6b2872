"""A home that imports, and what is in its table afterwards."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
from set_facts import Fact

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


def matches(found: pl.DataFrame, fact: Fact) -> bool:
    """Return whether an event is the fact."""
    session, at, kind, fields = fact
    near = found.filter(
        pl.col("session_id").str.starts_with(session),
        pl.col("kind") == kind,
        pl.col("at") == datetime.fromisoformat(at + "+00:00"),
    )
    return any(holds(found, row, fields) for row in near.iter_rows(named=True))


def holds(found: pl.DataFrame, row: dict[str, Any], fields: dict[str, Any]) -> bool:
    """Return whether an event has all the fields of a fact."""
    tool = row["tool"] or {}
    asked = found.filter(pl.col("id") == row["parent_id"])["content"].to_list() if row["parent_id"] else []
    for name, value in fields.items():
        told: Any = tool.get(name) if name in ("use_id", "name", "ok") else row.get(name)
        if name == "text" and not row["content"].startswith(value):
            return False
        if name == "holds" and value not in row["content"]:
            return False
        if name == "error" and not (tool.get("error") or "").startswith(value):
            return False
        if name == "asked_by" and not (asked and asked[0].startswith(value)):
            return False
        if name == "agent" and row["agent_id"] != value:
            return False
        if name == "files" and [f"{ref['path']} {ref['op']}" for ref in row["files"]] != value:
            return False
        if name not in ("text", "holds", "error", "asked_by", "agent", "files") and told != value:
            return False
    return True
