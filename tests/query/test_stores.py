from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.query.search import find
from headwater.query.stores import Stores
from headwater.schemas.answers import Scope
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.storage.home import Current, Home
from headwater.storage.tables import LanceStore


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A new home, its vectors left out."""
    monkeypatch.setitem(
        sys.modules, "headwater.storage.vectors", SimpleNamespace(VectorStore=lambda _home: None)
    )
    return Home.open(tmp_path / "h")


def test_new_home_reads_as_empty(home: Home) -> None:
    """A home without any table gives empty answers, and a query makes no table."""
    stores = Stores.open(home)
    assert find(stores, "anything", Scope(None), 5).items == ()
    assert list((home.root / "lance").rglob("*.lance")) == []
    assert not stores.can_compare(None)


def test_switch_is_seen_at_the_next_refresh(home: Home, world: Any) -> None:
    """Stores stay as they are until generation or version are switched, then read the new ones."""
    stores = Stores.open(home)
    assert stores.refreshed() is stores
    LanceStore(home.root / "lance" / "gen-2").open(EVENTS).add(events_to_arrow([world.event("a", "needle")]))
    assert find(stores.refreshed(), "needle", Scope(None), 5).items == ()
    home.set_current(Current("gen-2", "fake-2-0"))
    fresh = stores.refreshed()
    assert [item.id for item in find(fresh, "needle", Scope(None), 5).items] == ["evt_a"]
    assert fresh.embedding_version == "fake-2-0"


def test_only_an_encoder_of_the_same_version_compares(world: Any) -> None:
    """Vectors of two versions never mix, whatever their dimension."""
    assert world.stores.can_compare(world.encoder)
    world.encoder.version = "other-2-0"
    assert not world.stores.can_compare(world.encoder)
