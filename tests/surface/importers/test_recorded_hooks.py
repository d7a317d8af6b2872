"""Hook logs, recorded and invented: every record, the counts by kind, and facts read by hand from the payloads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from import_bench import bring_in, holds, kinds, matches, rows, shared_data
from journal_lines import DATA

from headwater.storage.home import Home
from headwater.surface.importers.records import count_records

SPACING = timedelta(seconds=3)
# set -> (path, counts of records by fate, events by kind); the counts follow from the payloads' own names
SETS: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "live": (
        "claude-code-live/hook_events.jsonl.gz",
        {"lines": 185, "lines_with_events": 108, "merged": 30, "duplicates": 1, "noise": 46},
        {"session_start": 20, "session_end": 19, "prompt": 18, "response": 21, "tool": 29, "compact": 1},
    ),
    "codex": (
        "codex-live/hook_events.jsonl.gz",
        {"lines": 6, "lines_with_events": 5, "merged": 1, "duplicates": 0, "noise": 0},
        {"session_start": 1, "session_end": 1, "prompt": 1, "response": 1, "tool": 1},
    ),
    "en-pay": (
        "stories/en-pay/events.jsonl",
        {"lines": 226, "lines_with_events": 224, "merged": 1, "duplicates": 0, "noise": 1},
        {"session_start": 10, "session_end": 9, "prompt": 54, "response": 55, "tool": 95, "compact": 1},
    ),
    "ja-map": (
        "stories/ja-map/events.jsonl",
        {"lines": 237, "lines_with_events": 235, "merged": 1, "duplicates": 0, "noise": 1},
        {"session_start": 10, "session_end": 9, "prompt": 59, "response": 60, "tool": 96, "compact": 1},
    ),
    "ko-chat": (
        "stories/ko-chat/events.jsonl",
        {"lines": 225, "lines_with_events": 223, "merged": 1, "duplicates": 0, "noise": 1},
        {"session_start": 10, "session_end": 9, "prompt": 58, "response": 59, "tool": 86, "compact": 1},
    ),
    "zh-iot": (
        "stories/zh-iot/events.jsonl",
        {"lines": 220, "lines_with_events": 218, "merged": 1, "duplicates": 0, "noise": 1},
        {"session_start": 10, "session_end": 9, "prompt": 56, "response": 57, "tool": 85, "compact": 1},
    ),
}
LOCAL = {
    "live": DATA / "claude_code_live.jsonl.gz",
    "codex": DATA / "codex_live" / "hook_events.jsonl.gz",
    "en-pay": DATA / "story_en_pay.jsonl.gz",
}
# whole folders of old agents, their transcript (`chat.json`) among the payloads: 461 and 834 calls by hooks, 172 and
# 206 by the transcript; prompts that both tell are one
FOLDERS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "hooks-attio-en": (
        {"lines": 1674, "lines_with_events": 772, "merged": 592, "duplicates": 0, "noise": 310},
        {"session_start": 7, "prompt": 19, "response": 112, "tool": 633, "compact": 3},
    ),
    "hooks-templar-en": (
        {"lines": 2759, "lines_with_events": 1482, "merged": 219, "duplicates": 0, "noise": 1058},
        {"session_start": 2, "prompt": 278, "response": 162, "tool": 1040, "compact": 1},
    ),
}


class Imported:
    """A set after its import."""

    def __init__(self, name: str, home: Home, path: Path) -> None:
        self.name = name
        self.home = home
        self.path = path
        self.report = bring_in(home, path)
        self.rows = rows(home)


def facts_of(name: str) -> list[Any]:
    """Return facts that were read by hand: see tests/data/README.md."""
    text = (DATA / "facts" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def imported(name: str, path: Path, folder: Path) -> Iterator[Imported]:
    """Yield a set after its import; skip when it is not here."""
    if not path.exists():
        pytest.skip(f"the full set is not here: {path.name}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
        yield Imported(name, Home.open(folder / "home"), path)


@pytest.fixture(scope="module", params=SETS)
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Imported]:
    """Each log, imported once."""
    path = LOCAL.get(request.param) or shared_data() / SETS[request.param][0]
    yield from imported(request.param, path, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module", params=FOLDERS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Imported]:
    """Each folder of arrays, imported once."""
    folder = tmp_path_factory.mktemp(request.param)
    yield from imported(request.param, shared_data() / request.param, folder)


def again_adds_nothing(done: Imported) -> None:
    """Fail unless a second import gives every record a fate, no event, and changes no row."""
    again = bring_in(done.home, done.path)
    assert (again["lines"], again["events"], again["merged"]) == (done.report["lines"], 0, 0)
    assert again["quarantined"] == 0
    assert rows(done.home).equals(done.rows)


def test_every_record_is_accounted_for(done: Imported) -> None:
    """Each payload has one fate, none is quarantined, and the counts are those of the file."""
    wanted = SETS[done.name][1]
    assert {name: done.report[name] for name in wanted} == wanted
    assert done.report["quarantined"] == done.report["times_replaced"] == 0


def test_events_by_kind_are_those_of_the_payloads(done: Imported) -> None:
    """As many starts, ends, prompts, answers, calls and compactions as the payloads tell."""
    assert kinds(done.rows) == SETS[done.name][2]


def test_facts_read_by_hand_are_there(done: Imported) -> None:
    """At least twenty, where there are so many: who said what when, what was called, how it ended, on which files."""
    facts = facts_of(done.name)
    assert len(facts) >= min(20, done.rows.height)
    for fact in facts:
        assert matches(done.rows, fact), f"{fact} is not there"


def test_events_stand_in_the_order_of_the_log(done: Imported) -> None:
    """Facts that were listed in the order of their payloads come out in that order."""
    times = [fact[1] for fact in facts_of(done.name)]
    stamps = [at.strftime("%Y-%m-%dT%H:%M:%S.%f") for at in done.rows.sort("at", "seq")["at"]]
    places = [stamps.index(time) for time in times]
    assert places == sorted(places)


def test_log_again_adds_nothing(done: Imported) -> None:
    """A second import of a log changes no row."""
    again_adds_nothing(done)


@pytest.mark.slow
def test_every_payload_of_the_old_agents_is_accounted_for(whole: Imported) -> None:
    """Each element of each array has one fate, and the counts by kind are those of the arrays."""
    fates, kinds_wanted = FOLDERS[whole.name]
    assert {name: whole.report[name] for name in fates} == fates
    assert whole.report["quarantined"] == 0
    assert whole.report["left_out"] == []
    assert kinds(whole.rows) == kinds_wanted


@pytest.mark.slow
def test_payloads_without_times_stand_in_the_order_of_their_file(whole: Imported) -> None:
    """Facts read by hand: three seconds apart, the last of a file when it was changed; with session and fields."""
    assert len(facts_of(whole.name)) >= 20
    for session, name, n, kind, fields in facts_of(whole.name):
        path = whole.path / f"{name}.json.gz"
        changed = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=path.stat().st_mtime_ns // 1000)
        at = changed - (count_records(path) - n - 1) * SPACING
        near = whole.rows.filter(
            pl.col("session_id").str.starts_with(session), pl.col("kind") == kind, pl.col("at") == at
        )
        found: list[dict[str, Any]] = list(near.iter_rows(named=True))
        assert any(holds(whole.rows, row, fields) for row in found), (
            f"{session} {name} {n}: {fields} is not there"
        )


@pytest.mark.slow
def test_folder_again_adds_nothing(whole: Imported) -> None:
    """A second import of a folder changes no row."""
    again_adds_nothing(whole)


def test_question_sets_are_left_out_with_the_reason(tmp_path: Path) -> None:
    """Conversations and questions of benchmarks are no sessions: each file is named, and nothing comes in."""
    folder = shared_data() / "benchmarks"
    if not folder.exists():
        pytest.skip("the full sets are not here")
    report = bring_in(Home.open(tmp_path / "home"), folder)
    files = [path for path in folder.rglob("*") if path.name.endswith((".json", ".json.gz", ".jsonl"))]
    assert report["lines"] == 0
    assert sorted(left["file"] for left in report["left_out"]) == sorted(map(str, files))
    assert all("nothing in it looks like a session" in left["why"] for left in report["left_out"])
