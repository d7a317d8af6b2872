from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from generation_rows import compare, differences, rows_of
from journal_lines import S, append, live, payload, story

from headwater.flows import normalise as rules
from headwater.flows.archive_run import run_archive
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.reprocess_run import ReprocessOptions, ReprocessReport, go_back, reprocess
from headwater.schemas import limits
from headwater.schemas.errors import BusyError, HeadwaterError, InputError, StoreError
from headwater.schemas.events import Draft
from headwater.storage.faults import Plan, SimulatedCrash, planned
from headwater.storage.generations import generations
from headwater.storage.home import Current, Home
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import hold_lock
from headwater.storage.outbox import VectorOutbox
from headwater.storage.run_files import INGEST_LOCK, REPROCESS_LOCK

LIMIT_S = 60.0
VERSION = "test-4-abc"
LINES = [*live(), *story()]


@pytest.fixture
def place(tmp_path: Path) -> Home:
    """A home that has read the recorded sessions and an invented project, half of it sealed."""
    home = Home.open(tmp_path / "home")
    for n, line in enumerate(LINES):
        append(home.journal, line, project="/live" if n < len(live()) else "/story")
        if n == len(LINES) // 2:
            ingest(home)
            run_archive(home, older_than_s=-math.inf)
    (home.journal / "claude-code-bad.jsonl").write_bytes(b"rubbish\n")
    ingest(home)
    return home


def ingest(home: Home) -> None:
    """Run the ingest flow until all is read."""
    run_ingest(home, IngestOptions(None, until_idle=True))


def build(home: Home, **options: Any) -> ReprocessReport:
    """Build a new generation and switch to it."""
    return reprocess(home, ReprocessOptions(**options))


def state(home: Home) -> dict[str, Any]:
    """Return what a failed run must leave alone."""
    return {
        "current": home.current(),
        "rows": rows_of(home).to_dicts(),
        "fates": fates(home),
        "quarantine": home.quarantine_file.read_bytes(),
    }


def fates(home: Home) -> dict[str, int]:
    """Return how many lines had each fate."""
    known = KnownIds(home.ids_file)
    try:
        return {fate.value: n for fate, n in known.count_fates().items() if n}
    finally:
        known.close()


def say(home: Home, n: int, session: str = "s1") -> None:
    """Append a prompt of its own."""
    content = payload("UserPromptSubmit", prompt=f"prompt {n}", prompt_id=f"p{n}") | {"session_id": session}
    append(home.journal, {"received_at_ns": 1_773_000_000 * S + n * S, "payload": content}, project="/p")


def until(done: Callable[[], bool]) -> None:
    """Wait until something holds; fail after the limit."""
    end_s = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_new_generation_has_the_same_rows(place: Home) -> None:
    """A build from archive and journal is equal row for row, and becomes current; the old one is kept."""
    before, told, bad = rows_of(place), fates(place), place.quarantine_file.read_bytes()
    done = build(place)
    assert (done.generation, done.previous, done.resumed) == ("gen-2", "gen-1", False)
    assert (done.lines, done.events) == (len(LINES) + 1, before.height)
    assert place.current().generation == "gen-2"
    assert compare(place, "gen-1", "gen-2") == []
    assert differences(rows_of(place), before) == []
    assert fates(place) == told
    assert place.quarantine_file.read_bytes() == bad
    assert not list(place.root.glob("quarantine.gen*"))


@pytest.mark.parametrize(
    "lost",
    [
        ["lance"],
        ["outbox.sqlite*"],
        ["ids*"],
        ["recovery"],
        ["lance", "outbox.sqlite*", "ids*", "recovery", "CURRENT"],
    ],
)
@pytest.mark.parametrize("sealed", [False, True])
def test_deleted_tables_come_back(place: Home, lost: list[str], sealed: bool) -> None:
    """Whatever derived thing is deleted, a reprocess gives the same rows, also when all lines are sealed."""
    before, told = rows_of(place), fates(place)
    if sealed:
        run_archive(place, older_than_s=-math.inf)
        assert not list(place.journal.iterdir())
    for pattern in lost:
        for path in place.root.glob(pattern):
            os.system(f"rm -rf '{path}'")
    build(place)
    assert differences(rows_of(place), before) == []
    assert fates(place) == told
    ingest(place)
    assert differences(rows_of(place), before) == []


