"""What `install` wrote and what stood there before: `install/` of the home, for `uninstall` to give back.

`record.json` lists the files; beside it lie the bytes that each had before. Private like everything in the home.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from headwater.schemas.errors import HomeError
from headwater.storage.home import replace_file
from headwater.surface import install_parts

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.storage.home import Home
    from headwater.surface.install_parts import Part

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Written:
    """One part that stands in a file: for which agent and scope, and in which folder that was asked for."""

    agent: str
    scope: str
    folder: str
    part: Part


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file: what we put into it, the hash of what it then was, and what it was before.

    `backup`: name of the file beside the record that holds its former bytes, None when there was no such file.
    `made`: containers in it that are ours; `folders`: folders that we made for it, the lowest first.
    """

    path: str
    after_sha256: str
    backup: str | None
    written: tuple[Written, ...]
    made: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()


@dataclass(slots=True)
class Record:
    """All files, by path; saved whole."""

    home: Home
    files: dict[str, FileRecord] = field(default_factory=dict)

    @classmethod
    def load(cls, home: Home) -> Record:
        """Return what was written; empty when nothing ever was. Raises HomeError for a file that is not ours."""
        record = cls(home)
        try:
            data = json.loads(record.path.read_text(encoding="utf-8"))
            record.files = {one["path"]: _from_json(one) for one in data["files"]}
        except FileNotFoundError:
            return record
        except (OSError, ValueError, KeyError, TypeError) as error:
            fix = "delete it; uninstall then takes out what it finds in the agents' settings"
            raise HomeError(
                str(record.path), f"wanted the record of an install, got {error!r}", fix
            ) from error
        return record

    @property
    def folder(self) -> Path:
        """Where record and former bytes lie."""
        return self.home.root / "install"

    @property
    def path(self) -> Path:
        """The record itself."""
        return self.folder / "record.json"

    def save(self) -> None:
        """Write it, or take it away with its folder when nothing is left; durable. Raises HomeError."""
        if not self.files:
            self._clear()
            return
        self._make_folder()
        data = {"version": _VERSION, "files": [_to_json(one) for one in self.files.values()]}
        replace_file(self.path, json.dumps(data, ensure_ascii=False, indent=1).encode())

    def keep(self, name: str, data: bytes) -> None:
        """Keep the former bytes of a file under a name; durable. Raises HomeError."""
        self._make_folder()
        replace_file(self.folder / name, data)

    def is_kept(self, record: FileRecord) -> bool:
        """Tell whether it is still known what a file was before: its bytes, or that there was none."""
        return record.backup is None or (self.folder / record.backup).exists()

    def before(self, record: FileRecord) -> bytes | None:
        """Return the former bytes of a file, None when there was no such file. Raises HomeError when they are lost."""
        if record.backup is None:
            return None
        try:
            return (self.folder / record.backup).read_bytes()
        except OSError as error:
            raise HomeError(
                str(self.folder / record.backup), f"cannot be read: {error}", "check the home's permissions"
            ) from error

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise HomeError(
                str(self.folder), f"cannot be made: {error}", "check the home's permissions"
            ) from error

    def _clear(self) -> None:
        try:
            for path in (*self.folder.glob("*.before"), self.path):
                path.unlink(missing_ok=True)
            if self.folder.is_dir():
                self.folder.rmdir()
        except OSError as error:
            raise HomeError(str(self.folder), f"cannot be cleared: {error}", "delete it by hand") from error


def digest(data: bytes | None) -> str:
    """Return the hash of a file's bytes; another one for no file."""
    return "none" if data is None else sha256(data).hexdigest()


def _to_json(record: FileRecord) -> dict[str, Any]:
    return {
        "path": record.path,
        "after_sha256": record.after_sha256,
        "backup": record.backup,
        "made": sorted(record.made),
        "folders": list(record.folders),
        "written": [
            {
                "agent": one.agent,
                "scope": one.scope,
                "folder": one.folder,
                "part": install_parts.to_json(one.part),
            }
            for one in record.written
        ],
    }


def _from_json(data: dict[str, Any]) -> FileRecord:
    written = tuple(
        Written(one["agent"], one["scope"], one["folder"], install_parts.from_json(one["part"]))
        for one in data["written"]
    )
    return FileRecord(
        data["path"],
        data["after_sha256"],
        data["backup"],
        written,
        frozenset(data["made"]),
        tuple(data["folders"]),
    )
