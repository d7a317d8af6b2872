"""The installed program as tests run it, with patience and a deadline."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from headwater.storage.home import Home
from headwater.surface.cli import main

PROGRAM = Path(sys.executable).with_name("headwater")
_ALONE = frozenset({"up", "down", "demo", "mcp", "hook"})  # they start, stop or are processes


class _Output(io.TextIOWrapper):
    buffer: io.BytesIO


def run_here(words: Sequence[str], env: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the program in this process as if it were one of its own: arguments, environment, folder, output, signals."""
    out, err = (_Output(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    held = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}
    code: object = 0
    with (
        mock.patch.object(sys, "argv", [str(PROGRAM), *words]),
        mock.patch.dict(os.environ, dict(env), clear=True),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
        finally:
            for which, handler in held.items():
                signal.signal(which, handler)
    said = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess(list(words), int(code) if isinstance(code, int) else 1, *said)


class Program:
    """The installed `headwater` in a home of its own, with the test embedder unless told otherwise."""

    def __init__(self, root: Path, model: str = "test-hash") -> None:
        self.home = Home.open(root)
        self._command: str | None = None
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        self.env |= {"HEADWATER_HOME": str(root), "HEADWATER_EMBEDDING__MODEL": model, "COLUMNS": "80"}

    def run(
        self, *words: str, code: int = 0, cwd: Path | None = None, alone: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a verb and check its exit code; `alone`: as a process of its own, as those are that start or stop some.

        Else in this one, through the program's own entry point: a process needs a second of imports.
        """
        at = cwd or self.home.root
        if alone or words[0] in _ALONE or threading.current_thread() is not threading.main_thread():
            command = [str(PROGRAM), *words]
            done = subprocess.run(
                command, env=self.env, cwd=at, capture_output=True, text=True, timeout=110, check=False
            )
        else:
            done = run_here(words, self.env, at)
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *words: str) -> Any:
        """Run a verb with --json and return its answer."""
        return json.loads(self.run(*words, "--json").stdout)

    def hook(self, payload: dict[str, Any]) -> None:
        """Send a payload through the real fast hook process."""
        if self._command is None:
            self._command = self.run("install", "--show-command").stdout
        command = self._command
        done = subprocess.run(
            command, shell=True, input=json.dumps(payload).encode(), env={}, cwd="/", timeout=60, check=False
        )
        assert done.returncode == 0

    def status(self) -> dict[str, Any]:
        """Return `status --json`."""
        answer = self.json("status")
        assert isinstance(answer, dict)
        return answer

    def wait(self, done: Callable[[dict[str, Any]], bool], limit_s: float = 90.0) -> dict[str, Any]:
        """Return the first status for which `done` holds; fail with the last one after the limit."""
        until_s = time.monotonic() + limit_s
        while True:
            now = self.status()
            if done(now):
                return now
            assert time.monotonic() < until_s, f"waited {limit_s} s in vain: {now}"
