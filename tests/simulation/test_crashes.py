"""Seeded crashes: whatever is interrupted wherever, in the end nothing is lost and nothing is there twice."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from world import World

from headwater.flows.archive_run import run_archive
from headwater.flows.embed_run import run_embed
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.reprocess_run import ReprocessOptions, reprocess
from headwater.schemas.clock import FakeClock
from headwater.schemas.errors import HeadwaterError
from headwater.storage.active import active_version
from headwater.storage.embedder import load
from headwater.storage.faults import POINTS, Plan, SimulatedCrash, planned
from headwater.storage.models import resolve

RUNS = 304  # seeded runs in this process
PER_TEST = 8
KILLS = 20  # real processes, killed by themselves at a fault point
ACTIONS = ("crash", "crash", "full")
CHILD = Path(__file__).resolve().parents[1] / "support" / "crash_child.py"


@pytest.fixture(autouse=True)
def small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test embedder, everywhere."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")


def work(world: World, clock: FakeClock) -> None:
    """Read everything, embed everything; the clock goes on so that no job waits for its next try.

    Half of the worlds seal what was read, so that sessions wake up; some build a new generation each time.
    """
    run_ingest(world.home, IngestOptions(active_version(world.home), until_idle=True, clock=clock))
    if world.seed % 2:
        run_archive(world.home, older_than_s=-math.inf, clock=clock)
    if world.seed % 8 in {2, 3}:
        reprocess(world.home, ReprocessOptions(keep=0, clock=clock))
    for _ in range(4):
        clock.move(120)
        run_embed(world.home, load(resolve("test-hash", world.home)), owner="sim", clock=clock)


def one_run(seed: int) -> str | None:
    """Play one world with two planned failures, then one quiet run, and check it; return a point that fired."""
    with tempfile.TemporaryDirectory(prefix="hw-sim-") as folder:
        world = World(Path(folder) / "home", seed)
        clock = FakeClock()
        fired: str | None = None
        for _ in range(2):
            world.tell(world.chance.randint(3, 25), finish=False)
            plan = Plan(world.chance.choice(POINTS), world.chance.randint(1, 3), world.chance.choice(ACTIONS))
            try:
                with planned(plan):
                    work(world, clock)
            except (SimulatedCrash, HeadwaterError, OSError):
                assert plan.fired, f"a failure that was not planned (seed {seed})"
            fired = plan.point if plan.fired else fired
        world.tell(3)
        work(world, clock)
        world.check()
        work(world, clock)
        world.check()
        return fired


@pytest.mark.timeout(300)
@pytest.mark.parametrize("block", range(RUNS // PER_TEST))
def test_seeded_failures_lose_and_double_nothing(block: int) -> None:
    """Each seed: torn lines, duplicates, late events, two failures at named points; then all invariants hold."""
    fired = Counter(one_run(block * PER_TEST + n) for n in range(PER_TEST))
    assert sum(count for point, count in fired.items() if point is not None) >= 1, (
        "no planned failure was reached"
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(KILLS))
def test_a_process_killed_at_a_fault_point_loses_and_doubles_nothing(number: int) -> None:
    """A real process kills itself (SIGKILL) at a point; the next one goes on and all invariants hold."""
    point = POINTS[number % len(POINTS)]
    with tempfile.TemporaryDirectory(prefix="hw-kill-") as folder:
        world = World(Path(folder) / "home", 10_000 + number)
        world.tell(40)
        world.tell_broken()
        env = {**os.environ, "HEADWATER_EMBEDDING__MODEL": "test-hash", "HEADWATER_FAULT": f"{point}:1:kill"}
        child = [sys.executable, str(CHILD), str(world.root)]
        killed = subprocess.run(child, env=env, capture_output=True, timeout=120, check=False)
        assert killed.returncode == -9, (
            f"{point} was not reached: {killed.returncode} {killed.stderr[-500:]!r}"
        )
        world.tell(5)
        clock = FakeClock()
        clock.move(400 * 86_400)  # later than the killed process's real time, so that its jobs are due
        work(world, clock)
        world.check()
