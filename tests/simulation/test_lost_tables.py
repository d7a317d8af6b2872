"""Everything derived is deleted, then built again by a process that is killed in the middle: the same rows."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from generation_rows import differences, rows_of
from import_bench import bring_in
from journal_lines import DATA, append, live, story

from headwater.flows.archive_run import run_archive
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.reprocess_run import ReprocessOptions, reprocess
from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds

PROGRAM = Path(sys.executable).with_name("headwater")
LIMIT_S = 60.0
KILLED = (
    "ingest.read:2",
    "ingest.intended:1",
    "ingest.added:1",
    "ingest.upserted:1",
    "ingest.settled:1",
    "ingest.quarantined:1",
    "table.maintained:1",
    "reprocess.built:1",
    "reprocess.switched:1",
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that captured live, imported transcripts, met rubbish, sealed a half, and is in its second generation."""
    home = Home.open(tmp_path_factory.mktemp("recorded") / "home")
    lines = [*live(), *story()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
        for n, stamped in enumerate(lines):
            append(home.journal, stamped)
            if n == len(lines) // 2:
                read(home)
                run_archive(home, older_than_s=-math.inf)
        (home.journal / "claude-code-bad.jsonl").write_bytes(b"rubbish\n")
        read(home)
        reprocess(home, ReprocessOptions())
        bring_in(home, DATA / "claude_code_live_transcripts")
    return home.root


@pytest.fixture
def place(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A copy of that home."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    shutil.copytree(recorded, tmp_path / "home")
    return Home.open(tmp_path / "home")


def read(home: Home) -> None:
    """Run the flow until all is read."""
    run_ingest(home, IngestOptions(None, until_idle=True))


def lose(home: Home) -> None:
    """Delete what can be made again."""
    for name in ("lance", "recovery"):
        shutil.rmtree(home.root / name)
    for pattern in ("outbox.sqlite*", "ids*.sqlite*"):
        for path in home.root.glob(pattern):
            path.unlink()


def fates(home: Home) -> dict[str, int]:
    """Return how many lines had each fate."""
    known = KnownIds(home.ids_file)
    try:
        return {fate.value: n for fate, n in known.count_fates().items() if n}
    finally:
        known.close()


def build(home: Home, fault: str = "") -> subprocess.CompletedProcess[str]:
    """Run `headwater reprocess` as a process of its own, killed at a fault point."""
    env = {**os.environ, "HEADWATER_FAULT": f"{fault}:kill"} if fault else dict(os.environ)
    command = [str(PROGRAM), "--home", str(home.root), "reprocess"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "sealed"), [(fault, n % 2 == 1) for n, fault in enumerate(KILLED)])
def test_killed_in_the_middle_and_run_again(place: Home, fault: str, *, sealed: bool) -> None:
    """Tables, jobs, ids and snapshots are gone; a killed reprocess, then a whole one: the same rows and fates."""
    before, told = rows_of(place), fates(place)
    if sealed:
        run_archive(place, older_than_s=-math.inf)
        assert not list(place.journal.glob("claude-code-*"))
    lose(place)
    killed = build(place, fault)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-500:]
    done = build(place)
    assert done.returncode == 0, done.stderr
    assert differences(rows_of(place), before) == []
    assert fates(place) == told
    read(place)
    assert differences(rows_of(place), before) == []


@pytest.mark.slow
def test_killed_at_any_moment_and_left_to_the_stream(place: Home) -> None:
    """Killed when it had written its first rows, and never run again: the flow makes the lost tables by itself."""
    before, told = rows_of(place), fates(place)
    lose(place)
    process = subprocess.Popen(
        [str(PROGRAM), "--home", str(place.root), "reprocess"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    end_s = time.monotonic() + LIMIT_S
    while not list((place.root / "lance").glob("gen-*/events.lance/data/*")) and process.poll() is None:
        assert time.monotonic() < end_s
        time.sleep(0.005)
    process.kill()
    process.communicate()
    read(place)
    assert differences(rows_of(place), before) == []
    assert fates(place) == told
    reprocess(place, ReprocessOptions(keep=0))
    assert differences(rows_of(place), before) == []


def test_recorded_home_is_worth_it(place: Home) -> None:
    """What the tests above build again has facts of every way in: hooks, transcripts, both, sealed and not."""
    found = rows_of(place)
    assert found.height > 250
    assert set(found["parts"]) >= {2, 4, 6}
    assert found.filter(pl.col("prev_session_id").is_not_null()).height == 2
    assert fates(place)["quarantined"] == 1
    assert place.current().generation == "gen-2"
