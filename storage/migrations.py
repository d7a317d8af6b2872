"""From one format version of a home to the next: named steps in order, each recorded, a backup first.

A step changes the home in place and promises to be repeatable: one that died in the middle runs again from its start.
The version goes up after each step, so that a home is always of the version it says, or on its way from it. Rows are
counted before and after; a step that loses some without having said so fails, and the version stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.schemas import clock
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import HeadwaterError, HomeError
from headwater.storage import backup
from headwater.storage import home as home_module
from headwater.storage.control import append_durably
from headwater.storage.home import Home, replace_file
from headwater.storage.publish import stillness
from headwater.storage.tables import LanceStore

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Migration:
    """One step. `run` changes a home of `from_version` into one of `to_version`; running it again is harmless.

    `says` tells a person what it does. A step that is meant to remove rows or rename tables says so in `keeps_rows`.
    """

    name: str
    from_version: int
    to_version: int
    says: str
    run: Callable[[Home], None]
    keeps_rows: bool = True


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What was done, or with a dry run would be: the versions, the steps, and where the backup is."""

    from_version: int
    to_version: int
    steps: tuple[Migration, ...]
    backup: Path | None
    dry_run: bool


REGISTRY: tuple[Migration, ...] = ()
"""Every step there is, oldest first. Format 1 is the first, so nothing leads to it."""


def pending(
    home: Home, registry: Sequence[Migration] | None = None, target: int | None = None
) -> tuple[Migration, ...]:
    """Return the steps from the home's version to ours, in order; none when it is ours or says no version.

    Raises HomeError for a newer home, and for one from which no steps lead here.
    """
    registry = REGISTRY if registry is None else registry
    target = home_module.FORMAT_VERSION if target is None else target
    found = home.format_version()
    at = target if found is None else found
    if at > target:
        raise HomeError(
            str(home.format_file), f"wanted format {target} at most, found {at}", "update headwater"
        )
    steps: list[Migration] = []
    while at != target:
        step = next((one for one in registry if one.from_version == at < one.to_version <= target), None)
        if step is None:
            problem = f"wanted format {target}, found {found}, and nothing leads from {at} to it"
            raise HomeError(
                str(home.format_file), problem, "use the version of headwater that wrote this home"
            )
        steps.append(step)
        at = step.to_version
    return tuple(steps)


def migrate(
    home: Home,
    *,
    now: datetime,
    dry_run: bool = False,
    backup_file: Path | None = None,
    registry: Sequence[Migration] | None = None,
    target: int | None = None,
    update: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> MigrationReport:
    """Bring a home to our format version; nothing happens when it is there, or with `dry_run`.

    First a backup of all that cannot be made again, beside the home unless `backup_file` is given; a run that goes on
    after a failure keeps the first one's. `update` is told the backup's progress in bytes. Raises HomeError when a step
    fails: then the home says the last version that is whole, and calling it again goes on from there. Raises
    BusyError while the stream runs, and what a backup raises.
    """
    steps = pending(home, registry, target)
    if not home.root.is_dir():
        raise HomeError(f"home {home.root}", "wanted an existing folder, found none", "run: headwater up")
    if not steps:
        at = home.format_version() or home_module.FORMAT_VERSION
        return MigrationReport(at, at, (), None, dry_run)
    first, last = steps[0].from_version, steps[-1].to_version
    saved = _unfinished_backup(home)
    if dry_run:
        return MigrationReport(
            first, last, steps, saved or backup_file or _backup_file(home, first, last, now), True
        )
    with stillness(home):
        if saved is None:
            saved = backup_file or _backup_file(home, first, last, now)
            backup.write_still(home, saved, now=now, update=update)
        for step in steps:
            _run(home, step, saved, now)
    return MigrationReport(first, last, steps, saved, False)


def history(home: Home) -> list[dict[str, object]]:
    """Return what is on record of migrations, oldest first: name, from, to, at, state (started, done), backup.

    A line that a dying process tore is left out. Raises HomeError when the record cannot be read.
    """
    try:
        lines = home.migrations_file.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HomeError(
            str(home.migrations_file), f"cannot be read: {error}", "check its permissions"
        ) from error
    return [row for row in map(_parsed, lines) if row is not None]


def count_rows(home: Home) -> dict[str, int]:
    """Return how much everything holds: rows of each Lance table and archive file, bytes of each journal file."""
    import pyarrow.parquet as pq

    counts: dict[str, int] = {}
    for folder in sorted((home.root / "lance").glob("*")):
        store = LanceStore(folder)
        for name in store.names():
            counts[f"lance/{folder.name}/{name}"] = store.open(EVENTS, name, create=False).count()
    for path in sorted(home.archive.rglob("*.parquet")):
        counts[path.relative_to(home.root).as_posix()] = pq.read_metadata(path).num_rows
    for path in sorted(home.journal.glob("*.jsonl")):
        counts[f"journal/{path.name}"] = path.stat().st_size
    return counts


def _run(home: Home, step: Migration, saved: Path, now: datetime) -> None:
    try:
        before = count_rows(home)
        _record(home, step, "started", saved, now)
        step.run(home)
        if step.keeps_rows:
            _check_kept(before, count_rows(home))
        _record(home, step, "done", saved, now)
        replace_file(home.format_file, f"{step.to_version}\n".encode())
    except Exception as error:
        said = f"{error.where}: {error.problem}" if isinstance(error, HeadwaterError) else f"{error!r:.300}"
        raise HomeError(
            f"migration {step.name}",
            f"the home stays at format {step.from_version}: {said}",
            f"run: headwater migrate, to go on; or go back: headwater restore --force {saved}",
        ) from error


def _check_kept(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    for name, count in before.items():
        if after.get(name, 0) < count:
            raise ValueError(f"of {count:,} rows or bytes of {name}, {after.get(name, 0):,} are left")


def _record(home: Home, step: Migration, state: str, saved: Path, now: datetime) -> None:
    line = {
        "v": 1,
        "name": step.name,
        "from": step.from_version,
        "to": step.to_version,
        "state": state,
        "at": clock.iso(now),
        "headwater": version("headwater"),
        "backup": str(saved),
    }
    append_durably(home.migrations_file, json.dumps(line).encode() + b"\n")


def _parsed(line: bytes) -> dict[str, object] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _unfinished_backup(home: Home) -> Path | None:
    """Return the backup of a run that did not get to its end, when it is still there: the home was whole then."""
    rows = history(home)
    if not rows or rows[-1].get("state") != "started":
        return None
    saved = Path(str(rows[-1].get("backup", "")))
    return saved if saved.is_file() else None


def _backup_file(home: Home, first: int, last: int, now: datetime) -> Path:
    return home.root.with_name(
        f"{home.root.name}.before-format-{last}-from-{first}-{now:%Y%m%dT%H%M%SZ}.tar.gz"
    )
