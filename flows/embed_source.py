"""Leased jobs as a Bytewax source: one claim a batch, and the end when nothing is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bytewax.inputs import DynamicSource, StatelessSourcePartition

if TYPE_CHECKING:
    from headwater.schemas.jobs import Job


class _Claims(StatelessSourcePartition[list["Job"]]):
    def __init__(self, claim: Callable[[], list[Job]]) -> None:
        self._claim = claim

    def next_batch(self) -> list[list[Job]]:
        jobs = self._claim()
        if not jobs:
            raise StopIteration
        return [jobs]


class JobSource(DynamicSource[list["Job"]]):
    """Calls `claim` for each batch; an empty claim ends the flow."""

    def __init__(self, claim: Callable[[], list[Job]]) -> None:
        """Remember what to call."""
        self._claim = claim

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Claims:
        """Return the only partition."""
        del step_id, worker_index, worker_count
        return _Claims(self._claim)
