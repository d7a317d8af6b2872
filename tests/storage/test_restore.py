from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from kept_home import NOW, SILENT_S, TRUTH, contents, full_home, members, pack, used

from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import (
    BusyError,
    DamagedError,
    HeadwaterError,
    HomeError,
    InputError,
    StoreError,
)
from headwater.storage.backup import write_backup
from headwater.storage.control import effective_mode
from headwater.storage.home import Home
from headwater.storage.locks import hold_lock
from headwater.storage.restore import restore_backup
from headwater.storage.run_files import SERVER_LOCK
from headwater.storage.tables import LanceStore

ASIDE = "before-restore-20260324T150000Z"
SMALL = {"FORMAT_VERSION": b"1\n", "journal/a.jsonl": b"{}\n"}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A backup of a full home that is no longer there."""
    home = full_home(tmp_path / "old")
    done = write_backup(home, tmp_path / "b.tar.gz", now=NOW)
    home.root.rename(tmp_path / "gone")
    return done.file


def names(folder: Path) -> list[str]:
    """Return what is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_a_home_comes_back(tmp_path: Path, saved: Path) -> None:
    """Every file as it was, closed to others, with its old time; what can be made again is made later."""
    done = restore_backup(Home(tmp_path / "h"), saved, now=NOW)
    home = Home.open(tmp_path / "h", create=False)
    old, new = contents(tmp_path / "gone"), contents(home.root)
    assert {name for name in new if not name.startswith("run/")} == TRUTH
    assert {name: new[name] for name in TRUTH - {"usage.sqlite"}} == {
        name: old[name] for name in TRUTH - {"usage.sqlite"}
    }
    assert used(home.usage_file) == 2
    assert effective_mode(home) == "endless"
    for path in (home.root, home.journal, *home.journal.iterdir(), home.archive, *home.archive.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert (home.journal / "claude-code-s1.jsonl").stat().st_mtime == SILENT_S
    assert (done.files, done.made_at, done.aside) == (len(TRUTH), "2026-03-24T15:00:00.000000Z", ())
    assert names(tmp_path) == ["b.tar.gz", "gone", "h"]


def test_tables_come_back_when_they_were_backed_up(tmp_path: Path) -> None:
    """Tables can be read at once."""
    home = full_home(tmp_path / "old")
    done = write_backup(home, tmp_path / "b.tar.gz", now=NOW, with_tables=True)
    assert restore_backup(Home(tmp_path / "h"), done.file, now=NOW).with_tables
    assert LanceStore(Home(tmp_path / "h").lance).open(EVENTS, create=False).count() == 3
    assert used(tmp_path / "h" / "ids.sqlite") == 2


def test_a_home_with_data_is_moved_aside_only_when_forced(tmp_path: Path, saved: Path) -> None:
    """Without force nothing changes; with it the old home is kept, whole, and told."""
    home = full_home(tmp_path / "h")
    (home.journal / "later.jsonl").write_bytes(b"{}\n")
    before = contents(home.root)
    with pytest.raises(InputError, match="Fix: add --force"):
        restore_backup(home, saved, now=NOW)
    assert contents(home.root) == before
    done = restore_backup(home, saved, now=NOW, force=True)
    assert done.aside == (tmp_path / f"h.{ASIDE}",)
    kept = contents(done.aside[0])
    assert {name: kept[name] for name in before} == before
    assert not (home.journal / "later.jsonl").exists()
    again = restore_backup(home, saved, now=NOW, force=True)
    assert again.aside == (tmp_path / f"h.{ASIDE}-2",)


def test_a_home_that_was_used_for_nothing_is_replaced(tmp_path: Path, saved: Path) -> None:
    """Looking at a new home leaves folders and empty databases, which are no data; they are not kept."""
    home = Home.open(tmp_path / "h")
    (home.root / "ids.sqlite").touch()
    (home.root / "ids.sqlite-wal").touch()
    (home.logs / "server.log").touch()
    assert restore_backup(home, saved, now=NOW).aside == ()
    assert names(tmp_path) == ["b.tar.gz", "gone", "h"]
    (tmp_path / "empty").mkdir()
    assert restore_backup(Home(tmp_path / "empty"), saved, now=NOW).aside == ()
    deep = Home(tmp_path / "a" / "b" / "h")
    restore_backup(deep, saved, now=NOW)
    assert Home.open(deep.root, create=False).config().mode == "session"


@pytest.mark.parametrize("name", ["journal/a.jsonl", "config.toml", "lance/gen-1/x", "notes.txt", "photos"])
def test_what_counts_as_data(tmp_path: Path, saved: Path, name: str) -> None:
    """A line, a setting, a table, and whatever is not ours."""
    path = tmp_path / "h" / name
    path.parent.mkdir(parents=True)
    path.mkdir() if name == "photos" else path.touch()
    with pytest.raises(InputError, match="holds data already"):
        restore_backup(Home(tmp_path / "h"), saved, now=NOW)
    assert path.exists()


def test_a_running_stream_is_not_replaced(tmp_path: Path, saved: Path) -> None:
    """While a process of the home runs, force is not enough."""
    home = full_home(tmp_path / "h")
    with hold_lock(home.run / SERVER_LOCK, "server"), pytest.raises(BusyError, match="headwater down"):
        restore_backup(home, saved, now=NOW, force=True)
    assert names(tmp_path) == ["b.tar.gz", "gone", "h"]


def test_a_link_to_a_home_stays_a_link(tmp_path: Path, saved: Path) -> None:
    """The folder behind the link is the home."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "h").symlink_to(tmp_path / "disk" / "real")
    restore_backup(Home(tmp_path / "h"), saved, now=NOW)
    assert (tmp_path / "h").is_symlink()
    assert (tmp_path / "disk" / "real" / "journal").is_dir()


def test_a_hook_that_writes_in_the_gap_loses_nothing(
    tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two renames a hook makes a home of its own: it is moved aside as well, with its line."""
    home = full_home(tmp_path / "h")
    rename = Path.rename
    hooks = [1]

    def and_a_hook(path: Path, target: Path) -> Path:
        if target == home.root and hooks:
            hooks.pop()
            home.journal.mkdir(parents=True)
            (home.journal / "hook.jsonl").write_bytes(b'{"from": "hook"}\n')
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", and_a_hook)
    done = restore_backup(home, saved, now=NOW, force=True)
    assert [path.name for path in done.aside] == [f"h.{ASIDE}", f"h.{ASIDE}-2"]
    assert (done.aside[1] / "journal" / "hook.jsonl").read_bytes() == b'{"from": "hook"}\n'
    assert effective_mode(home) == "endless"


def test_a_rename_that_fails_puts_the_home_back(
    tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the new home cannot be put in place, the old one is where it was."""
    home = full_home(tmp_path / "h")
    before = contents(home.root)
    rename = Path.rename

    def fail_once(path: Path, target: Path) -> Path:
        if path.name.startswith(".headwater-"):
            raise OSError(5, "input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(StoreError, match="input/output error"):
        restore_backup(home, saved, now=NOW, force=True)
    after = contents(home.root)
    assert {name: after[name] for name in before} == before
    assert names(tmp_path) == ["b.tar.gz", "gone", "h"]


def refused(tmp_path: Path, file: Path) -> HeadwaterError:
    """Return the error with which a backup is refused, once over a home and once over nothing, which both stay."""
    home = full_home(tmp_path / "full")
    before, beside = contents(home.root), names(tmp_path)
    with pytest.raises(HeadwaterError):
        restore_backup(Home(tmp_path / "none"), file, now=NOW)
    with pytest.raises(HeadwaterError) as raised:
        restore_backup(home, file, now=NOW, force=True)
    assert contents(home.root) == before
    assert names(tmp_path) == beside
    return raised.value


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    """Return a member's head."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


@pytest.mark.parametrize(
    "bad",
    [
        member("../evil"),
        member("journal/../../evil"),
        member("/tmp/evil"),
        member("journal//evil"),
        member("./journal/evil"),
        member("evil"),
        member("run/up.lock"),
        member("journal/link", tarfile.SYMTYPE, "/etc"),
        member("journal/hard", tarfile.LNKTYPE, "FORMAT_VERSION"),
        member("journal/pipe", tarfile.FIFOTYPE),
        member("journal/device", tarfile.CHRTYPE),
    ],
    ids=lambda info: f"{info.name} {info.type.decode()}",
)
def test_members_that_no_backup_has_are_refused(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    """Names that lead out of the folder, links and devices: nothing is written, inside or outside."""
    error = refused(tmp_path, pack(tmp_path / "b.tar.gz", SMALL, (bad,)))
    assert isinstance(error, DamagedError)
    assert "do not trust this file" in error.fix
    assert not list(tmp_path.rglob("evil"))
    assert not Path("/tmp/evil").exists()


def test_a_file_twice_is_refused(tmp_path: Path) -> None:
    """The second of two members of one name is not taken for the first."""
    file = pack(tmp_path / "b.tar.gz", SMALL, (member("journal/a.jsonl", size=3),))
    assert "twice" in refused(tmp_path, file).problem


@pytest.mark.parametrize(
    ("files", "manifest", "said"),
    [
        ([], {}, "2 files are not what was backed up"),
        ([{"path": "journal/a.jsonl", "size": 3, "sha256": "0" * 64}], {}, "not what was backed up"),
        (None, {"format_version": 99}, "wanted format 1 at most, found 99"),
        (None, {"kind": "else"}, "another kind or version"),
        (None, {"v": 2}, "another kind or version"),
        (None, {"files": 5}, "manifest is not ours"),
        (None, {"made_at": None, "files": [{"path": "x"}]}, "manifest is not ours"),
    ],
)
def test_a_manifest_that_does_not_fit(
    tmp_path: Path, files: list[dict[str, Any]] | None, manifest: dict[str, Any], said: str
) -> None:
    """A file changed, missing or too many, or a manifest that says something else, replaces nothing."""
    manifest |= {} if files is None else {"files": files}
    assert said in refused(tmp_path, pack(tmp_path / "b.tar.gz", SMALL, **manifest)).problem


def test_a_damaged_file_is_refused(tmp_path: Path, saved: Path) -> None:
    """Cut anywhere, changed anywhere, or no backup at all: told, and nothing is replaced."""
    data = saved.read_bytes()
    home = full_home(tmp_path / "h")
    before, file = contents(home.root), tmp_path / "damaged"
    damaged = [data[: len(data) * n // 10] for n in range(10)]
    damaged += [data[:n] + bytes([data[n] ^ 255]) + data[n + 1 :] for n in range(20, len(data) - 8, 97)]
    for one in [*damaged, b"no backup"]:
        file.write_bytes(one)
        with pytest.raises(DamagedError, match=r"Fix: (use another backup|do not trust this file)"):
            restore_backup(home, file, now=NOW, force=True)
    for missing in (tmp_path / "missing", tmp_path):
        with pytest.raises(InputError, match="Fix: name a backup file"):
            restore_backup(home, missing, now=NOW, force=True)
    assert contents(home.root) == before
    assert names(tmp_path) == ["b.tar.gz", "damaged", "gone", "h"]


def test_a_backup_that_was_packed_anew(tmp_path: Path, saved: Path) -> None:
    """Another tar program adds folders and another order: it is the same backup."""
    found = members(saved)
    (tmp_path / "p").mkdir()
    with tarfile.open(tmp_path / "p" / "b.tar.gz", "w:gz") as tar:
        for name in ("journal", "archive"):
            tar.addfile(member(name, tarfile.DIRTYPE))
        for name in sorted(found, reverse=True):
            (tmp_path / "p" / "x").write_bytes(found[name])
            tar.add(tmp_path / "p" / "x", name)
    assert restore_backup(Home(tmp_path / "h"), tmp_path / "p" / "b.tar.gz", now=NOW).files == len(TRUTH)


def test_a_home_of_an_older_format_waits_for_its_migration(tmp_path: Path) -> None:
    """The backup comes back as it was, and opening it names the next step."""
    file = pack(tmp_path / "b.tar.gz", {**SMALL, "FORMAT_VERSION": b"0\n"}, format_version=0)
    assert restore_backup(Home(tmp_path / "h"), file, now=NOW).format_version == 0
    with pytest.raises(HomeError, match="Fix: run: headwater migrate"):
        Home.open(tmp_path / "h")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere, whatever the mode")
def test_a_folder_we_may_not_write_to(tmp_path: Path, saved: Path) -> None:
    """Told with the fix."""
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(HeadwaterError, match="permissions"):
        restore_backup(Home(tmp_path / "closed" / "h"), saved, now=NOW)


def test_a_file_in_the_homes_place(tmp_path: Path, saved: Path) -> None:
    """A file is no home, and is not moved."""
    (tmp_path / "h").write_bytes(b"mine")
    with pytest.raises(HomeError, match="found a file"):
        restore_backup(Home(tmp_path / "h"), saved, now=NOW, force=True)
    assert (tmp_path / "h").read_bytes() == b"mine"
