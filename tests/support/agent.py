"""An agent that calls the real hook process, a server that answers it, and a past that there is to tell."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memory_rows import PROJECT, MemoryRows, minutes

from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.events import Event, Kind
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore
from headwater.surface import hook, server
from headwater.surface.operations import Context

BASE = getattr(sys, "_base_executable", None) or sys.executable
SCRIPT = Path(hook.__file__).resolve()
RETRY = "the webhook worker must retry each delivery five times with jitter"
MEMORY = (
    "Asked: retry each webhook delivery.\nFound: five attempts with jitter in app/worker.py.\nOpen: docs."
)


class Agent:
    """An agent in a home: calls the hook as a process, and knows what it was told."""

    def __init__(self, home: Home, name: str = "claude-code", script: Path = SCRIPT) -> None:
        """Remember the home, and the hook."""
        self.home = home
        self.name = name
        self.seconds = 0.0
        self.script = script

    def call(self, event: str, session: str = "new", **fields: Any) -> str:
        """Send an event and return the context, "" for none; the hook must exit with 0 and print nothing else."""
        payload = {"session_id": session, "cwd": PROJECT, "hook_event_name": event, **fields}
        start_s = time.monotonic()
        done = subprocess.run(
            [BASE, "-I", "-S", str(self.script), "--home", str(self.home.root), "--agent", self.name],
            input=json.dumps(payload).encode(),
            env={},
            cwd="/",
            capture_output=True,
            timeout=60,
            check=False,
        )
        self.seconds = time.monotonic() - start_s
        assert (done.returncode, done.stderr) == (0, b"")
        if not done.stdout:
            return ""
        answer = json.loads(done.stdout)
        assert answer.keys() == {"hookSpecificOutput"}
        said = answer["hookSpecificOutput"]
        assert said.keys() == {"hookEventName", "additionalContext"}
        assert said["hookEventName"] == event
        return str(said["additionalContext"])

    def start(self, source: str = "startup", session: str = "new") -> str:
        """Start a session."""
        return self.call("SessionStart", session, source=source)

    def prompt(self, text: str, session: str = "new") -> str:
        """Send a prompt."""
        return self.call("UserPromptSubmit", session, prompt=text)

    def lines(self) -> list[dict[str, Any]]:
        """Return the envelopes in the journal."""
        files = sorted(self.home.journal.glob("*.jsonl"))
        lines = [line for path in files for line in path.read_bytes().splitlines()]
        return [json.loads(line) for line in lines if b'"payload"' in line]


class Past:
    """What happened in the project before: events with their rows of memory."""

    def __init__(self, home: Home) -> None:
        """Make the tables."""
        lance = LanceStore(home.lance)
        self._events = lance.open(EVENTS)
        self.rows = MemoryRows(lance)

    def event(self, name: str, text: str, minute: float = 0.0, session: str = "old") -> None:
        """Add a prompt that is active."""
        made = Event(f"evt_{name}", "claude-code", session, PROJECT, minutes(minute), Kind.PROMPT, text)
        self._events.add(events_to_arrow([made]))
        self.rows.member(name, minute, session_id=session)


@contextmanager
def answering(home: Home) -> Iterator[Context]:
    """Answer hooks from a thread of the tests, patiently: a machine under load must not change what is told."""
    context = Context(home)
    with server._bind(home, context) as bound:
        server.say_address(home)
        thread = threading.Thread(target=bound.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        server._warm_up(context)
        try:
            yield context
        finally:
            bound.shutdown()
            thread.join()
    home.socket.unlink(missing_ok=True)


def wait_for(done: Callable[[], object], limit_s: float = 60.0) -> None:
    """Return when `done` holds; fail after the limit."""
    until_s = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < until_s
        time.sleep(0.05)
