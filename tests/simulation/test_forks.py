"""Forks and the sessions they were forked from: whichever comes first, in the end there is the same."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from generation_rows import differences, rows_of
from import_bench import bring_in, kinds, rows
from journal_lines import DATA, append, live
from transcript_lines import S1, S2, answered, called, gave, line, said, write

from headwater.flows.event_writer import EventWriter
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.reprocess_run import ReprocessOptions, reprocess
from headwater.schemas.errors import StoreError
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobRequest
from headwater.storage.faults import Plan, SimulatedCrash, planned
from headwater.storage.home import Current, Home
from headwater.storage.outbox import VectorOutbox
from headwater.surface.console import Progress
from headwater.surface.importers.ingest import append_paths, wait_for_flow

LIVE = DATA / "claude_code_live_transcripts" / "-home-dev-live-proj"
ORIGIN, FORK = "af004aec-f1e1-4a3a-b13d-75103ac8bdbe", "035f7ddd-191a-452d-84a4-e7f6c05eee90"
S3, S4 = "33333333-0000-0000-0000-000000000003", "44444444-0000-0000-0000-000000000004"


@pytest.fixture(autouse=True)
def test_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is loaded here."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")


def hooks(home: Home, *sessions: str) -> None:
    """Tell what the hooks of sessions told."""
    for stamped in live():
        if stamped["payload"]["session_id"] in sessions:
            append(home.journal, stamped, project="/home/dev/live/proj")
    run_ingest(home, IngestOptions(None, until_idle=True))


def tell(home: Home, what: str) -> None:
    """Bring in the origin, the fork, or the hooks of either, as they were recorded."""
    if what == "origin":
        bring_in(home, LIVE / f"{ORIGIN}.jsonl.gz", LIVE / ORIGIN)
    elif what == "fork":
        bring_in(home, LIVE / f"{FORK}.jsonl.gz")
    else:
        hooks(home, ORIGIN if what == "hooks" else FORK)


def told(folder: Path, order: Sequence[str]) -> pl.DataFrame:
    """Return the events of a new home after imports of their own in that order, by id."""
    home = Home.open(folder)
    for what in order:
        tell(home, what)
    found = rows_of(home)
    run_ingest(home, IngestOptions(None, until_idle=True))
    reprocess(home, ReprocessOptions())
    assert differences(rows_of(home), found) == []
    # what only a hook told stands where it stands in the journal, behind or before an import
    return found.with_columns(seq=pl.when(pl.col("at_source") == "hook").then(0).otherwise(pl.col("seq")))


@pytest.mark.parametrize(
    "parts",
    [
        ("origin", "fork"),
        ("hooks", "fork"),
        ("fork", "fork hooks"),
        ("origin", "fork", "hooks", "fork hooks"),
    ],
    ids=" and ".join,
)
def test_recorded_fork_and_origin_in_any_order(tmp_path: Path, parts: tuple[str, ...]) -> None:
    """Transcripts and hooks of a fork and its origin, each brought in alone, give the same in every column."""
    orders = [order for order in itertools.permutations(parts) if len(parts) < 4 or order[0] == "fork"]
    found = [told(tmp_path / str(n), order) for n, order in enumerate(orders)]
    for one in found[1:]:
        assert differences(one, found[0]) == []
    starts = found[0].filter(pl.col("kind") == "session_start", pl.col("session_id") == FORK)
    assert starts["prev_session_id"].to_list() == [ORIGIN]
    assert starts["role"].to_list() == ["SessionStart:fork"]


def test_fork_alone_keeps_what_it_copied(tmp_path: Path) -> None:
    """Until its origin is told, a fork's copies are its events, each with the origin's name; again adds nothing."""
    home = Home.open(tmp_path / "home")
    report = bring_in(home, LIVE / f"{FORK}.jsonl.gz")
    found = rows(home)
    assert set(found["session_id"]) == {FORK}
    assert kinds(found) == {"session_start": 1, "prompt": 4, "tool": 6, "response": 5}
    own = found.filter(~pl.col("meta").str.contains("copy_of"))
    assert own["content"].to_list() == ["", "SAY forked", "said: SAY forked"]
    assert report["quarantined"] == 0
    size = sum(path.stat().st_size for path in home.journal.iterdir())
    assert bring_in(home, LIVE / f"{FORK}.jsonl.gz")["lines_with_events"] == 0
    assert sum(path.stat().st_size for path in home.journal.iterdir()) == size
    tell(home, "origin")
    left = rows(home).filter(pl.col("session_id") == FORK)
    assert left["content"].to_list() == ["", "SAY forked", "said: SAY forked"]
    assert bring_in(home, LIVE / f"{FORK}.jsonl.gz")["lines_with_events"] == 0
    assert (
        sum(report[part] for part in ("lines_with_events", "duplicates", "merged", "noise"))
        == report["lines"]
    )


ORIGINAL = [
    said(1, "find it", promptId="p1"),
    answered(2, "looking"),
    called(3, "toolu_1"),
    gave(4, "toolu_1", "a.txt", promptId="p1"),
    answered(5, "found it"),
    said(6, "go on", promptId="p2"),
]


def forked(session: str, origin: str, *lines: dict[str, Any], prompt: str) -> list[dict[str, Any]]:
    """Return lines as a fork holds them: its own first line and time, then copies under its name and prompt."""
    first = line("queue-operation", 60, operation="enqueue", uuid=None, sessionId=session) | {"content": "x"}
    made = [first]
    for one in lines:
        copy = one | {"sessionId": session}
        if copy["type"] == "assistant":
            copy["requestSessionId"] = one.get("requestSessionId", origin)
        if "promptId" in copy:
            copy["promptId"] = prompt
        made.append(copy)
    return made


def test_copies_go_to_whom_they_name_over_two_forks(tmp_path: Path) -> None:
    """A fork of a fork, and two forks of one session: any order of five files gives the same events."""
    second = [said(61, "do it", sessionId=S2, promptId="q1"), answered(62, "done", sessionId=S2)]
    files = {
        S1: ORIGINAL,
        S2: [*forked(S2, S1, *ORIGINAL, prompt="q1"), *second],
        S3: [
            *forked(S3, S2, ORIGINAL[0], ORIGINAL[1] | {"requestSessionId": S1}, *second, prompt="r1"),
            said(63, "more", sessionId=S3, promptId="r1"),
        ],
        S4: [*forked(S4, S1, *ORIGINAL[:3], prompt="t1"), said(64, "else", sessionId=S4, promptId="t1")],
    }
    for name, lines in files.items():
        write(tmp_path / "logs" / f"{name}.jsonl", *lines)
    found: list[pl.DataFrame] = []
    for n, order in enumerate(list(itertools.permutations(files))[::3]):
        home = Home.open(tmp_path / f"home{n}")
        for name in order:
            bring_in(home, tmp_path / "logs" / f"{name}.jsonl")
        found.append(rows_of(home))
    for one in found[1:]:
        assert differences(one, found[0]) == []
    prompts = found[0].filter(pl.col("kind") == "prompt").sort("at")
    assert list(zip(prompts["session_id"], prompts["content"], strict=True)) == [
        (S1, "find it"),
        (S1, "go on"),
        (S2, "do it"),
        (S3, "more"),
        (S4, "else"),
    ]


def test_of_two_forks_of_an_unknown_session_one_keeps_each_line(tmp_path: Path) -> None:
    """What two forks copied from a session that nobody has is there once, in the same one in either order."""
    for name, count in ((S2, 6), (S3, 4)):
        write(tmp_path / f"{name}.jsonl", *forked(name, S1, *ORIGINAL[:count], prompt=name))
    found = []
    for order in ((S2, S3), (S3, S2)):
        home = Home.open(tmp_path / "".join(one[0] for one in order))
        for name in order:
            bring_in(home, tmp_path / f"{name}.jsonl")
        found.append(rows_of(home))
    assert differences(*found) == []
    assert set(found[0]["session_id"]) == {S2}
    assert kinds(found[0]) == {"prompt": 2, "response": 2, "tool": 1}


def test_job_of_a_copy_goes_with_it(tmp_path: Path) -> None:
    """When a copy gives way, its vector job is gone, and vectors are looked through again."""
    home = Home.open(tmp_path / "home")
    home.set_current(Current("gen-1", "v-1"))
    write(tmp_path / "fork.jsonl", *forked(S2, S1, *ORIGINAL, prompt="q"))
    write(tmp_path / "origin.jsonl", *ORIGINAL)
    bring_in(home, tmp_path / "fork.jsonl")
    outbox = VectorOutbox(home.outbox_file)
    version = next(iter(found_versions(outbox)))
    copies = rows_of(home)["id"].to_list()
    bring_in(home, tmp_path / "origin.jsonl")
    originals = rows_of(home)["id"].to_list()
    assert not set(copies) & set(originals)
    asked = outbox.enqueue_batch([JobRequest(ItemKind.ENTRY, id_, version, "h") for id_ in copies])
    assert asked == [True] * len(copies)  # none of them was there any more
    outbox.close()


def found_versions(outbox: VectorOutbox) -> set[str]:
    """Return the embedding versions that have jobs."""
    with outbox._db.reading() as connection:
        return {row[0] for row in connection.execute("SELECT DISTINCT embedding_version FROM vector_outbox")}


@pytest.mark.parametrize("order", [("fork", "origin"), ("origin", "fork")])
@pytest.mark.parametrize(
    "point", ["ingest.intended", "ingest.added", "ingest.enqueued", "ingest.settled", "taken out"]
)
def test_crash_while_a_copy_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, order: tuple[str, str]
) -> None:
    """Whatever is interrupted, after the next run there is what an undisturbed one gives; every line has a fate."""
    own = said(61, "own", sessionId=S2, promptId="q")
    write(tmp_path / "fork.jsonl", *forked(S2, S1, *ORIGINAL, prompt="q"), own)
    write(tmp_path / "origin.jsonl", *ORIGINAL)
    found = []
    for name in ("calm", "crashed"):
        home = Home.open(tmp_path / name)
        bring_in(home, tmp_path / f"{order[0]}.jsonl")
        appended = append_paths(home, [tmp_path / f"{order[1]}.jsonl"], None, Progress("reading"))
        if name == "crashed":
            with monkeypatch.context() as patch:
                crash(home, patch, point)
        wait_for_flow(home, appended, Progress("ingesting"))
        found.append(rows_of(home))
    assert differences(*found) == []
    assert found[0].filter(pl.col("session_id") == S2)["content"].to_list() == ["", "own"]


def crash(home: Home, patch: pytest.MonkeyPatch, point: str) -> None:
    """Run the flow until it dies at a point: one of the fault points, or between register and table."""

    def half(writer: EventWriter, ids: set[str]) -> None:
        if ids:
            writer._known.retract(ids)
        raise SimulatedCrash

    options = IngestOptions(None, until_idle=True)
    if point == "taken out":
        patch.setattr(EventWriter, "_take_out", half)
        with pytest.raises((SimulatedCrash, StoreError)):
            run_ingest(home, options)
        return
    with planned(Plan(point, 1)), pytest.raises((SimulatedCrash, StoreError)):
        run_ingest(home, options)
