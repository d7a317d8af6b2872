"""What an import meets while it runs: files that are sealed or replaced, and another generation."""

from __future__ import annotations

import json
import math
import os
import shutil
import threading
from contextlib import closing
from pathlib import Path

import pytest
from generation_rows import differences, rows_of
from import_bench import bring_in
from journal_lines import DATA, S, append, payload

from headwater.flows.archive_run import run_archive
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.reprocess_run import ReprocessOptions, reprocess
from headwater.schemas import limits
from headwater.schemas.errors import StoreError
from headwater.storage import seal
from headwater.storage.archive import Archive
from headwater.storage.home import Home
from headwater.storage.journal import Cursor
from headwater.storage.known_ids import KnownIds
from headwater.storage.locks import hold_lock
from headwater.storage.run_files import ARCHIVE_LOCK, INGEST_LOCK
from headwater.surface.console import Progress
from headwater.surface.importers import ingest, placing
from headwater.surface.importers.ingest import append_paths, wait_for_flow
from headwater.surface.importers.placing import CurrentIds, JournalFile, Places
from headwater.surface.verbs.ingest import give_way

FILE = "claude-code-s1.jsonl"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty home with the test embedder."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    return Home.open(tmp_path / "home")


def say(home: Home, *words: str) -> None:
    """Tell prompts of session s1 as the hook does."""
    for n, text in enumerate(words):
        told = payload("UserPromptSubmit", prompt=text, prompt_id=f"p {text}")
        append(home.journal, {"received_at_ns": (1_773_000_000 + n) * S, "payload": told})


def log(folder: Path, *words: str) -> Path:
    """Write a log of hook payloads of session s1."""
    lines = [
        {
            "received_at_ns": (1_774_000_000 + n) * S,
            "payload": payload("UserPromptSubmit", prompt=one, prompt_id=f"p {one}"),
        }
        for n, one in enumerate(words)
    ]
    path = folder / f"{words[0]}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read(home: Home) -> None:
    """Run the flow until all is read."""
    run_ingest(home, IngestOptions(None, until_idle=True))


def prompts(home: Home) -> list[str]:
    """Return what was said, in order of time."""
    found = rows_of(home).sort("at", "seq").to_dicts()
    return [row["content"] for row in found if row["kind"] == "prompt"]


def test_session_that_was_sealed_takes_an_import(place: Home, tmp_path: Path) -> None:
    """Lines for a session whose file is in the archive stand behind it: each gets its fate at once, and none twice."""
    say(place, "a", "b")
    read(place)
    run_archive(place, older_than_s=-math.inf)
    assert not (place.journal / FILE).exists()
    report = bring_in(place, log(tmp_path, "c", "a"))
    assert (report["lines"], report["events"], report["duplicates"]) == (2, 1, 1)
    assert sorted(prompts(place)) == ["a", "b", "c"]
    run_archive(place, older_than_s=-math.inf)
    assert bring_in(place, log(tmp_path, "d"))["events"] == 1
    before = rows_of(place)
    reprocess(place, ReprocessOptions())
    assert differences(rows_of(place), before) == []


def test_file_sealed_in_the_middle_of_an_import(place: Home) -> None:
    """Lines appended before and after are found again: the first ones in the archive, the others behind them."""
    places = Places()
    say(place, "x")
    (line,) = (place.journal / FILE).read_bytes().splitlines(keepends=True)
    for n in range(3):
        places.put(place, FILE, line.replace(b'"p x"', f'"p {n}"'.encode()))
    read(place)
    run_archive(place, older_than_s=-math.inf)
    for n in range(3, 5):
        places.put(place, FILE, line.replace(b'"p x"', f'"p {n}"'.encode()))
    read(place)
    with closing(KnownIds(place.ids_file)) as known:
        keyed = places.keyed(known)
        assert len({key for key, _, _ in keyed}) == 1
        assert sum(known.count_fates(keyed).values()) == places.lines == 5
        assert places.gone(place, known) is None
    assert keyed[0][1] == keyed[0][2] // 4  # behind the line that was there: all four have one length
    assert keyed[1][1] == Archive(place.archive).end(FILE).base


