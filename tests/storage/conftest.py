"""Fixtures of the storage tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.schemas.clock import FakeClock
from headwater.schemas.columns import EVENTS
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore, LanceTable


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    """A folder without tables."""
    return LanceStore(tmp_path / "t")


@pytest.fixture
def events(store: LanceStore) -> LanceTable:
    """A new events table."""
    return store.open(EVENTS)


@pytest.fixture
def clock() -> FakeClock:
    """A clock that the test moves."""
    return FakeClock()


@pytest.fixture
def outbox(tmp_path: Path, clock: FakeClock) -> Iterator[VectorOutbox]:
    """An empty outbox."""
    made = VectorOutbox(tmp_path / "outbox.sqlite", clock)
    yield made
    made.close()
