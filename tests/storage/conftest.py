"""Fixtures of the storage tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.schemas.columns import EVENTS
from headwater.storage.tables import LanceStore, LanceTable


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    """A folder without tables."""
    return LanceStore(tmp_path / "t")


@pytest.fixture
def events(store: LanceStore) -> LanceTable:
    """A new events table."""
    return store.open(EVENTS)
