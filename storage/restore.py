"""Putting a backup back: unpacked beside the home, verified there to the last byte, then put in place by a rename."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.schemas import limits
from headwater.schemas.errors import DamagedError, HeadwaterError, HomeError, InputError, StoreError
from headwater.storage.backup import MANIFEST, MANIFEST_KIND, MANIFEST_VERSION, may_hold
from headwater.storage.home import FORMAT_VERSION, Home
from headwater.storage.publish import TEMPORARY, stillness, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

_SWAPS = 5  # a hook that appends between two renames makes a new home in the gap; nobody does so five times running
_MADE_EMPTY = (
    "journal",
    "archive",
    "lance",
    "run",
    "logs",
    "recovery",
)  # folders of a home in which nothing happened
_NO_DATA = ("FORMAT_VERSION", "ids.", "outbox.")  # and how the names of its files begin


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What was put back. `aside` are the folders that what was there before was moved to."""

    home: Path
    files: int
    content_bytes: int
    made_at: str
    format_version: int
    with_tables: bool
    aside: tuple[Path, ...]


def restore_backup(
    home: Home,
    file: Path,
    *,
    now: datetime,
    force: bool = False,
    update: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> RestoreReport:
    """Put a backup in the place of a home; durable when it returns. Until the last moment nothing is replaced.

    A home that holds data is refused, with `force` it is moved aside and kept. `update` is told bytes read of the file.
    Raises InputError, HomeError (a newer format), DamagedError (not what was written), BusyError, StoreError.
    """
    root = Path(os.path.realpath(home.root))
    _check_target(root, force=force)
    with _staging(root) as staging:
        found = _unpack(file, staging, update)
        manifest = _verify(file, found, staging)
        target = Home(root)
        with stillness(target) if root.is_dir() and any(root.iterdir()) else contextlib.nullcontext():
            aside = _swap(staging, root, f"before-restore-{now:%Y%m%dT%H%M%SZ}", force=force)
    if manifest["format_version"] == FORMAT_VERSION:
        Home.open(root)  # what a backup leaves out is made; a home of an older format waits for its migration
    return RestoreReport(
        home.root,
        len(manifest["files"]),
        sum(one["size"] for one in manifest["files"]),
        manifest["made_at"],
        manifest["format_version"],
        manifest["with_tables"],
        tuple(aside),
    )


def holds_data(root: Path) -> bool:
    """Return whether a folder holds anything that a new home, used for nothing yet, would not. Raises OSError."""
    for entry in root.iterdir():
        if entry.is_symlink():
            return True
        if entry.is_dir():
            is_ours = entry.name in _MADE_EMPTY
            if not is_ours or (entry.name in _MADE_EMPTY[:3] and any(p.is_file() for p in entry.rglob("*"))):
                return True
        elif not entry.name.startswith(_NO_DATA):
            return True
    return False


def _check_target(root: Path, *, force: bool) -> None:
    try:
        if root.exists() and not root.is_dir():
            raise HomeError(str(root), "wanted a folder, found a file", "name another home")
        if root.is_dir() and holds_data(root) and not force:
            fix = "add --force, which moves it aside, or name another home"
            raise InputError(f"home {root}", "holds data already", fix)
        root.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HomeError(f"home {root}", f"cannot be used: {error}", "check its permissions") from error


@contextmanager
def _staging(root: Path) -> Iterator[Path]:
    """Yield a new private folder on the home's file system; gone at the end unless it became the home."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY}restore-", dir=root.parent))
    except OSError as error:
        raise StoreError(str(root.parent), f"cannot be written: {error}", "check its permissions") from error
    try:
        yield folder
    except HeadwaterError:
        raise
    except OSError as error:
        raise StoreError(
            f"home {root}", f"cannot be restored: {error}", "free disk space, try again"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # after the swap there is none


def _unpack(
    file: Path, staging: Path, update: Callable[[int, int | None], None]
) -> dict[str, tuple[int, str]]:
    """Unpack into the folder; return member -> (size in bytes, SHA-256) of what was written."""
    found: dict[str, tuple[int, str]] = {}
    try:
        total_bytes = file.stat().st_size
        with (
            file.open("rb") as raw,
            gzip.GzipFile(fileobj=raw) as packed,  # which, unlike tarfile's own reader, checks the checksum
            tarfile.open(fileobj=packed, mode="r|") as tar,
        ):
            for member in tar:
                if member.isdir():
                    continue  # of a backup that somebody packed anew; folders are made as they are needed
                name = _checked_name(file, member)
                content = tar.extractfile(member)
                assert content is not None  # a regular file has content
                for parent in reversed(
                    Path(name).parents
                ):  # one by one: `parents=True` would leave them open
                    (staging / parent).mkdir(mode=0o700, exist_ok=True)
                found[name] = _write_member(staging / name, content, member.mtime)
                update(raw.tell(), total_bytes)
            while packed.read(limits.READ_BYTES):
                pass  # the checksum stands at the end
    except FileExistsError as error:
        raise DamagedError(
            str(file), f"holds a file twice: {error.filename}", "use another backup"
        ) from error
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(str(file), f"cannot be read: {error}", "name a backup file") from error
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedError(str(file), f"is no whole backup: {error}", "use another backup") from error
    for folder in (staging, *(path for path in staging.rglob("*") if path.is_dir())):
        sync_folder(folder)
    return found


def _checked_name(file: Path, member: tarfile.TarInfo) -> str:
    """Return a member's name when it is one that a backup may hold; raises DamagedError, and nothing was written."""
    parts = member.name.split("/")
    is_safe = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    if not member.isreg() or not is_safe or not (may_hold(member.name) or member.name == MANIFEST):
        what = "a link or device" if not member.isreg() else "a name"
        raise DamagedError(
            str(file), f"holds {what} that no backup has: {member.name!r:.80}", "do not trust this file"
        )
    return member.name


def _write_member(path: Path, content: Any, mtime_s: float) -> tuple[int, str]:
    hashed, size = hashlib.sha256(), 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        while block := content.read(limits.READ_BYTES):
            hashed.update(block)
            size += len(block)
            file.write(block)
        file.flush()
        os.utime(handle, (mtime_s, mtime_s))  # silence of a session is read from it
        os.fsync(handle)
    return size, hashed.hexdigest()


def _verify(file: Path, found: dict[str, tuple[int, str]], staging: Path) -> dict[str, Any]:
    """Return the manifest when the files are exactly those it names. Raises DamagedError, HomeError."""
    if found.pop(MANIFEST, None) is None:
        raise DamagedError(
            str(file), "has no manifest: it is no backup, or not all of one", "use another backup"
        )
    try:
        manifest: dict[str, Any] = json.loads((staging / MANIFEST).read_bytes())
        (staging / MANIFEST).unlink()
        is_ours = manifest["kind"] == MANIFEST_KIND and 1 <= manifest["v"] <= MANIFEST_VERSION
        named = {one["path"]: (one["size"], one["sha256"]) for one in manifest["files"]}
        newer = int(manifest["format_version"]) > FORMAT_VERSION
        _ = (str(manifest["made_at"]), bool(manifest["with_tables"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(str(file), f"its manifest is not ours: {error!r}", "use another backup") from error
    if not is_ours:
        raise DamagedError(str(file), "its manifest is of another kind or version", "update headwater")
    differing = sorted(name for name in named.keys() | found.keys() if named.get(name) != found.get(name))
    if differing:
        said = f"{len(differing)} files are not what was backed up, such as {differing[0]}"
        raise DamagedError(str(file), said, "use another backup")
    if newer:
        problem = f"wanted format {FORMAT_VERSION} at most, found {manifest['format_version']}"
        raise HomeError(str(file), problem, "update headwater")
    return manifest


def _swap(staging: Path, root: Path, suffix: str, *, force: bool) -> list[Path]:
    """Put the folder in the home's place; return where what was there is now. Raises OSError, InputError."""
    aside: list[Path] = []
    for _ in range(_SWAPS):
        if root.is_dir() and any(root.iterdir()):
            if holds_data(root) and not force and not aside:
                raise InputError(f"home {root}", "got data meanwhile", "add --force, which moves it aside")
            aside.append(_free_name(root, suffix))
            root.rename(aside[-1])
        try:
            staging.rename(root)
            break
        except OSError:
            if not (root.is_dir() and any(root.iterdir())):
                if aside:
                    aside.pop().rename(root)
                raise
    else:
        raise StoreError(f"home {root}", "is written to again and again", "stop the agents, try again")
    sync_folder(root.parent)
    for folder in list(aside):
        if not holds_data(folder):
            shutil.rmtree(folder, ignore_errors=True)
            aside.remove(folder)
    return aside


def _free_name(root: Path, suffix: str) -> Path:
    path = root.with_name(f"{root.name}.{suffix}")
    n = 2
    while path.exists():
        path = root.with_name(f"{root.name}.{suffix}-{n}")
        n += 1
    return path
