from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from journal_lines import DATA, encode, envelope, live, payload

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.schemas import clock
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import InputError, StoreError
from headwater.schemas.events import Fate
from headwater.storage.home import Home
from headwater.storage.locks import is_held
from headwater.storage.run_files import INGEST_LOCK
from headwater.storage.tables import LanceStore
from headwater.surface.console import Progress
from headwater.surface.importers import ingest
from headwater.surface.importers.ingest import Appended, append_paths, count_events, summary, wait_for_flow
from headwater.surface.importers.placing import Places
from headwater.surface.importers.records import Format

LIVE = DATA / "claude_code_live.jsonl.gz"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty home with the test embedder."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    return Home.open(tmp_path / "home")


def bring_in(home: Home, *paths: Path, wanted: Format | None = None) -> dict[str, Any]:
    """Ingest paths and return the counts; they always add up to the lines."""
    appended = append_paths(home, list(paths), wanted, Progress("reading"))
    fates = wait_for_flow(home, appended, Progress("ingesting"))
    report = summary(appended, fates, 0, 0.0, events=count_events(home, appended))
    parts = ("lines_with_events", "duplicates", "merged", "noise", "quarantined")
    assert report["lines"] == sum(report[part] for part in parts)
    return report


def event_count(home: Home) -> int:
    """Return the rows of the events' table."""
    return LanceStore(home.lance).open(EVENTS).count()


def test_recorded_sessions_come_in_with_their_counts(place: Home) -> None:
    """Every line of a recorded log is accounted for, and reading it again adds nothing."""
    report = bring_in(place, LIVE)
    counts = [
        report[key] for key in ("lines", "lines_with_events", "merged", "duplicates", "noise", "quarantined")
    ]
    assert counts == [185, 108, 30, 1, 46, 0]
    assert event_count(place) == report["events"] == 108
    again = bring_in(place, LIVE)
    assert (again["lines"], again["events"], again["merged"]) == (185, 0, 0)
    assert (again["duplicates"], again["noise"]) == (139, 46)
    assert event_count(place) == 108


@pytest.mark.parametrize(("folder", "prompts"), [("hooks_attio", 11), ("hooks_templar", 277)])
def test_payloads_of_old_agents_come_in_once(place: Home, folder: str, prompts: int) -> None:
    """Arrays per event without ids or times: words said again are kept, results meet calls, twice adds nothing."""
    report = bring_in(place, DATA / folder)
    table = LanceStore(place.lance).open(EVENTS)
    assert report["quarantined"] == 0
    assert (report["merged"] > 0) == (
        folder == "hooks_attio"
    )  # the extract of the other has no call with its result
    assert table.count() == report["events"]
    assert table.count("kind = 'prompt'") == prompts
    assert report["left_out"] == []
    again = bring_in(place, DATA / folder)
    assert (again["events"], again["merged"]) == (0, 0)
    assert table.count() == report["events"]


def test_other_formats_than_the_wanted_are_left_out(place: Home) -> None:
    """A transcript is not taken for hook payloads when only those are wanted."""
    report = bring_in(place, DATA / "hooks_attio" / "chat.json.gz", wanted=Format.HOOK)
    assert report["lines"] == 0
    assert report["left_out"][0]["why"] == "looks like claude, wanted hook"
    assert list(place.journal.iterdir()) == []


def test_import_meets_what_was_captured_live(place: Home) -> None:
    """A log of sessions that the hook captured too adds nothing that has an id of its own."""
    for line in live():
        name = f"claude-code-{line['payload']['session_id']}.jsonl"
        with (place.journal / name).open("ab") as file:
            file.write(encode(envelope(line["payload"], received_at_ns=line["received_at_ns"])) + b"\n")
    report = bring_in(place, LIVE)
    assert report["events"] == 0
    assert event_count(place) == 108


def test_exported_journal_comes_in_alike(place: Home, tmp_path: Path) -> None:
    """The journal of one home, read into another, gives the same events."""
    bring_in(place, LIVE)
    other = Home.open(tmp_path / "other")
    report = bring_in(other, place.journal)
    assert (report["lines"], report["events"], report["merged"]) == (185, 108, 30)
    ids = [
        sorted(LanceStore(home.lance).open(EVENTS).scan(["id"])["id"].to_list()) for home in (place, other)
    ]
    assert ids[0] == ids[1]


def test_garbage_is_set_aside_and_counted(place: Home, tmp_path: Path) -> None:
    """Lines that are no payload are quarantined with where they came from; the others come in."""
    log = tmp_path / "hooks.jsonl"
    log.write_bytes(
        b"\xef\xbb\xbf" + encode(payload("UserPromptSubmit", prompt="x")) + b"\nrubbish\n[1]\n{}\n"
    )
    report = bring_in(place, log)
    assert (report["lines"], report["events"], report["quarantined"]) == (4, 1, 3)
    reasons = [
        json.loads(line)["reason"] for line in place.quarantine_file.read_text(encoding="utf-8").splitlines()
    ]
    assert all(str(log) in reason for reason in reasons)


@pytest.mark.parametrize("data", ["", "[]", "\n\n"])
def test_empty_file_brings_nothing(place: Home, tmp_path: Path, data: str) -> None:
    """A file without records is no error."""
    log = tmp_path / "hooks.jsonl"
    log.write_text(data)
    assert bring_in(place, log)["lines"] == 0


