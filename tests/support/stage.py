"""A home on which things go wrong: real hook calls, raw journal bytes, whole runs, and what must be true afterwards."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from journal_lines import encode, envelope

from headwater.flows.embed_run import run_embed
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.missing import enqueue_missing, missing_vectors
from headwater.schemas.columns import EVENTS
from headwater.storage.active import active_version
from headwater.storage.embedder import load
from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds
from headwater.storage.models import resolve
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore
from headwater.surface import capture, hook

BASE = getattr(sys, "_base_executable", None) or sys.executable
SCRIPT = Path(hook.__file__).resolve()


class Stage:
    """One home, and everything a test does to it. Nothing is opened between two calls."""

    def __init__(self, root: Path) -> None:
        self.home = Home.open(root)

    # --- writing ---

    def hook(
        self,
        payload: object,
        *,
        before: Callable[[], None] | None = None,
        env: Mapping[str, str] | None = None,
        home: Path | None = None,
    ) -> str:
        """Send one event (bytes as they are, else as JSON) through the real hook process; return its stderr."""
        return call_hook(payload, ("--home", str(home or self.home.root)), before=before, env=env)

    def file(self, session: str) -> Path:
        """Return the journal file of a session."""
        return self.home.journal / capture.journal_name("claude-code", session)

    def write(self, session: str, data: bytes) -> None:
        """Append bytes to a session's journal file as they are."""
        path = self.file(session)
        path.touch(mode=0o600)
        with path.open("ab") as file:
            file.write(data)

    def tell(self, session: str, name: str, at_s: float = 0.0, **fields: Any) -> None:
        """Append a payload's envelope to its session's file, without the hook."""
        self.write(session, line_of(session, name, at_s, **fields))

    # --- working ---

    def work(self) -> None:
        """Read all there is, and embed it."""
        version = active_version(self.home)
        run_ingest(self.home, IngestOptions(version, until_idle=True))
        with closing(VectorOutbox(self.home.outbox_file)) as outbox:
            enqueue_missing(self.home, outbox, version)
        run_embed(self.home, load(resolve("test-hash", self.home)), owner="stage")

    # --- looking ---

    def rows(self, session: str | None = None) -> list[dict[str, Any]]:
        """Return events as rows, of one session or of all, in the order of their places in the journal."""
        names = [column.name for column in EVENTS.columns]
        frame = LanceStore(self.home.lance).open(EVENTS, create=False).scan(names).sort("at", "seq", "id")
        return [row for row in frame.to_dicts() if session in (None, row["session_id"])]

    def row(self, session: str) -> dict[str, Any]:
        """Return the only event of a session."""
        (row,) = self.rows(session)
        return row

    def fates(self) -> dict[str, int]:
        """Return how many lines had each fate, but for those that none had."""
        with closing(KnownIds(self.home.ids_file)) as known:
            return {fate.value: n for fate, n in known.count_fates().items() if n}

    def quarantined(self, session: str) -> list[dict[str, Any]]:
        """Return the quarantined lines of a session's file."""
        if not self.home.quarantine_file.exists():
            return []
        lines = self.home.quarantine_file.read_text(encoding="utf-8").splitlines()
        name = self.file(session).name + "@"
        return [one for one in map(json.loads, lines) if one["file"].startswith(name)]

    def lines(self) -> list[dict[str, Any]]:
        """Return all lines of the journal, each of which must be whole JSON."""
        return [
            json.loads(line)
            for path in sorted(self.home.journal.glob("*.jsonl"))
            for line in path.read_bytes().split(b"\n")
            if line.strip()
        ]

    def check(self, events: int) -> None:
        """Fail unless there are so many events, each once, each known, and none without its vectors."""
        ids = [row["id"] for row in self.rows()]
        assert len(ids) == len(set(ids)) == events
        with closing(KnownIds(self.home.ids_file)) as known:
            assert known.count_ids() == events
            assert known.intents() == []
        assert missing_vectors(self.home, active_version(self.home)).is_empty()


