"""Generations: complete sets of derived tables, side by side; CURRENT names the one that is read and written.

A generation owns `lance/gen-N/`, `recovery/gen-N/`, its register of ids and `archive/gen-N/`. While it is built it has
a file BUILDING beside its tables, which says by what; what was built by another version is not gone on with.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from headwater.schemas.errors import InputError, StoreError
from headwater.storage.home import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.storage.home import Home

MARKER = "BUILDING"
_NAME = re.compile(r"gen-([0-9]+)")


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation that is there. `is_complete`: it can be made current."""

    name: str
    number: int
    is_current: bool
    is_complete: bool


def generations(home: Home) -> list[Generation]:
    """Return the generations that have tables, the newest first. Raises HomeError, StoreError."""
    current = home.current().generation
    found = []
    try:
        folders = sorted((home.root / "lance").glob("gen-*"))
    except OSError as error:
        raise StoreError(
            str(home.root / "lance"), f"cannot be listed: {error}", "check its permissions"
        ) from error
    for folder in folders:
        match = _NAME.fullmatch(folder.name)
        if match is not None and folder.is_dir():
            is_current = folder.name == current
            complete = is_current or not (folder / MARKER).exists()
            found.append(Generation(folder.name, int(match[1]), is_current, complete))
    return sorted(found, key=lambda one: -one.number)


def begin(home: Home, plan: dict[str, Any]) -> tuple[Home, bool]:
    """Return the home of the generation to build, and whether one is gone on with that was begun by the same plan.

    What another plan, or another version of us, left unfinished is deleted. Raises StoreError.
    """
    told = {"version": version("headwater"), **plan}
    highest = _number(home.current().generation)
    for one in generations(home):
        if one.is_complete:
            highest = max(highest, one.number)
            continue
        if _plan_of(home.at(one.name)) == told:
            return home.at(one.name), True
        remove(home, one.name)
    building = home.at(f"gen-{highest + 1}")
    remove(home, f"gen-{highest + 1}")  # a register or snapshots whose tables somebody deleted
    try:
        building.lance.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise _cannot(building.lance, "made", error) from error
    replace_file(building.lance / MARKER, json.dumps(told).encode())
    return building, False


def switch(home: Home, name: str) -> None:
    """Make a generation current: one rename. The caller holds INGEST_LOCK. Raises HomeError, StoreError."""
    home.change_current(generation=name)
    try:
        (home.at(name).lance / MARKER).unlink(missing_ok=True)
    except OSError as error:
        raise _cannot(home.at(name).lance, "written", error) from error


def find(home: Home, name: str) -> Generation:
    """Return a complete generation that is not current. Raises InputError for any other name."""
    there = generations(home)
    for one in there:
        if one.name == name and one.is_complete and not one.is_current:
            return one
    others = ", ".join(one.name for one in there if one.is_complete and not one.is_current) or "none"
    current = " (it is current)" if name == home.current().generation else ""
    problem = f"wanted an old one that was kept{current}, there are: {others}"
    raise InputError(
        f"generation {name}", problem, "name one of these, or build a new one: headwater reprocess"
    )


def drop_old(home: Home, keep: int, first: str) -> list[str]:
    """Delete complete generations but the current one and `keep` others, `first` before the newest; return which."""
    others = [one for one in generations(home) if one.is_complete and not one.is_current]
    others.sort(key=lambda one: (one.name != first, -one.number))
    for one in others[keep:]:
        remove(home, one.name)
    return [one.name for one in others[keep:]]


def remove(home: Home, name: str) -> None:
    """Delete all of a generation that is not current; what is missing is no error. Raises StoreError."""
    assert name != home.current().generation, "the current generation is never deleted"
    old = home.at(name)
    try:
        if old.lance.is_dir():  # first, so that it does not look complete
            replace_file(old.lance / MARKER, b"{}")
        for suffix in ("", "-wal", "-shm"):
            old.ids_file.with_name(old.ids_file.name + suffix).unlink(missing_ok=True)
        quarantine_of(old).unlink(missing_ok=True)
        for folder in (old.recovery, old.archive / name, old.lance):
            if folder.is_dir():
                shutil.rmtree(folder)
    except OSError as error:
        raise _cannot(old.lance, "deleted", error) from error


def quarantine_of(building: Home) -> Path:
    """Return where a generation that is built reports lines it cannot use, until it becomes current."""
    return building.root / f"quarantine.{building.lance.name}.jsonl"


def copy_tables(home: Home, building: Home) -> None:
    """Copy tables and register of one generation into another; the caller holds INGEST_LOCK. Raises StoreError.

    Files of tables never change once written, so both share them by hard links where the file system has those.
    """
    try:
        for folder, _, files in os.walk(home.lance):
            target = building.lance / os.path.relpath(folder, home.lance)
            target.mkdir(mode=0o700, exist_ok=True)
            for name in files:
                if name != MARKER:
                    _link(os.path.join(folder, name), os.path.join(target, name))  # noqa: PTH118
        with (
            closing(sqlite3.connect(home.ids_file)) as source,
            closing(sqlite3.connect(building.ids_file)) as target_db,
        ):
            building.ids_file.chmod(0o600)
            source.backup(target_db)
    except (OSError, sqlite3.Error) as error:
        raise _cannot(building.lance, "copied to", error) from error


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError:
        shutil.copyfile(source, target)


def _plan_of(building: Home) -> Any:
    try:
        return json.loads((building.lance / MARKER).read_bytes())
    except (OSError, ValueError):
        return None


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    return 0 if match is None else int(match[1])


def _cannot(path: Path, what: str, error: Exception) -> StoreError:
    return StoreError(str(path), f"cannot be {what}: {error}", "free disk space and check permissions")
