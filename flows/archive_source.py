"""A bounded list of things to do as a Bytewax source: one a batch, so that no more than one is under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from bytewax.inputs import DynamicSource, StatelessSourcePartition

X = TypeVar("X")
"""One thing to do."""


class _Plan(StatelessSourcePartition[X]):
    def __init__(self, items: Iterator[X]) -> None:
        self._items = items

    def next_batch(self) -> list[X]:
        return [next(self._items)]


class PlanSource(DynamicSource[X]):
    """Yields what a function finds to do, then ends."""

    def __init__(self, find: Callable[[], Iterator[X]]) -> None:
        """Remember what to call when the flow starts."""
        self._find = find

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Plan[X]:
        """Return the only partition."""
        del step_id, worker_index, worker_count
        return _Plan(self._find())
