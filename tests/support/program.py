"""The installed program as tests run it, with patience and a deadline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.storage.home import Home

PROGRAM = Path(sys.executable).with_name("headwater")


class Program:
    """The installed `headwater` in a home of its own, with the test embedder unless told otherwise."""

    def __init__(self, root: Path, model: str = "test-hash") -> None:
        self.home = Home.open(root)
        self._command: str | None = None
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        self.env |= {"HEADWATER_HOME": str(root), "HEADWATER_EMBEDDING__MODEL": model, "COLUMNS": "80"}

    def run(self, *words: str, code: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a verb and check its exit code."""
        done = subprocess.run(
            [str(PROGRAM), *words],
            env=self.env,
            cwd=cwd or self.home.root,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
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
