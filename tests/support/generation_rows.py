"""Rows of a generation, and how two generations differ."""

from __future__ import annotations

from typing import Any

import polars as pl

from headwater.schemas.columns import EVENTS
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore

RUN_DEPENDENT: tuple[
    str, ...
] = ()  # columns that may differ between two builds of the same lines: there are none


def rows_of(home: Home, generation: str | None = None) -> pl.DataFrame:
    """Return all events of a generation (None: the current one), sorted by id."""
    names = [column.name for column in EVENTS.columns if column.name not in RUN_DEPENDENT]
    place = home if generation is None else home.at(generation)
    return LanceStore(place.lance).open(EVENTS, create=False).scan(names).sort("id")


def differences(one: pl.DataFrame, two: pl.DataFrame) -> list[dict[str, Any]]:
    """Return how two sets of rows differ: per id what is missing where, or which columns are not equal."""
    left = {row["id"]: row for row in one.to_dicts()}
    right = {row["id"]: row for row in two.to_dicts()}
    found: list[dict[str, Any]] = []
    for id_ in sorted(left.keys() | right.keys()):
        a, b = left.get(id_), right.get(id_)
        if a is None or b is None:
            found.append({"id": id_, "only in": "the second" if a is None else "the first"})
        elif a != b:
            found.append({"id": id_, **{key: (a[key], b[key]) for key in a if a[key] != b[key]}})
    if one.height != len(left) or two.height != len(right):
        found.append({"rows of the same id": (one.height - len(left), two.height - len(right))})
    return found


def compare(home: Home, one: str, two: str) -> list[dict[str, Any]]:
    """Return how two generations of a home differ."""
    return differences(rows_of(home, one), rows_of(home, two))
