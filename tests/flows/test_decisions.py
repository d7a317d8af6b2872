"""The control journal as an input of the flow."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headwater.flows.decisions import DecisionReader, DecisionSource
from headwater.schemas import limits
from headwater.schemas.clock import SYSTEM
from headwater.storage.home import Home


def test_a_bounded_run_looks_at_once_and_ends(tmp_path: Path) -> None:
    """Nobody waits for a look at a control journal in which nothing stands."""
    reader = DecisionReader(Home.open(tmp_path / "home"), threading.Event(), until_idle=True)
    part = DecisionSource(reader).build_part("read_decisions", "control", None)
    assert part.next_awake() is None
    with pytest.raises(StopIteration):
        part.next_batch()


def test_a_running_flow_looks_now_and_then(tmp_path: Path) -> None:
    """A flow that goes on until it is stopped looks every DECISIONS_LOOK_S, and ends only when it is told to."""
    stop = threading.Event()
    part = DecisionSource(DecisionReader(Home.open(tmp_path / "home"), stop)).build_part("", "control", None)
    assert part.next_batch() == []
    awake = part.next_awake()
    assert awake is not None
    assert 0 < (awake - SYSTEM.now()).total_seconds() <= limits.DECISIONS_LOOK_S
    stop.set()
    with pytest.raises(StopIteration):
        part.next_batch()