def test_ingest_goes_on_from_its_own_cursors(place: Home) -> None:
    """After the switch, only lines that came since are read."""
    build(place)
    say(place, 1)
    wakes = run_ingest(place, IngestOptions(None, until_idle=True))
    assert wakes.lines == 1
    assert rows_of(place, "gen-1").height == rows_of(place).height - 1


@pytest.mark.parametrize(
    "plan",
    [
        Plan("ingest.added", 1),
        Plan("ingest.settled", 1),
        Plan("ingest.read", 3),
        Plan("ingest.enqueued", 1, "full"),
        Plan("reprocess.built", 1),
    ],
    ids=lambda plan: f"{plan.point}-{plan.action}",
)
def test_interrupted_build_leaves_all_as_it_was_and_goes_on(place: Home, plan: Plan) -> None:
    """A failure anywhere before the switch changes nothing that is in use; the next run finishes the same build."""
    before = state(place)
    failed = replace(plan, passed={}, fired=False)
    with planned(failed), pytest.raises((SimulatedCrash, HeadwaterError, OSError)):
        build(place)
    assert failed.fired
    assert state(place) == before
    say(place, 1)
    ingest(place)
    after = state(place)
    done = build(place)
    assert done.resumed
    assert done.generation == "gen-2"
    assert differences(rows_of(place), rows_of(place, "gen-1")) == []
    assert state(place) == after | {"current": Current("gen-2", None)}


def test_crash_after_the_switch_is_harmless(place: Home) -> None:
    """When the process dies right behind the rename, the new generation is complete."""
    before = rows_of(place)
    with planned(Plan("reprocess.switched", 1)), pytest.raises(SimulatedCrash):
        build(place)
    assert place.current().generation == "gen-2"
    assert differences(rows_of(place), before) == []
    assert build(place).generation == "gen-3"
    assert [one.name for one in generations(place)] == ["gen-3", "gen-2"]


def test_stopped_build_says_how_to_go_on(place: Home) -> None:
    """A stop is an error that names the fix, and nothing is switched."""
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoreError, match="run it again"):
        build(place, stop=stop)
    assert place.current().generation == "gen-1"


def test_old_generations_are_kept_as_asked(place: Home) -> None:
    """`keep` old ones stay, the last current first; 0 keeps none."""
    assert build(place).removed == ()
    assert build(place).removed == ("gen-1",)
    assert build(place, keep=0).removed == ("gen-3", "gen-2")
    assert [one.name for one in generations(place)] == ["gen-4"]
    assert sorted(path.name for path in (place.root / "recovery").iterdir()) == ["gen-4"]


def test_there_is_a_way_back(place: Home) -> None:
    """An old generation reads what came since, sealed or not, and is current again; then forward once more."""
    build(place)
    say(place, 1)
    ingest(place)
    run_archive(place, older_than_s=-math.inf)
    say(place, 2)
    ingest(place)
    now = rows_of(place)
    done = go_back(place, "gen-1", ReprocessOptions())
    assert (done.generation, done.previous) == ("gen-1", "gen-2")
    assert done.lines >= 2
    assert differences(rows_of(place), now) == []
    go_back(place, "gen-2", ReprocessOptions())
    assert differences(rows_of(place), now) == []
    with pytest.raises(InputError, match="gen-1"):
        go_back(place, "gen-7", ReprocessOptions())


def test_two_builds_exclude_each_other(place: Home) -> None:
    """A second reprocess at the same time is refused."""
    with hold_lock(place.run / REPROCESS_LOCK, "reprocess"), pytest.raises(BusyError):
        build(place)


