"""The pause of a home: the file PAUSED, which every hook looks at, and a line in the control journal for the record.

While it lasts hooks record nothing and ask for nothing. It ends by itself when its time has come: nobody has to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.schemas import clock
from headwater.schemas.control import DecisionKind
from headwater.schemas.errors import HomeError
from headwater.storage.control import ControlJournal
from headwater.storage.home import replace_file
from headwater.surface import guards

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from headwater.storage.home import Home

_FILE = "PAUSED"


def pause(home: Home, until: datetime | None) -> None:
    """Pause until a time, or until `resume` (None). Durable; a second call replaces the first. Raises HomeError."""
    until_ns = None if until is None else clock.to_ns(until)
    replace_file(_path(home), b"" if until_ns is None else f"{until_ns}\n".encode())
    ControlJournal(home).append(DecisionKind.PAUSE, {"until_ns": until_ns})


def resume(home: Home) -> bool:
    """End the pause; return whether there was one. Raises HomeError."""
    was_paused = is_paused(home)
    try:
        _path(home).unlink(missing_ok=True)
    except OSError as error:
        raise HomeError(str(_path(home)), f"cannot be removed: {error}", "delete it by hand") from error
    if was_paused:
        ControlJournal(home).append(DecisionKind.PAUSE, {"until_ns": 0})
    return was_paused


def is_paused(home: Home) -> bool:
    """Tell what a hook would find now."""
    return guards.paused(str(home.root), clock.now_ns())


def until(home: Home) -> datetime | None:
    """Return when the pause ends by itself, None when it does not, or there is none."""
    try:
        text = _path(home).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return clock.from_ns(int(text)) if text.isdecimal() and len(text) <= len(str(clock.now_ns())) else None


def said(home: Home) -> str:
    """Say how long the pause lasts, in local time."""
    end = until(home)
    return "paused" if end is None else f"paused until {clock.local(end):%Y-%m-%d %H:%M:%S %Z}"


def _path(home: Home) -> Path:
    return home.root / _FILE
