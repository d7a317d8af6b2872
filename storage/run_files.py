"""Names of the files in `run/`, and reading what the ingest flow writes about itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.storage.home import Home

SUPERVISOR_LOCK = "up.lock"
INGEST_LOCK = "ingest.lock"
SERVER_LOCK = "server.lock"
SERVER_ADDRESS = (
    "server.path"  # where the socket is, when its path in run/ would be too long; mirrored in the hook
)
INGEST_STATE = "ingest.json"
HANDOVER_LOCK = (
    "handover.lock"  # held by who wants a running ingest flow to let go of the tables for a moment
)
ARCHIVE_LOCK = (
    "archive.lock"  # held by who moves lines from the journal to the archive, or needs them to stay
)
ARCHIVE_STATE = "archive.json"
REPROCESS_LOCK = "reprocess.lock"


def read_ingest_state(home: Home) -> dict[str, Any]:
    """Return what the running or last ingest flow wrote: pid, wakes, cursors; empty when it never ran or tore it."""
    return _read(home, INGEST_STATE)


def read_archive_state(home: Home) -> dict[str, Any]:
    """Return what the last archive run of the ingest process told: when, files, lines, days, left, error; or empty."""
    return _read(home, ARCHIVE_STATE)


def _read(home: Home, name: str) -> dict[str, Any]:
    try:
        data = json.loads((home.run / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