def test_flow_that_does_not_let_go_is_reported(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """When somebody keeps the tables, nothing is switched and the error says who."""
    monkeypatch.setattr(limits, "HANDOVER_S", 0.1)
    with hold_lock(place.run / INGEST_LOCK, "ingest flow"), pytest.raises(BusyError, match=str(os.getpid())):
        build(place)
    assert place.current().generation == "gen-1"


def test_missing_vectors_are_asked_for(place: Home) -> None:
    """After the switch every text without a vector has a job, also when the outbox was deleted."""
    place.set_current(Current("gen-1", VERSION))
    for path in place.root.glob("outbox*"):
        path.unlink()
    done = build(place)
    outbox = VectorOutbox(place.outbox_file)
    assert outbox.counts(VERSION).pending == done.enqueued > 0
    outbox.close()
    assert place.current() == Current("gen-2", VERSION)


def test_progress_counts_lines(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress tells lines read and lines in all, also over a resumed run."""
    monkeypatch.setattr("headwater.flows.reprocess_run._LOOK_S", 0.001)
    told: list[tuple[int, int]] = []
    build(place, update=lambda done, total: told.append((done, total)))
    assert {total for _, total in told} == {len(LINES) + 1}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == len(LINES) + 1


def test_lines_that_come_meanwhile_are_in_both(place: Home) -> None:
    """A flow runs and lines come during the build: it pauses, goes on in the new generation, and misses none."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            run_ingest(place, IngestOptions(None, stop=stop))
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    def tell() -> None:
        for n in range(400):
            say(place, n, f"s{n % 5}")
            time.sleep(0.004)

    base = rows_of(place).height
    flow, writer = threading.Thread(target=run), threading.Thread(target=tell)
    flow.start()
    writer.start()
    try:
        # each build is its own process in life; here another thread with the other's clock and disk
        done = build(place)
        writer.join(LIMIT_S)
        until(lambda: rows_of(place).height == base + 400)
    finally:
        stop.set()
        flow.join(LIMIT_S)
    assert errors == []
    assert place.current().generation == done.generation == "gen-2"
    assert done.pause_s < limits.HANDOVER_S
    ingest(place)
    assert rows_of(place).height == base + 400
    assert sum(fates(place).values()) == len(LINES) + 1 + 400
    assert rows_of(place, "gen-1").height < base + 400


def test_one_project_is_built_by_todays_rules_and_the_others_stay(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rules that changed, `project` has the rows of a whole build, and every other project its old ones."""
    before = rows_of(place)
    real = rules.normalise

    def shouting(record: Any) -> Any:
        return [
            replace(made, event=replace(made.event, role="by new rules")) if isinstance(made, Draft) else made
            for made in real(record)
        ]

    monkeypatch.setattr("headwater.flows.ingest.normalise", shouting)
    monkeypatch.setattr("headwater.flows.project_rebuild.normalise", shouting)
    build(place, project="/story")
    now = rows_of(place)
    assert set(now.filter(now["project"] == "/story")["role"]) == {"by new rules"}
    assert (
        differences(now.filter(now["project"] != "/story"), before.filter(before["project"] != "/story"))
        == []
    )
    assert differences(now.drop("role"), before.drop("role")) == []
    build(place)
    whole = rows_of(place)
    assert (
        differences(now.filter(now["project"] == "/story"), whole.filter(whole["project"] == "/story")) == []
    )
    say(place, 1)
    ingest(place)
    assert rows_of(place).height == before.height + 1


def test_facts_without_ids_keep_their_numbers_in_a_projects_build(tmp_path: Path) -> None:
    """Equal words said three times are three events, before and after, with the same ids."""
    home = Home.open(tmp_path / "home")
    for n in range(3):
        go_on = {
            "received_at_ns": (1_773_000_000 + 60 * n) * S,
            "payload": payload("UserPromptSubmit", prompt="go on"),
        }
        append(home.journal, go_on, project="/a")
        ingest(home)
        run_archive(home, older_than_s=-math.inf)
    before = rows_of(home)
    assert before.height == 3
    build(home, project="/a")
    assert differences(rows_of(home), before) == []


@pytest.mark.parametrize("point", ["ingest.added", "reprocess.built"])
def test_interrupted_build_of_a_project_goes_on(place: Home, point: str) -> None:
    """A project's build that failed leaves all as it was; the next one gives the same rows."""
    before = state(place)
    with planned(Plan(point, 1)), pytest.raises((SimulatedCrash, HeadwaterError)):
        build(place, project="/live")
    assert state(place) == before
    assert build(place, project="/live").resumed
    assert differences(rows_of(place), rows_of(place, "gen-1")) == []


def test_copy_that_was_not_finished_is_made_anew(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project's build that died while it copied does not go on with half a copy."""

    def dies(*_: object) -> None:
        raise SimulatedCrash

    with monkeypatch.context() as patched:
        patched.setattr("headwater.flows.reprocess_run.forget_project", dies)
        with pytest.raises(SimulatedCrash):
            build(place, project="/live")
    before = rows_of(place)
    build(place, project="/live")
    assert differences(rows_of(place), before) == []


def test_unknown_project_is_refused(place: Home) -> None:
    """A project without events is an error before anything is built."""
    with pytest.raises(InputError, match="/nowhere"):
        build(place, project="/nowhere")
    assert [one.name for one in generations(place)] == ["gen-1"]
