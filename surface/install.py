"""Putting our entries into the settings of agents, and taking them out so that every other byte is as it was.

A file is always made from its base, the file as it would be without us: its former bytes while nobody changed it since,
else what is left when our entries are cut out of its text.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.schemas import limits
from headwater.schemas.errors import HomeError, InputError
from headwater.storage.home import replace_file
from headwater.storage.locks import hold_lock
from headwater.surface import autostart, install_parts, install_text
from headwater.surface.hook import redact
from headwater.surface.install_lines import NAME, Ignored, TomlServer
from headwater.surface.install_parts import JsonServer
from headwater.surface.install_places import AGENTS, SCOPES, places
from headwater.surface.install_record import FileRecord, Record, Written, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headwater.storage.home import Home
    from headwater.surface.install_parts import Part

_LOCK = "install.lock"
_SIGNS = (NAME.encode(), b"/surface/hook.py")  # one of them stands in every file that has an entry of ours
_NEW_MODE = 0o600  # of a file that we make: hook commands name a private folder


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one file: its bytes (None: no file) before and after, its base, and the record of it after.

    `record` is None when nothing of ours is left in it; `what` names what changes.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    base: bytes | None
    record: FileRecord | None
    what: str

    @property
    def is_written(self) -> bool:
        """Tell whether the file changes at all; if not, only the record may."""
        return self.before != self.after


def plan_install(home: Home, agent: str, scope: str, folder: Path) -> list[Change]:
    """Return what `install` changes; files that have everything already are left out. Touches nothing.

    Raises InputError for a file that cannot be read as what it should be, or must not be written.
    """
    record = Record.load(home)
    found: list[Change] = []
    for place in places(home, agent, scope, folder):
        own = Written(agent, scope, str(folder), place.part)
        old = record.files.get(str(place.path))
        others = [
            one for one in (old.written if old else ()) if not install_parts.same_place(one.part, own.part)
        ]
        change = _change(record, place.path, old, (*others, own), own.part.what)
        if change.is_written or old is None or own not in old.written:
            found.append(change)
    return found


def plan_uninstall(home: Home, wanted: Callable[[Written], bool], folder: Path) -> list[Change]:
    """Return what `uninstall` changes: the recorded files, then what stands unrecorded in the usual places.

    `wanted` says which parts go. Raises InputError like `plan_install`.
    """
    record = Record.load(home)
    found: list[Change] = []
    for old in record.files.values():
        going = [one for one in old.written if wanted(one)]
        if going:
            kept = tuple(one for one in old.written if one not in going)
            what = " and ".join(dict.fromkeys(one.part.what for one in going))
            found.append(_change(record, Path(old.path), old, kept, what))
    for agent in AGENTS:
        for scope in SCOPES if agent == "claude-code" else SCOPES[:2]:
            for place in places(home, agent, scope, folder):
                one = Written(agent, scope, str(folder), place.part)
                if str(place.path) not in record.files and wanted(one):
                    found += _unrecorded(place.path, place.part)
    return found


def _unrecorded(path: Path, part: Part) -> list[Change]:
    current = read_file(path)
    if current is None or isinstance(part, Ignored) or not any(sign in current for sign in _SIGNS):
        return []
    text = _strip(_text(current, path), path, (part,), part.missing("", str(path)))
    after = _bytes(text)
    return [] if after == current else [Change(path, current, after, after, None, part.what)]


def _change(
    record: Record, path: Path, old: FileRecord | None, written: tuple[Written, ...], what: str
) -> Change:
    """Return the change that leaves exactly these parts in a file."""
    current = read_file(path)
    parts = [one.part for one in written]
    base = _base(record, old, path, current, parts)
    made: frozenset[str] = old.made if old else frozenset()
    after = current
    if not _stands(old, path, current, parts):
        made, merged = _merge("" if base is None else _text(base, path), path, parts)
        after = _bytes(merged) if parts else base
        _check_others(path, base, after, parts)
    new = None
    if written:
        folders = old.folders if old else tuple(str(one) for one in _missing_folders(path))
        new = FileRecord(
            str(path), digest(after), None if base is None else _kept_name(path), written, made, folders
        )
    if current != after:
        _check_writable(path)
    return Change(path, current, after, base, new, what)


def _stands(old: FileRecord | None, path: Path, current: bytes | None, parts: Sequence[Part]) -> bool:
    """Tell whether a file has these parts as they should be, and none of ours that are not among them."""
    if current is None or not parts or (old and any(one.part not in parts for one in old.written)):
        return False
    text = _text(current, path)
    return all(part.holds(text, str(path)) for part in parts)


def _base(
    record: Record, old: FileRecord | None, path: Path, current: bytes | None, parts: Sequence[Part]
) -> bytes | None:
    """Return the file as it would be without us."""
    if old is not None and digest(current) == old.after_sha256 and record.is_kept(old):
        return record.before(old)
    if current is None:
        return None
    ours = [one.part for one in old.written] if old else parts
    made = old.made if old else frozenset[str]().union(*(part.missing("", str(path)) for part in ours))
    rest = _bytes(_strip(_text(current, path), path, ours, made))
    return None if old is not None and old.backup is None and not _says_anything(rest, ours) else rest


def _kept_name(path: Path) -> str:
    """Return the name under which the former bytes of a file are kept."""
    return f"{digest(os.fsencode(path))[:12]}.before"


def _says_anything(data: bytes, parts: Sequence[Part]) -> bool:
    text = data.decode().strip()
    if any(isinstance(part, TomlServer | Ignored) for part in parts):
        return bool(text)
    return bool(text) and text.replace(" ", "").replace("\n", "") != "{}"


def _strip(text: str, path: Path, parts: Iterable[Part], made: frozenset[str]) -> str:
    for part in parts:
        text = part.strip(text, str(path), made)
    return text


def _merge(text: str, path: Path, parts: Iterable[Part]) -> tuple[frozenset[str], str]:
    """Return the containers that had to be made, and the text with all parts in it."""
    made: frozenset[str] = frozenset()
    for part in parts:
        made |= part.missing(text, str(path))
        text = part.merge(text, str(path))
    return made, text


def _check_others(path: Path, base: bytes | None, after: bytes | None, parts: Sequence[Part]) -> None:
    """Raise InputError when anything but our entries would change: then the file is one we do not understand."""
    if (
        base is None
        or after is None
        or not parts
        or any(isinstance(part, TomlServer | Ignored) for part in parts)
    ):
        return
    made = frozenset[str]().union(*(part.missing(_text(base, path), str(path)) for part in parts))
    rests = [_strip(_text(data, path), path, parts, made) for data in (base, after)]
    for part in parts:
        if isinstance(part, JsonServer):  # that of another home gives way
            rests = [part.cut(rest, str(path)) for rest in rests]
    if install_text.plain(rests[0]) != install_text.plain(rests[1]):
        raise InputError(
            str(path),
            "our entries cannot be put there without changing others",
            "add them by hand: docs/hooks.md",
        )


def apply(home: Home, changes: Sequence[Change]) -> None:
    """Write the changes, one file after the other, each whole or not at all; the record is always ahead of the files.

    Raises BusyError when another install of this home is at work, InputError for a file that changed since the plan,
    HomeError for one that cannot be written.
    """
    with hold_lock(home.run / _LOCK, "headwater install"):
        record = Record.load(home)
        for change in changes:
            if read_file(change.path) != change.before:
                raise InputError(str(change.path), "somebody changed it just now", "run the command again")
            old = record.files.get(str(change.path))
            if change.record is not None:
                if change.record.backup is not None and change.base is not None:
                    record.keep(change.record.backup, change.base)
                record.files[str(change.path)] = change.record
                record.save()
            if change.is_written:
                _write(change)
            if change.record is None and old is not None:
                del record.files[str(change.path)]
                _remove_folders(record, old.folders)
                record.save()


def _write(change: Change) -> None:
    target = Path(os.path.realpath(change.path))  # a link stays one
    try:
        if change.after is None:
            target.unlink(missing_ok=True)
            return
        mode = target.stat().st_mode & 0o7777 if target.exists() else _NEW_MODE
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, change.after)
        target.chmod(mode)
    except OSError as error:
        raise HomeError(str(change.path), f"cannot be written: {error}", "check its permissions") from error


def _remove_folders(record: Record, folders: Sequence[str]) -> None:
    """Remove folders that we made and nobody uses; those that hold other files of ours go with the last of these."""
    for folder in folders:
        with contextlib.suppress(OSError):  # somebody uses it
            Path(folder).rmdir()
            continue
        for path, other in record.files.items():
            if Path(folder) in Path(path).parents and folder not in other.folders:
                record.files[path] = replace(other, folders=(*other.folders, folder))


def _missing_folders(path: Path) -> list[Path]:
    """Return the folders that have to be made for a file, the lowest first."""
    return [folder for folder in path.parents if not folder.exists()]


def read_file(path: Path) -> bytes | None:
    """Return the bytes of a file, None when there is none. Raises InputError when it cannot be read."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error}", "check its permissions") from error


