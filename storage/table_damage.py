"""Damage of a Lance table: telling it from other trouble, finding it, and moving the table aside.

A table is derived: its writer moves a damaged one aside when it opens it, and what made its rows makes them again.
Measured: Lance says the most different things of a file that is cut, empty or overwritten, some of them by a panic.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headwater.schemas import limits
from headwater.schemas.errors import DamagedError, HeadwaterError, InputError, StoreError
from headwater.storage.panics import panics_as_errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIX = "run: headwater down, then: headwater up; it is moved aside and made again"

_LOG = logging.getLogger("headwater")
_TAIL = b"LANC"  # the last bytes of every whole Lance file
_SUSPECT = ".suspect"  # beside the table's folder: somebody could not read it

RESOURCE_SIGNS = ("no space left", "too many open files", "permission denied", "read-only file system")
MISSING_FILE = ("not found", "no such file", "does not exist")
SIGNS = (
    *MISSING_FILE,
    "corrupt",
    "failed to fill whole buffer",  # a file cut short
    "does not appear to be a lance file",
    "file size is too small",
    "invalid range",  # an empty manifest
    "failed to decode protobuf",
    "unexpected end of file",
    "panicked",
    "range overflows",
    "out of range",
)
_WRONG_INPUT = ("schema error", "invalid sql", "invalid user input", "invalid input", "no field named")
_SOURCE_PLACE = re.compile(
    r",? ?/\S+\.rs:\d+(?::\d+)?"
)  # where in Lance's source it was raised: of no use to a person


def map_error(error: Exception, where: str) -> HeadwaterError:
    """Return what a foreign exception means to us; one of ours is returned as it is."""
    if isinstance(error, HeadwaterError):
        return error
    text = " ".join(_SOURCE_PLACE.sub("", str(error)).split())[:300] or type(error).__name__
    if is_damage(error):
        return DamagedError(where, f"wanted all its files whole, got: {text}", FIX)
    if says(error, _WRONG_INPUT):
        return InputError(
            where, f"wanted a filter and columns of this table, got: {text}", "correct the filter"
        )
    return StoreError(where, f"wanted to read or write, got: {text}", _store_fix(error))


def is_damage(error: Exception) -> bool:
    """Return whether an error speaks of damage, and not of a lack of space, handles or rights."""
    return says(error, SIGNS) and not says(error, RESOURCE_SIGNS)


def says(error: Exception, signs: tuple[str, ...]) -> bool:
    """Return whether an error's text holds one of the signs."""
    text = str(error).lower()
    return any(sign in text for sign in signs)


def _store_fix(error: Exception) -> str:
    if says(error, ("too many open files",)):
        return "raise the limit of open files (ulimit -n), then try again"
    if says(error, ("permission denied", "read-only file system")):
        return "make the home writable, then try again"
    return "free disk space, check permissions, try again"


def has_handles() -> bool:
    """Return whether this process can open some files more: a panic for want of them does not always say so."""
    handles: list[int] = []
    try:
        while len(handles) < limits.HANDLES_LEFT:
            handles.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        for handle in handles:
            os.close(handle)
    return True


def suspect(folder: Path) -> None:
    """Note that a table could not be read, so that its writer looks closely when it opens it next. Never raises."""
    with suppress(OSError):  # a read-only home: the reader's own error says what is wrong
        _mark(folder).touch(mode=0o600)


def is_suspect(folder: Path) -> bool:
    """Return whether somebody could not read the table since its writer last looked."""
    return _mark(folder).exists()


def clear(folder: Path) -> None:
    """The writer has looked. Raises OSError."""
    _mark(folder).unlink(missing_ok=True)


def broken_data(handle: Any, folder: Path, *, deep: bool) -> str | None:
    """Return why the rows of a table cannot be read, None when they can.

    Without `deep` only the files' presence and last bytes are looked at (milliseconds); with it every row is read.
    Raises Lance's own exceptions, but for the rows' own when `deep`.
    """
    dataset = handle.to_lance()
    for fragment in dataset.get_fragments():
        for file in fragment.data_files():
            if not _is_whole(folder / "data" / file.path):
                return f"data file {file.path} is missing or cut"
        deletions = fragment.deletion_file()
        if deletions and not (folder / deletions).is_file():
            return f"{deletions} is missing"
    if not deep:
        return None
    try:
        for _ in dataset.to_batches(batch_size=limits.READ_LINES):
            pass
    except (OSError, RuntimeError, ValueError) as error:
        if says(error, RESOURCE_SIGNS) or not has_handles():
            raise  # anything else is damage: nothing was asked that could be wrong
        return " ".join(str(error).split())[:200]
    return None


def broken_indexes(handle: Any, folder: Path) -> bool:
    """Return whether a file of an index is missing or cut, as far as one can see from outside."""
    segments = [part for index in handle.to_lance().describe_indices() for part in index.segments]
    for segment in segments:
        files = [path for path in (folder / "_indices" / str(segment.uuid)).glob("*") if path.is_file()]
        if not files or not all(_is_whole(path) for path in files if path.suffix == ".lance"):
            return True
    return False


def look(open_table: Callable[[], Any], folder: Path) -> str | None:
    """Return what is wrong with a table, None for a sound one and for none; reads no rows and changes nothing."""
    if is_suspect(folder):
        return "somebody could not read it"
    try:
        with panics_as_errors():
            handle = open_table()
            if handle is None:
                return None
            why = broken_data(handle, folder, deep=False)
            return why or ("a file of an index is missing or cut" if broken_indexes(handle, folder) else None)
    except (HeadwaterError, OSError, RuntimeError, ValueError) as error:
        return map_error(error, folder.name).problem


def drop_indexes(handle: Any, where: str) -> None:
    """Drop all indexes of a table: what is missing is made by its usual care. Raises Lance's own exceptions."""
    names = sorted({index.name for index in handle.list_indices()})
    for name in names:
        handle.drop_index(name)
    if names:
        _LOG.warning("%s: its indexes could not be read and are made again", where)


def _mark(folder: Path) -> Path:
    return folder.with_name(folder.name.removesuffix(".lance") + _SUSPECT)


def _is_whole(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - len(_TAIL)))
            return file.read() == _TAIL
    except FileNotFoundError:
        return False
