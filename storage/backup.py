"""A backup: one .tar.gz of what cannot be made again, with a manifest of sizes and hashes as its last member.

Hooks may append meanwhile: each journal file is taken up to the last line that was complete when the backup began.
The archive stands still meanwhile, so that no line is on its way from one to the other.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import sqlite3
import tarfile
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.schemas import clock, limits
from headwater.schemas.errors import DamagedError, InputError, StoreError
from headwater.storage import journal, seal
from headwater.storage.home import FORMAT_VERSION
from headwater.storage.publish import TEMPORARY, check_target, published, sealing_stopped, stillness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import BinaryIO

    from headwater.storage.home import Home

MANIFEST = "manifest.json"
MANIFEST_KIND = "headwater-backup"
MANIFEST_VERSION = 1
_WHOLE = ("FORMAT_VERSION", "CURRENT", "config.toml", "PAUSED")  # replaced by rename, never appended to
_LINES = ("quarantine.jsonl", "migrations.jsonl")
_DATABASES = ("usage.sqlite",)
_DERIVED_DATABASE = re.compile(r"(ids(\.[0-9A-Za-z_-]+)?|outbox)\.sqlite")
# recovery/ never: snapshots would be older than the tables beside them
_MEMBERS = frozenset({"journal", "archive", "lance", *_WHOLE, *_LINES, *_DATABASES})


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What was written: the file, how many files and bytes it holds, and its own size (bytes)."""

    file: Path
    files: int
    content_bytes: int
    size_bytes: int
    with_tables: bool


@dataclass(slots=True)
class _Writer:
    """A tar being written, what is in it, and who wants to know."""

    tar: tarfile.TarFile
    update: Callable[[int, int | None], None]
    total_bytes: int
    done_bytes: int = 0
    files: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, path: Path, size_bytes: int | None = None) -> bool:
        """Add a file, or its first bytes; False when there is none. Raises StoreError when it cannot be read."""
        try:
            with path.open("rb") as file:
                found = os.fstat(file.fileno())
                size_bytes = found.st_size if size_bytes is None else min(size_bytes, found.st_size)
                self._put(name, file, size_bytes, int(found.st_mtime))
        except FileNotFoundError:
            return False
        return True

    def add_lines(self, name: str, path: Path, size_bytes: int | None = None) -> None:
        """Add the complete lines among a file's first bytes; one that went away meanwhile is elsewhere."""
        try:
            with path.open("rb") as file:
                end = _last_line_end(
                    file, os.fstat(file.fileno()).st_size if size_bytes is None else size_bytes
                )
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(
                str(path), f"cannot be read: {error}", "check the file and its permissions"
            ) from error
        self.add(name, path, end)

    def add_manifest(self, home: Home, now: datetime, *, with_tables: bool) -> None:
        """Add the manifest: what is here, and how to know that it is still the same."""
        known = home.format_version()
        manifest = {
            "v": MANIFEST_VERSION,
            "kind": MANIFEST_KIND,
            "made_at": clock.iso(now),
            "headwater": version("headwater"),
            "format_version": FORMAT_VERSION if known is None else known,
            "with_tables": with_tables,
            "files": list(self.files),
        }
        data = json.dumps(manifest, indent=1).encode()
        self._put(MANIFEST, io.BytesIO(data), len(data), int(now.timestamp()))
        self.files.pop()

    def _put(self, name: str, file: BinaryIO, size_bytes: int, mtime_s: int) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = size_bytes, mtime_s, 0o600
        hashed = _Hashed(file, self)
        self.tar.addfile(info, hashed)  # type: ignore[arg-type] # it only reads
        self.files.append({"path": name, "size": size_bytes, "sha256": hashed.hash.hexdigest()})

    def passed(self, count: int) -> None:
        """Tell how far it is."""
        self.done_bytes += count
        self.update(self.done_bytes, max(self.total_bytes, self.done_bytes))


class _Hashed:
    """A file as tarfile reads it: what passes is hashed and counted."""

    def __init__(self, file: BinaryIO, writer: _Writer) -> None:
        self._file = file
        self._writer = writer
        self.hash = hashlib.sha256()

    def read(self, count: int) -> bytes:
        data = self._file.read(count)
        self.hash.update(data)
        self._writer.passed(len(data))
        return data


def may_hold(name: str) -> bool:
    """Return whether a backup may hold a member of that name (a safe relative path)."""
    return name.partition("/")[0] in _MEMBERS or _DERIVED_DATABASE.fullmatch(name) is not None


def default_name(now: datetime) -> str:
    """Return the file name of a backup made now."""
    return f"headwater-backup-{now:%Y%m%dT%H%M%SZ}.tar.gz"


