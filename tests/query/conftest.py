from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from memory_rows import PROJECT, MemoryRows

from headwater.query.context import Ask, Composed, ContextComposer
from headwater.query.project_cache import ProjectCache
from headwater.query.stores import Stores
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.config import Config
from headwater.schemas.events import Event, FileOp, FileRef, Kind, ToolCall
from headwater.storage.tables import LanceStore

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


@dataclass
class FakeVectors:
    """Vectors in memory: `points` maps an event id to its vector; the filter is kept for a look at it."""

    points: dict[str, tuple[float, ...]] = field(default_factory=dict)
    filters: list[str | None] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    kind: str = "entry"

    def nearest(
        self,
        version: str,
        vector: Any,
        where: str | None,
        limit: int,
        kinds: Sequence[str] | None = None,
        *,
        texts: bool = True,
    ) -> pl.DataFrame:
        """The nearest points, whatever the filter."""
        del texts
        self.filters.append(where)
        self.versions.append(version)
        rows = [
            {
                "item_kind": self.kind,
                "item_id": key,
                "chunk_n": 0,
                "content": "",
                "_distance": 1 - float(np.dot(vector, point)),
            }
            for key, point in self.points.items()
            if kinds is None or self.kind in kinds
        ]
        schema = {
            "item_kind": pl.String,
            "item_id": pl.String,
            "chunk_n": pl.Int32,
            "content": pl.String,
            "_distance": pl.Float32,
        }
        return pl.DataFrame(rows, schema=schema).sort("_distance").head(limit)


@dataclass
class FakeEncoder:
    """Encodes every query to the same vector."""

    version: str = "fake-2-0"
    vector: tuple[float, ...] = (1.0, 0.0)

    def encode_query(self, text: str) -> Any:
        """The one vector."""
        del text
        return np.array(self.vector, dtype=np.float32)


class World:
    """A small events table that tests fill, and the stores over it."""

    def __init__(self, folder: Path) -> None:
        self.lance = LanceStore(folder)
        self.events = self.lance.open(EVENTS)
        self.vectors = FakeVectors()
        self.encoder = FakeEncoder()
        self.stores = Stores(None, None, self.events, self.vectors, self.encoder.version, self.lance)

    def add(self, *events: Event) -> None:
        """Write events."""
        self.events.add(events_to_arrow(events))

    @staticmethod
    def event(name: str, content: str = "", minute: float = 0.0, **more: Any) -> Event:
        """Return an event with id `evt_<name>`, so many minutes after the start."""
        files = tuple(FileRef(path, FileOp.EDIT) for path in more.pop("files", ()))
        tool = more.pop("tool", None)
        values: dict[str, Any] = {
            "agent": "claude-code",
            "session_id": "s1",
            "project": "/p/one",
            "kind": Kind.PROMPT,
            "seq": 0,
            **more,
        }
        return Event(
            id=f"evt_{name}",
            content=content,
            at=NOW + timedelta(minutes=minute),
            files=files,
            tool=None if tool is None else ToolCall(tool),
            **values,
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty world."""
    return World(tmp_path / "t")


@pytest.fixture
def rows(world: World) -> MemoryRows:
    """Tables of memory in the world, which tests fill."""
    return MemoryRows(world.lance)


@pytest.fixture
def compose(world: World) -> Callable[..., Composed]:
    """Compose with settings: `compose(mode, budget_tokens=..., only=..., **ask)`."""

    def made(mode: str = "endless", budget_tokens: int = 1000, only: Any = None, **ask: Any) -> Composed:
        composer = ContextComposer(ProjectCache(world.stores), Config(), mode)
        return composer.compose(Ask(ask.pop("project", PROJECT), **ask), budget_tokens, only)

    return made
