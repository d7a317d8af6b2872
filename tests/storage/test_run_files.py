from __future__ import annotations

from pathlib import Path

import pytest

from headwater.storage.home import Home
from headwater.storage.run_files import INGEST_STATE, read_ingest_state


@pytest.mark.parametrize("data", [None, b"", b"{", b"[1]", b"null", b"\xff"])
def test_no_state_is_empty(tmp_path: Path, data: bytes | None) -> None:
    """A state that was never written, is torn or is something else reads as empty."""
    home = Home.open(tmp_path / "h")
    if data is not None:
        (home.run / INGEST_STATE).write_bytes(data)
    assert read_ingest_state(home) == {}


def test_state_is_read(tmp_path: Path) -> None:
    """What the flow wrote comes back."""
    home = Home.open(tmp_path / "h")
    (home.run / INGEST_STATE).write_text('{"pid": 7, "cursors": {"a.jsonl": 3}}', encoding="utf-8")
    assert read_ingest_state(home) == {"pid": 7, "cursors": {"a.jsonl": 3}}