def test_line_whose_file_is_sealed_right_behind_it_is_told_again(
    place: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When nobody can say where a line went, it is appended once more: twice told is once counted."""
    say(place, "x")
    (line,) = (place.journal / FILE).read_bytes().splitlines(keepends=True)
    real = placing._append
    calls: list[Path] = []

    def sealed_behind(path: Path, data: bytes) -> tuple[int, int]:
        found = real(path, data)
        calls.append(path)
        if len(calls) == 1:
            read(place)
            run_archive(place, older_than_s=-math.inf)
        return found

    monkeypatch.setattr(placing, "_append", sealed_behind)
    places = Places()
    places.put(place, FILE, line.replace(b'"p x"', b'"p 1"'))
    read(place)
    assert len(calls) == 2
    assert places.lines == 1
    with closing(KnownIds(place.ids_file)) as known:
        assert sum(known.count_fates(places.keyed(known)).values()) == 1
    assert prompts(place) == ["x", "x"]  # of two turns, each once


def test_replaced_file_is_known_by_its_turn(place: Home, tmp_path: Path) -> None:
    """A journal file that was replaced after it had been read takes an import all the same."""
    say(place, "a", "b")
    read(place)
    (place.journal / FILE).unlink()
    say(place, "other")
    read(place)
    with closing(KnownIds(place.ids_file)) as known:
        assert sorted(key.count(".") for key in known.keys_of(FILE)) == [1, 2]  # the second has a turn
    report = bring_in(place, log(tmp_path, "c"))
    assert (report["lines"], report["events"]) == (1, 1)


def test_lines_that_went_away_with_their_file_are_said(
    place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is replaced before the flow read it ends the wait with its name; another import brings all in."""
    monkeypatch.setattr(ingest, "GONE_S", 0.2)
    path = log(tmp_path, "a", "b")
    appended = append_paths(place, [path], None, Progress("reading"))
    (place.journal / FILE).unlink()
    say(place, "other")
    with pytest.raises(StoreError, match=rf"{FILE}.*replaced or removed.*ingest again"):
        wait_for_flow(place, appended, Progress("ingesting"))
    assert bring_in(place, path)["events"] == 2
    assert sorted(prompts(place)) == ["a", "b", "other"]


def test_file_replaced_between_two_lines_of_an_import(place: Home, tmp_path: Path) -> None:
    """Each file of a name is told by its inode, and one that was cut by its length."""
    places = Places()
    say(place, "x")
    (line,) = (place.journal / FILE).read_bytes().splitlines(keepends=True)
    places.put(place, FILE, line)
    other = tmp_path / "other"
    other.write_bytes(line * 3)
    other.replace(place.journal / FILE)
    places.put(place, FILE, line)
    (place.journal / FILE).write_bytes(b"")
    places.put(place, FILE, line)
    size = len(line)
    assert [file.spans for file in places.files[FILE]] == [
        [(size, 2 * size)],
        [(3 * size, 4 * size)],
        [(0, size)],
    ]


def test_leftover_of_a_killed_archive_run_is_finished_first(place: Home, tmp_path: Path) -> None:
    """A file that a crash left on its way gets its lines sealed before new ones of its name are placed."""
    say(place, "a", "b")
    read(place)
    seal.take_away(place, FILE)
    assert bring_in(place, log(tmp_path, "c"))["events"] == 1
    assert not list(place.journal.glob("*" + seal.SEALED))
    assert sorted(prompts(place)) == ["a", "b", "c"]


def test_sealing_that_another_does_is_waited_for(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the archive is held, a file on its way is waited for, and not for ever."""
    monkeypatch.setattr(limits, "ARCHIVE_WRITERS_S", 0.2)
    say(place, "a")
    data = (place.journal / FILE).read_bytes()
    seal.take_away(place, FILE)
    places = Places()
    with hold_lock(place.run / ARCHIVE_LOCK, "archive"):
        places.put(place, FILE, data)
    (file,) = places.files[FILE]
    assert file.is_there(place)
    assert places.lines == 1


def test_generation_switched_meanwhile_is_seen(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that waits while a reprocess switches generations gets its fates from the new one."""
    monkeypatch.setattr(ingest, "WAIT_S", 20.0)
    say(place, "a")
    read(place)
    with hold_lock(place.run / INGEST_LOCK, "ingest flow"):  # a flow is up, and does not read yet
        appended = append_paths(place, [DATA / "claude_code_live.jsonl.gz"], None, Progress("reading"))
        fates: list[int] = []
        waiting = threading.Thread(
            target=lambda: fates.append(sum(wait_for_flow(place, appended, Progress("i")).values()))
        )
        waiting.start()
        old = place.ids_file
    reprocess(place, ReprocessOptions(keep=0))
    waiting.join(60)
    assert place.ids_file != old
    assert fates == [appended.lines]


def test_register_follows_the_generation(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier imports told is asked of the generation in use, also after a switch."""
    monkeypatch.setattr(placing, "_LOOK_S", 0.0)
    say(place, "a")
    read(place)
    with closing(CurrentIds(place)) as ids:
        first = ids.now()
        assert ids.now() is first
        reprocess(place, ReprocessOptions(keep=0))
        assert ids.now() is not first
        assert ids.now().count_ids() == 1


def test_spans_join_neighbours() -> None:
    """Lines that follow each other are one span; another writer's line between them makes two."""
    file = JournalFile("a", 1, Cursor())
    for start, end in ((0, 10), (10, 20), (35, 40)):
        file.note(start, end)
    assert file.spans == [(0, 20), (35, 40)]
    assert file.lines == 3


def test_import_gives_way_to_a_running_stream(place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a stream is up, an import runs at a lower priority; without one there is nobody to give way to."""
    asked: list[int] = []
    monkeypatch.setattr(os, "nice", asked.append)
    give_way(place)
    with hold_lock(place.run / INGEST_LOCK, "ingest flow"):
        give_way(place)
    assert asked == [limits.IMPORT_NICE]


@pytest.mark.parametrize("sealed", [False, True])
def test_lost_register_is_made_again_before_an_import(place: Home, *, sealed: bool) -> None:
    """After a restore, say, the tables are gone: what was imported before is still told before, and not appended."""
    logs = DATA / "claude_code_live_transcripts"
    bring_in(place, logs)
    before = rows_of(place)
    if sealed:
        run_archive(place, older_than_s=-math.inf)
    for path in (place.root / "lance", place.root / "recovery"):
        shutil.rmtree(path)
    for path in place.root.glob("ids*"):
        path.unlink()
    size = sum(path.stat().st_size for path in place.journal.iterdir())
    again = bring_in(place, logs)
    assert (again["events"], again["lines_with_events"], again["merged"]) == (0, 0, 0)
    assert sum(path.stat().st_size for path in place.journal.iterdir()) == size
    assert differences(rows_of(place), before) == []