def call_hook(
    payload: object,
    words: tuple[str, ...],
    *,
    before: Callable[[], None] | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run the real hook process on one event; it must exit with 0 and say nothing on stdout. Return its stderr."""
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    done = subprocess.run(
        [BASE, "-I", "-S", str(SCRIPT), *words],
        input=raw,
        env=dict(env or {}),
        cwd="/",
        capture_output=True,
        timeout=60,
        check=False,
        preexec_fn=before,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    return done.stderr.decode()


def payload_of(session: str, name: str, **fields: Any) -> dict[str, Any]:
    """Return a Claude Code payload."""
    return {"session_id": session, "cwd": "/p", "hook_event_name": name, **fields}


def prompt(session: str, text: str, **fields: Any) -> dict[str, Any]:
    """Return a prompt's payload."""
    return payload_of(session, "UserPromptSubmit", prompt=text, **fields)


def tool(session: str, use_id: str, response: Any, **fields: Any) -> dict[str, Any]:
    """Return the payload of a Bash call and its result."""
    asked = {"tool_name": "Bash", "tool_use_id": use_id, "tool_input": {"command": f"run {use_id}"}}
    return payload_of(session, "PostToolUse", **asked, tool_response=response, **fields)


def line_of(session: str, name: str, at_s: float = 0.0, **fields: Any) -> bytes:
    """Return a whole journal line, received `at_s` after the tests' start."""
    return encode(envelope(payload_of(session, name, **fields), at_s)) + b"\n"


def assert_one_line(text: str) -> str:
    """Fail unless a person sees one line that says the fix; return it."""
    line = text.strip()
    assert line, "nothing was said"
    assert "\n" not in line, text
    assert "Fix: " in line, text
    assert "Traceback" not in line
    return line


def spoil(path: Path, how: str) -> None:
    """Damage a file: gone, empty, junk, half, or flip (its middle overwritten, its ends as they were)."""
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "flip":
        start, end = min(64, len(data) // 4), max(len(data) - 400, len(data) // 2)
        path.write_bytes(data[:start] + bytes(byte ^ 0xA5 for byte in data[start:end]) + data[end:])
    else:
        new = {
            "empty": b"",
            "half": data[: len(data) // 2],
            "junk": b"no such thing " * (len(data) // 14 + 1),
        }
        path.write_bytes(new[how])


@contextmanager
def small_disk(folder: Path, size_kb: int) -> Iterator[Callable[[int], None]]:
    """Mount a small file system of its own on a folder; yields what changes its size. Skips where nobody may mount."""
    folder.mkdir(exist_ok=True)
    if _mount(folder, f"size={size_kb}k") != 0:
        pytest.skip("needs the right to mount a small file system")

    def resize(new_kb: int) -> None:
        assert _mount(folder, f"size={new_kb}k", _REMOUNT) == 0

    try:
        yield resize
    finally:
        _LIBC.umount2(os.fsencode(folder), _DETACH)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder a read-only file system for the block. Skips where nobody may mount."""
    if _LIBC.mount(os.fsencode(folder), os.fsencode(folder), None, _BIND, None) != 0:
        pytest.skip("needs the right to mount a folder read-only")
    try:
        assert _LIBC.mount(None, os.fsencode(folder), None, _BIND | _REMOUNT | _RDONLY, None) == 0
        yield
    finally:
        _LIBC.umount2(os.fsencode(folder), _DETACH)


_LIBC = ctypes.CDLL(None, use_errno=True)
_RDONLY, _REMOUNT, _BIND, _DETACH = 1, 32, 4096, 2


def _mount(folder: Path, options: str, flags: int = 0) -> int:
    if not hasattr(_LIBC, "umount2"):
        return -1  # not Linux
    result: int = _LIBC.mount(b"none", os.fsencode(folder), b"tmpfs", flags, options.encode())
    return result


def without_root_rights() -> None:
    """Before a child's start: even a superuser then needs the permissions that files have. Harmless for others."""
    for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH; they leave the set that a start gives back
        _LIBC.prctl(24, right, 0, 0, 0)
