"""The limits of importing, each reached."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from import_bench import bring_in, rows
from transcript_lines import S1, S2, called, gave, line, said, write

from headwater.schemas import limits
from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds
from headwater.storage.log_register import Clearing
from headwater.surface.importers.slim import slim_line


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty home with the test embedder."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    return Home.open(tmp_path / "home")


def test_calls_that_wait_for_their_result_are_bounded(
    place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond OPEN_CALLS the oldest call is let go: its result is an event all the same, without the call's words."""
    monkeypatch.setattr(limits, "OPEN_CALLS", 2)
    calls = [called(n, f"t{n}", command=f"run number{n}") for n in (1, 2, 3)]
    results = [gave(10 + n, f"t{n}", f"done {n}") for n in (1, 2, 3)]
    bring_in(place, write(tmp_path / "s.jsonl", said(0, "go"), *calls, *results))
    told = rows(place).filter(pl.col("kind") == "tool").sort("at")["content"].to_list()
    assert ["number1" in told[0], "number2" in told[1], "number3" in told[2]] == [False, True, True]
    assert ["done 1" in told[0], "done 2" in told[1], "done 3" in told[2]] == [True, True, True]


def test_small_unknown_fields_are_kept() -> None:
    """An unknown field of SMALL_FIELD_CHARS is kept, a longer one is not."""
    size = limits.SMALL_FIELD_CHARS
    kept = slim_line({"type": "user", "fits": "x" * size, "long": "x" * (size + 1)})
    assert ("fits" in kept, "long" in kept) == (True, False)


@pytest.mark.parametrize(("late_us", "linked"), [(0, True), (1, False)])
def test_cleared_sessions_are_linked_within_the_gap(tmp_path: Path, late_us: int, linked: bool) -> None:
    """An end and a start CLEAR_GAP_S apart belong together, further apart they do not."""
    known = KnownIds(tmp_path / "ids.sqlite")
    start_us = 10**15 + int(limits.CLEAR_GAP_S * 1_000_000) + late_us
    ends = [Clearing("claude-code", "/p", 10**15, S1, "evt_end")]
    starts = [Clearing("claude-code", "/p", start_us, S2, "evt_start")]
    assert known.logs.cleared(ends, starts) == ({"evt_start": S1} if linked else {})
    known.close()


@pytest.mark.parametrize(("between", "content"), [(1, "We moved the map."), (3, "")])
def test_a_boundary_waits_for_its_summary(
    place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: int, content: str
) -> None:
    """A compaction's boundary waits RESTORED_LINES for its summary, then it stands alone."""
    monkeypatch.setattr(limits, "RESTORED_LINES", 2)
    boundary = line("system", 5, subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    filler = [line("attachment", 5, attachment={"type": "file"}, uuid=f"x{n}") for n in range(between)]
    summary = said(5, "We moved the map.", isCompactSummary=True, uuid="u", promptId="p9")
    bring_in(place, write(tmp_path / "s.jsonl", said(1, "go"), boundary, *filler, summary))
    found = rows(place).filter(pl.col("kind") == "compact").sort("seq").to_dicts()
    assert found[0]["turn_id"] == ("p9" if content else None)