def write_backup(
    home: Home,
    target: Path,
    *,
    now: datetime,
    with_tables: bool = False,
    overwrite: bool = False,
    update: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> BackupReport:
    """Write a backup of a home, which may be of any format version; durable and whole when it returns, else nothing.

    With `with_tables` the derived tables come along, and nothing else may run meanwhile. `update` is told bytes done
    and in all. Raises InputError, StoreError, DamagedError, BusyError.
    """
    with stillness(home) if with_tables else sealing_stopped(home):
        _finish_sealing(home)
        return write_still(home, target, now=now, with_tables=with_tables, overwrite=overwrite, update=update)


def write_still(
    home: Home,
    target: Path,
    *,
    now: datetime,
    with_tables: bool = False,
    overwrite: bool = False,
    update: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> BackupReport:
    """Write a backup of a home whose locks the caller holds, else like `write_backup`."""
    if _is_inside(target, home.root):
        raise InputError(
            str(target), "lies inside the home, and would be lost with it", "name a file elsewhere"
        )
    check_target(target, overwrite=overwrite)
    sizes = journal.list_files(home.journal) if home.journal.is_dir() else {}
    with (
        published(target, overwrite=overwrite) as file,
        tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=target.parent) as scratch,
        gzip.GzipFile("", "wb", limits.BACKUP_GZIP_LEVEL, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        writer = _Writer(tar, update, _total_bytes(home, sizes, with_tables=with_tables))
        _add_journal(writer, home, sizes)
        _add_tree(writer, home.root, "archive")
        for name in _WHOLE:
            writer.add(name, home.root / name)
        for name in _LINES:
            writer.add_lines(name, home.root / name)
        for path in sorted(home.root.glob("*.sqlite")):
            if path.name in _DATABASES or (with_tables and may_hold(path.name)):
                writer.add(path.name, _copy_database(path, Path(scratch) / path.name))
        if with_tables:
            _add_tree(writer, home.root, "lance")
        writer.add_manifest(home, now, with_tables=with_tables)
    content_bytes = sum(one["size"] for one in writer.files)
    return BackupReport(target, len(writer.files), content_bytes, target.stat().st_size, with_tables)


def _finish_sealing(home: Home) -> None:
    """Give each line one place before it is copied: a killed archive run leaves some on their way."""
    with suppress(DamagedError):  # then the copy has both, the damaged one too: whoever reads it is told so
        seal.recover(home)


def _add_journal(writer: _Writer, home: Home, sizes: dict[str, int]) -> None:
    writer.add_lines(f"journal/{journal.CONTROL_NAME}", home.journal / journal.CONTROL_NAME)
    for name, size_bytes in sorted(sizes.items()):
        writer.add_lines(f"journal/{name}", home.journal / name, size_bytes)
    for path in sorted(
        home.journal.glob(f"*{seal.SEALED}")
    ):  # somebody has it open, or what it fits is damaged
        writer.add(f"journal/{path.name}", path)


def _add_tree(writer: _Writer, root: Path, folder: str) -> None:
    """Add the regular files below a folder; none of them changes, but one may be gone."""
    for path in sorted(_files(root / folder)):
        if not writer.add(path.relative_to(root).as_posix(), path):
            raise StoreError(str(path), "went away while it was copied", "make the backup again")


def _files(folder: Path) -> Iterator[Path]:
    for at, _, names in os.walk(folder):
        for name in names:
            path = Path(at) / name
            is_draft = name.startswith(".") and name.endswith(seal.TEMPORARY)
            if path.is_file() and not path.is_symlink() and not is_draft:
                yield path


def _last_line_end(file: BinaryIO, end: int) -> int:
    """Return where the last complete line before `end` ends, 0 when there is none."""
    while end > 0:
        start = max(0, end - limits.READ_BYTES)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _copy_database(source: Path, target: Path) -> Path:
    """Copy a SQLite database as of one moment, whoever writes to it, and return the copy."""
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
    except sqlite3.OperationalError as error:
        raise StoreError(str(source), f"cannot be copied: {error}", "free disk space, try again") from error
    except sqlite3.Error as error:
        fix = "stop headwater, delete this file and those beside it (-wal, -shm), try again"
        raise DamagedError(str(source), f"wanted a SQLite database of ours, got: {error}", fix) from error
    return target


def _total_bytes(home: Home, sizes: dict[str, int], *, with_tables: bool) -> int:
    """Return about how many bytes will be read."""
    folders = ("archive", "lance") if with_tables else ("archive",)
    paths = [path for folder in folders for path in _files(home.root / folder)]
    return sum(sizes.values()) + sum(path.stat().st_size for path in paths if path.exists())


def _is_inside(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(root)) in Path(os.path.realpath(path)).parents
