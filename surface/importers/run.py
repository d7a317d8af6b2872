"""What all files of one import share: which lines were told, where sessions belong, and what is left out and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.schemas.clock import parse_iso
from headwater.surface import guards
from headwater.surface.projects import resolve_project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater.surface.importers.records import Record

OWN_FOLDER = "a session in our own home"


@dataclass(frozen=True, slots=True)
class Told:
    """One record of an agent's log, and what becomes of it: a payload for the journal, or the reason why not.

    `copy`: it was told before, so it counts as a duplicate; else what is not brought in counts as noise.
    """

    record: Record
    payload: Any = None
    reason: str = ""
    copy: bool = False
    session_id: str = ""
    at: str = ""


class ImportRun:
    """State of one import. `told_before`: whether earlier imports told the line of a key."""

    def __init__(self, home: Path | None, told_before: Callable[[str], bool] = lambda _: False) -> None:
        """Start with nothing told."""
        self._home = "" if home is None else str(home)
        self.told_before = told_before
        self._told: dict[str, str] = {}
        self._projects: dict[str, tuple[str, str]] = {}
        self._ours: dict[str, bool] = {}
        self.begun: set[str] = set()  # sessions whose start was told
        self.cleared: dict[str, str] = {}  # session -> the one that a person cleared before it

    def first_told_by(self, key: str, session_id: str, *, is_copy: bool = False) -> str | None:
        """Note a line; return None when it is new, else the session that told it ("" when that was long ago).

        A copy is not noted: the line itself may still come.
        """
        earlier = self._told.get(key)
        if earlier is not None:
            return earlier
        if not is_copy:
            self._told[key] = session_id
        return "" if self.told_before(key) else None

    def project(self, agent: str, session_id: str, cwd: str) -> tuple[str, str]:
        """Return folder and project of a session: those it was first seen in."""
        session = f"{agent}\n{session_id}"
        found = self._projects.get(session)
        if found is None:
            if not cwd:
                return "", ""
            found = self._projects[session] = (cwd, resolve_project(cwd))
        return found

    def is_ours(self, folder: str) -> bool:
        """Return whether a folder lies in our home: nobody works there but our own processes."""
        found = self._ours.get(folder)
        if found is None:
            found = self._ours[folder] = guards.inside(self._home, folder)
        return found


@dataclass(slots=True)
class LogSurvey:
    """What a first look at an agent's log found. Times are ISO texts as they stand there."""

    path: Path
    agent: str
    sessions: list[str] = field(default_factory=list)
    first_at: str = ""
    last_at: str = ""
    records: int = 0
    sub_agent: bool = False
    cwd: str = ""
    cleared_at: str = ""  # when it begins with a person's /clear
    copied_from: str = ""  # the session whose lines a fork holds, told by the lines themselves
    copied_until: int = -1  # offset of the last of them
    says_prompts: bool = False  # a rollout that tells prompts as messages, so that its items repeat them
    parent: str = ""

    def see_time(self, at: str) -> None:
        """Take a line's time in."""
        if at and is_time(at):
            self.first_at = self.first_at or at
            self.last_at = max(self.last_at, at)


@dataclass(slots=True)
class SessionCount:
    """What one session of a file holds, for a dry run."""

    session_id: str
    agent: str
    project: str
    file: str
    first_at: str = ""
    last_at: str = ""
    records: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    copies: Counter[str] = field(default_factory=Counter)

    def see_time(self, at: str) -> None:
        """Take a time in."""
        if at:
            self.first_at = min(self.first_at or at, at)
            self.last_at = max(self.last_at, at)


def is_time(at: str) -> bool:
    """Return whether a text is a time."""
    try:
        parse_iso(at)
    except ValueError:
        return False
    return True