def _check_writable(path: Path) -> None:
    """Raise InputError for a file that its owner made read-only; replacing it would pass all the same."""
    target = Path(os.path.realpath(path))
    if target.exists() and (not target.stat().st_mode & 0o200 or not os.access(target, os.W_OK)):
        raise InputError(
            str(path),
            "is read-only",
            "make it writable, or add the entries by hand: docs/hooks.md; nothing was written",
        )


def _text(data: bytes, path: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path} line {line}", "wanted UTF-8, got other bytes", "save it as UTF-8; nothing was written"
        ) from error


def _bytes(text: str) -> bytes:
    return text.encode()


def diff_text(change: Change) -> str:
    """Return the change as a diff for people; secrets in the lines around it are taken out, long lines cut."""
    sides = ["" if data is None else data.decode() for data in (change.before, change.after)]
    before, after = [
        "no file" if data is None else short(change.path) for data in (change.before, change.after)
    ]
    old, new = (side.splitlines() for side in sides)
    lines = difflib.unified_diff(old, new, before, after, n=2, lineterm="")
    cut = limits.DIFF_LINE_CHARS
    return "\n".join(line if len(line) <= cut else f"{line[:cut]}…" for line in map(redact, lines))


def short(path: Path) -> str:
    """Return a path as people write it: the user's folder as ~."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def is_installed(home: Home) -> bool:
    """Tell whether anything of this home stands in a file by our record. Raises HomeError."""
    return bool(Record.load(home).files)


def autostart_command(home: Home) -> list[str]:
    """Return the words that start the stream from a hook, as `headwater up` starts it."""
    return [sys.executable, "-P", "-m", "headwater.surface.workers", "supervisor", str(home.root)]


def starts_by_itself(home: Home) -> bool:
    """Tell whether a session starts the stream, by the command that this program would write."""
    return autostart.words_of(str(home.root)) == autostart_command(home)


def set_autostart(home: Home, *, on: bool) -> None:
    """Let sessions start the stream of this home, or not. Idempotent. Raises HomeError."""
    path = home.root / autostart.NAME
    if on:
        replace_file(path, "".join(f"{word}\n" for word in autostart_command(home)).encode())
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise HomeError(str(path), f"cannot be removed: {error}", "check the home's permissions") from error
