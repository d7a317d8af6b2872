"""Whether anybody uses the stream: hooks that append, people and agents that ask.

The server keeps the time of the last question as that of a file in `run/`; the supervisor looks at it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from headwater.schemas import clock
from headwater.storage import journal

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.storage.home import Home

LOOKING = frozenset({"ping", "counts"})  # operations that only ask how the stream is
_ASKED = "asked"


def note_question(home: Home) -> None:
    """Remember that somebody asked something now. A mark that cannot be set costs a start, no answer."""
    with contextlib.suppress(OSError):
        (home.run / _ASKED).touch(mode=0o600)


def idle_s(home: Home) -> float:
    """Return how long ago the last hook wrote or somebody asked (seconds); infinity when neither ever happened.

    Raises StoreError when the journal cannot be looked at.
    """
    paths = [home.run / _ASKED, *(home.journal / name for name in journal.list_files(home.journal))]
    last_s = max((seen for path in paths if (seen := _changed_s(path)) is not None), default=None)
    return float("inf") if last_s is None else clock.SYSTEM.now().timestamp() - last_s


def _changed_s(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
