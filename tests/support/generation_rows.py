"""Rows of a generation, and how two generations differ."""

from __future__ import annotations

from typing import Any

import polars as pl

from headwater.schemas.columns import EVENTS
from headwater.schemas.memory_columns import MEMORY_TABLES
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


Memory = dict[str, dict[str, dict[str, Any]]]


def memory_of(home: Home, generation: str | None = None) -> Memory:
    """Return table name -> key -> row of all that memory is made of, in a generation (None: the current one)."""
    store = LanceStore((home if generation is None else home.at(generation)).lance)
    found: Memory = {}
    for definition in MEMORY_TABLES:
        names = [column.name for column in definition.columns]
        rows = store.open(definition, create=False).scan(names).to_dicts()
        found[definition.name] = {row[definition.key]: row for row in rows}
        assert len(found[definition.name]) == len(rows), f"{definition.name} has a key twice"
    return found


def memory_differences(one: Memory, two: Memory) -> list[str]:
    """Return how two sets of memory differ: per table and key what is missing where, or which columns differ."""
    found: list[str] = []
    for table in one:
        for key in sorted(one[table].keys() | two[table].keys()):
            a, b = one[table].get(key), two[table].get(key)
            if a is None or b is None:
                found.append(f"{table} {key} only in the {'second' if a is None else 'first'}")
            elif a != b:
                found.append(
                    f"{table} {key} {[(name, a[name], b[name]) for name in a if a[name] != b[name]]}"
                )
    return found


def compare(home: Home, one: str, two: str) -> list[Any]:
    """Return how two generations of a home differ, in events and in memory."""
    return [
        *differences(rows_of(home, one), rows_of(home, two)),
        *memory_differences(memory_of(home, one), memory_of(home, two)),
    ]
