from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from pathlib import Path

import pytest
from kept_home import NOW, TRUTH, contents, full_home, members, used

from headwater.schemas import limits
from headwater.schemas.errors import BusyError, DamagedError, InputError, StoreError
from headwater.storage import backup as backup_module
from headwater.storage import journal as journal_module
from headwater.storage.backup import BackupReport, default_name, write_backup
from headwater.storage.home import Home
from headwater.storage.locks import hold_lock
from headwater.storage.run_files import ARCHIVE_LOCK, INGEST_LOCK


def test_a_backup_holds_the_truth(tmp_path: Path) -> None:
    """Everything that cannot be made again is in it, nothing else is, and the manifest names each file."""
    home = full_home(tmp_path / "h")
    before = contents(home.root)
    told: list[tuple[int, int | None]] = []
    done = write_backup(
        home, tmp_path / "b.tar.gz", now=NOW, update=lambda done, total: told.append((done, total))
    )
    found = members(done.file)
    manifest = json.loads(found["manifest.json"])
    assert list(found)[-1] == "manifest.json"
    assert set(found) == TRUTH | {"manifest.json"}
    for name in TRUTH - {"usage.sqlite"}:
        assert found[name] == before[name], name
    (tmp_path / "usage.sqlite").write_bytes(found["usage.sqlite"])
    assert used(tmp_path / "usage.sqlite") == 2
    assert manifest["files"] == [
        {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in found.items()
        if name != "manifest.json"
    ]
    assert (manifest["made_at"], manifest["format_version"]) == ("2026-03-24T15:00:00.000000Z", 1)
    assert done == BackupReport(
        tmp_path / "b.tar.gz",
        len(TRUTH),
        sum(one["size"] for one in manifest["files"]),
        done.file.stat().st_size,
        with_tables=False,
    )
    assert stat.S_IMODE(done.file.stat().st_mode) == 0o600
    assert told[-1][0] == told[-1][1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar.gz", "h", "usage.sqlite"]


def test_tables_come_along_when_asked_for(tmp_path: Path) -> None:
    """With tables and databases, without snapshots and logs; nothing may write them meanwhile."""
    home = full_home(tmp_path / "h")
    (home.root / "ids.gen-2.sqlite").write_bytes((home.root / "ids.sqlite").read_bytes())
    done = write_backup(home, tmp_path / "b.tar.gz", now=NOW, with_tables=True)
    found = set(members(done.file))
    assert {"ids.sqlite", "ids.gen-2.sqlite", "outbox.sqlite"} <= found
    assert any(name.startswith("lance/gen-1/events.lance/data/") for name in found)
    assert not any(name.startswith(("recovery", "logs", "run")) for name in found)
    with hold_lock(home.run / INGEST_LOCK, "ingest"), pytest.raises(BusyError, match="already running"):
        write_backup(home, tmp_path / "c.tar.gz", now=NOW, with_tables=True)
    with hold_lock(home.run / "vectors-x.lock", "x"), pytest.raises(BusyError, match=r"vectors-x\.lock"):
        write_backup(home, tmp_path / "c.tar.gz", now=NOW, with_tables=True)
    assert not (tmp_path / "c.tar.gz").exists()


def test_nothing_is_sealed_meanwhile(tmp_path: Path) -> None:
    """While lines move to the archive there is no backup; what a crash left on its way is put in its place first."""
    home = full_home(tmp_path / "h")
    with hold_lock(home.run / ARCHIVE_LOCK, "x"), pytest.raises(BusyError, match="the archive"):
        write_backup(home, tmp_path / "b.tar.gz", now=NOW)
    (home.journal / "old.jsonl.sealed").write_bytes(b"{}\n")
    (home.archive / "lines" / ".old.parquet.tmp").write_bytes(b"draft")
    (home.archive / "lines" / ".odd.parquet").write_bytes(b"sealed")
    found = set(members(write_backup(home, tmp_path / "b.tar.gz", now=NOW).file))
    assert found == TRUTH | {"manifest.json", "journal/old.jsonl", "archive/lines/.odd.parquet"}


def test_what_cannot_be_put_in_its_place_is_taken_as_it_is(tmp_path: Path) -> None:
    """A file on its way to a damaged segment is in the backup beside it, and neither is touched."""
    home = full_home(tmp_path / "h")
    (home.journal / "old.jsonl.sealed").write_bytes(b"{}\n" * 9)
    segment = home.archive / "lines" / "date=2026-01-05" / "old.jsonl@0123456789ab.0-0-3-1.parquet"
    segment.write_bytes(b"damaged")
    found = members(write_backup(home, tmp_path / "b.tar.gz", now=NOW).file)
    assert found["journal/old.jsonl.sealed"] == b"{}\n" * 9
    assert found[segment.relative_to(home.root).as_posix()] == b"damaged"
    assert (home.journal / "old.jsonl.sealed").exists()


def test_only_complete_lines_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is being written is left out, however long it is; a file without a complete line is empty."""
    monkeypatch.setattr(limits, "READ_BYTES", 7)
    home = full_home(tmp_path / "h")
    for name, data in (("a", b'{"n": 1}\n{"half": "' + b"x" * 50), ("b", b'{"n'), ("c", b"")):
        (home.journal / f"{name}.jsonl").write_bytes(data)
    with home.quarantine_file.open("ab") as file:
        file.write(b'{"torn')
    found = members(write_backup(home, tmp_path / "b.tar.gz", now=NOW).file)
    assert found["journal/a.jsonl"] == b'{"n": 1}\n'
    assert found["journal/b.jsonl"] == found["journal/c.jsonl"] == b""
    assert found["quarantine.jsonl"] == b'{"reason": "odd"}\n'


def test_hooks_go_on_meanwhile(tmp_path: Path) -> None:
    """While lines are appended, each backup holds complete lines only, a beginning of what is there in the end."""
    home = full_home(tmp_path / "h")
    path = home.journal / "busy.jsonl"
    path.write_bytes(b"")
    stop = threading.Event()

    def append() -> None:
        with path.open("ab", buffering=0) as file:
            for n in range(100_000):
                line = json.dumps({"n": n, "text": "x" * (n % 5000)}).encode() + b"\n"
                file.write(line[: len(line) // 2])
                file.write(line[len(line) // 2 :])
                if stop.is_set():
                    return

    writer = threading.Thread(target=append)
    writer.start()
    try:
        taken = [
            members(write_backup(home, tmp_path / f"{n}.tar.gz", now=NOW).file)["journal/busy.jsonl"]
            for n in range(5)
        ]
    finally:
        stop.set()
        writer.join()
    whole = path.read_bytes()
    for data in taken:
        assert data == b"" or data.endswith(b"\n")
        assert whole.startswith(data)
    assert sorted(taken, key=len) == taken


def test_what_grows_after_the_start_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are taken up to their size at the start; one that went away meanwhile is elsewhere."""
    home = full_home(tmp_path / "h")
    list_files = journal_module.list_files

    def and_then(folder: Path) -> dict[str, int]:
        sizes = list_files(folder)
        with (folder / "claude-code-s1.jsonl").open("ab") as file:
            file.write(b'{"n": 99}\n')
        (folder / "claude-code-세션.jsonl").unlink()
        return sizes

    monkeypatch.setattr(journal_module, "list_files", and_then)
    found = members(write_backup(home, tmp_path / "b.tar.gz", now=NOW).file)
    assert found["journal/claude-code-s1.jsonl"] == b'{"n": 1}\n{"n": 2}\n'
    assert "journal/claude-code-세션.jsonl" not in found


def test_a_home_from_the_hook_can_be_backed_up(tmp_path: Path) -> None:
    """The hook may have been first: there is a journal and nothing else."""
    (tmp_path / "h" / "journal").mkdir(parents=True)
    (tmp_path / "h" / "journal" / "a.jsonl").write_bytes(b"{}\n")
    done = write_backup(Home.open(tmp_path / "h", create=False), tmp_path / "b.tar.gz", now=NOW)
    assert set(members(done.file)) == {"journal/a.jsonl", "manifest.json"}


def test_where_a_backup_may_go(tmp_path: Path) -> None:
    """Not into the home, not over a file unless forced, not into a folder that is not there."""
    home = full_home(tmp_path / "h")
    (tmp_path / "link").symlink_to(home.journal)
    file = tmp_path / default_name(NOW)
    assert file.name == "headwater-backup-20260324T150000Z.tar.gz"
    file.write_bytes(b"mine")
    for target, said in (
        (home.root / "b.tar.gz", "lies inside the home"),
        (tmp_path / "link" / "b.tar.gz", "lies inside the home"),
        (file, "exists already"),
        (tmp_path / "none" / "b.tar.gz", "wanted a folder"),
        (tmp_path, "found a folder"),
    ):
        with pytest.raises(InputError, match=said):
            write_backup(home, target, now=NOW)
    assert file.read_bytes() == b"mine"
    write_backup(home, file, now=NOW, overwrite=True)
    assert set(members(file)) > TRUTH


def test_a_backup_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged database, a full disk, a file that goes away: our error, no half file, and the old file stays."""
    home = full_home(tmp_path / "h")
    file = tmp_path / "b.tar.gz"
    file.write_bytes(b"older")
    usage = home.usage_file.read_bytes()
    home.usage_file.write_bytes(b"no database" * 1000)
    with pytest.raises(DamagedError, match=r"usage\.sqlite"):
        write_backup(home, file, now=NOW, overwrite=True)
    home.usage_file.write_bytes(usage)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _handle: (_ for _ in ()).throw(OSError(28, "disk full")))
        with pytest.raises(StoreError, match="disk full"):
            write_backup(home, file, now=NOW, overwrite=True)
    gone = home.archive / "gone.parquet"
    monkeypatch.setattr(backup_module, "_files", lambda _folder: iter([gone]))
    with pytest.raises(StoreError, match="went away while it was copied"):
        write_backup(home, file, now=NOW, overwrite=True)
    assert file.read_bytes() == b"older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar.gz", "h"]