def test_huge_element_comes_in_clipped(place: Home, tmp_path: Path) -> None:
    """A record of megabytes is one event of bounded text that knows how long it was."""
    log = tmp_path / "hooks.json"
    big = payload(
        "PostToolUse", tool_name="Bash", tool_use_id="u1", tool_response="line of output\n" * 400_000
    )
    log.write_text(json.dumps([big]))
    assert bring_in(place, log)["events"] == 1
    (row,) = LanceStore(place.lance).open(EVENTS).scan(["content", "content_length"]).to_dicts()
    assert len(row["content"]) < 70_000
    assert row["content_length"] == 6_000_000


def test_wanted_format_leaves_others_out(place: Home, tmp_path: Path) -> None:
    """Who asks for hook payloads gets them, stamped or bare, and is told what else was found."""
    for name, value in (
        ("a.json", payload("UserPromptSubmit", prompt="a")),
        ("b.json", {"received_at_ns": 10**18, "payload": payload("UserPromptSubmit", prompt="b")}),
        ("c.json", envelope(payload("UserPromptSubmit", prompt="c"))),
    ):
        (tmp_path / name).write_text(json.dumps(value))
    files = sorted(tmp_path.glob("*.json"))
    report = bring_in(place, *files, wanted=Format.HOOK)
    assert report["events"] == 2
    assert [Path(left["file"]).name for left in report["left_out"]] == ["c.json"]
    assert bring_in(place, *files, wanted=Format.ENVELOPE)["events"] == 1


def test_folders_and_gzip_are_read(place: Home, tmp_path: Path) -> None:
    """Files below a folder come in, plain or gzipped, as do two of one name with the same words in them."""
    for number, folder in enumerate(("one", "two")):
        (tmp_path / "logs" / folder).mkdir(parents=True)
        data = encode(
            {"received_at_ns": 10**18 + number, "payload": payload("UserPromptSubmit", prompt=folder)}
        )
        (tmp_path / "logs" / folder / "x.jsonl.gz").write_bytes(gzip.compress(data))
    assert bring_in(place, tmp_path / "logs")["events"] == 2


def test_foreign_files_below_a_folder_are_left_out(place: Home, tmp_path: Path) -> None:
    """A folder's other JSON files do not fill the journal; a file that is named is read whatever it holds."""
    other = tmp_path / "package.json"
    other.write_text('{\n  "name": "x"\n}\n')
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "hooks.jsonl").write_text(json.dumps(payload("UserPromptSubmit", prompt="x")))
    report = bring_in(place, tmp_path)
    assert (report["lines"], report["events"]) == (1, 1)
    assert "package.json" in [Path(left["file"]).name for left in report["left_out"]]
    assert bring_in(place, other)["quarantined"] == 1


def test_missing_path_is_said(place: Home, tmp_path: Path) -> None:
    """A path that is not there is an error before anything is appended."""
    with pytest.raises(InputError, match="check the path"):
        append_paths(place, [LIVE, tmp_path / "none"], None, Progress("reading"))
    assert list(place.journal.iterdir()) == []


def test_journal_that_cannot_be_written_is_said(place: Home, tmp_path: Path) -> None:
    """When a line cannot be appended the error is ours, with the fix."""
    (place.journal / "claude-code-s1.jsonl").symlink_to(tmp_path / "elsewhere")
    log = tmp_path / "hooks.json"
    log.write_text(json.dumps(payload("Stop")))
    with pytest.raises(StoreError, match=r"cannot be written.*nothing is counted twice"):
        append_paths(place, [log], None, Progress("reading"))


def test_running_flow_does_the_work(place: Home) -> None:
    """When a flow is up the import waits for it and gets the same counts."""
    stop = threading.Event()
    options = IngestOptions(embedding_version=None, stop=stop)
    flow = threading.Thread(target=run_ingest, args=(place, options))
    flow.start()
    try:
        end_s = clock.SYSTEM.monotonic_s() + 60
        while not is_held(place.run / INGEST_LOCK):
            assert clock.SYSTEM.monotonic_s() < end_s
            clock.SYSTEM.sleep(0.05)
        assert bring_in(place, LIVE)["events"] == 108
    finally:
        stop.set()
        flow.join(60)


def test_flow_that_does_not_move_is_said(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running flow that gives no line its fate ends the wait with a word."""
    monkeypatch.setattr(ingest, "is_held", lambda path: True)
    monkeypatch.setattr(ingest, "WAIT_S", 0.3)
    appended = append_paths(place, [LIVE], None, Progress("reading"))
    with pytest.raises(StoreError, match="0 of 185 lines"):
        wait_for_flow(place, appended, Progress("ingesting"))


def test_summary_adds_up() -> None:
    """Lines are the sum of what became of them."""
    counts = {Fate.EVENT: 3, Fate.DUPLICATE: 2, Fate.MERGED: 1, Fate.NOISE: 4, Fate.QUARANTINED: 5}
    report = summary(Appended(Places(lines=15)), counts, 2, 1.23456)
    assert report["lines"] == sum(counts.values())
    assert (report["events"], report["embedded"], report["elapsed_s"]) == (3, 2, 1.235)
