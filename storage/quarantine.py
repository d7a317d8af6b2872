"""The quarantine file: lines of layer 0 that could not be used, each once, however often they are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headwater.schemas.errors import StoreError
from headwater.storage.home import replace_file

if TYPE_CHECKING:
    from pathlib import Path


def drop_repeats(path: Path) -> None:
    """Keep the first report of each line: reading layer 0 anew reports them all again. Nobody may write meanwhile.

    Nothing is written when there are none. Raises StoreError, HomeError.
    """
    lines = _lines(path)
    kept = _first_of_each(lines)
    if len(kept) < len(lines):
        replace_file(path, b"".join(kept))


def take_in(path: Path, other: Path) -> None:
    """Add the reports of another such file, each line once, and remove that file. Idempotent.

    Raises StoreError, HomeError.
    """
    if not other.exists():
        return
    replace_file(path, b"".join(_first_of_each([*_lines(path), *_lines(other)])))
    other.unlink()


def _lines(path: Path) -> list[bytes]:
    try:
        return [line + b"\n" for line in path.read_bytes().split(b"\n") if line]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(str(path), f"cannot be read: {error}", "check its permissions") from error


def _first_of_each(lines: list[bytes]) -> list[bytes]:
    found: dict[tuple[object, ...], bytes] = {}
    for line in lines:
        found.setdefault(_place(line), line)
    return list(found.values())


def _place(line: bytes) -> tuple[object, ...]:
    """Return what tells one report from another: file, offset and reason; a line that is no report is itself."""
    try:
        report = json.loads(line)
        return (str(report["file"]), int(report["offset"]), str(report["reason"]))
    except (ValueError, TypeError, KeyError):
        return (line,)
