"""demo: recorded hook events through the real hook into a running stream, in a home that is thrown away."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.schemas import clock
from headwater.schemas.errors import StoreError
from headwater.storage.home import Home
from headwater.surface import client, processes
from headwater.surface.console import progress, say
from headwater.surface.verbs.capture import hook_command
from headwater.surface.verbs.lifecycle import ensure_up, status_text

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERY = "should amounts be Decimal or integer minor units"
_PLAYED_S = 60.0  # for events to arrive, and for their vectors: the model has to be loaded first
_HOOK_S = 30.0


@click.command()
@click.option("--keep", is_flag=True, help="Keep the home and say where it is.")
def demo(*, keep: bool) -> None:
    """Play recorded sessions through the real hook into a running stream, then search them. Leaves nothing behind."""
    with _throw_away_home(keep=keep) as home:
        say(f"1. A stream starts in a throw-away home: {home.root}\n")
        ensure_up(home)
        events = _events()
        say(
            f"2. {len(events)} recorded hook events of two projects go through the real hook process, one by one."
        )
        took_s = _play(home, events)
        say(f"   {took_s / len(events) * 1000:.0f} ms each, process start included.\n")
        _wait(home)
        say("3. headwater status\n")
        _show_status(home)
        _show_answers(home)
        say("Next: headwater install        connects your agent; its next session starts the stream")
        say("      headwater ingest PATH    brings in sessions that you had before")


@contextlib.contextmanager
def _throw_away_home(*, keep: bool) -> Iterator[Home]:
    root = Path(tempfile.mkdtemp(prefix="headwater-demo-"))
    home = Home.open(root)
    try:
        yield home
    finally:
        processes.stop_all(home)
        if keep:
            say(f"\nkept: headwater --home {root} status")
        else:
            shutil.rmtree(root)


def _events() -> list[str]:
    """Return the recorded payloads, one JSON text each."""
    return (
        (files("headwater.surface.verbs") / "data" / "demo_events.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )


def _play(home: Home, events: list[str]) -> float:
    """Send each payload to a hook process of its own; return the seconds it took."""
    command = hook_command(home.root, "claude-code")
    env = {"PATH": os.environ.get("PATH", "")}
    start_s = clock.SYSTEM.monotonic_s()
    with progress("playing") as line:
        for n, payload in enumerate(events, start=1):
            subprocess.run(
                command, input=payload.encode(), env=env, cwd=home.root.parent, check=True, timeout=_HOOK_S
            )
            line.update(n, len(events))
    return clock.SYSTEM.monotonic_s() - start_s


def _wait(home: Home) -> None:
    """Wait until all lines are read and all vectors made; say so when that takes too long."""
    from headwater.surface.status import full_status

    def ready() -> bool:
        now = full_status(home, client.ask(home, "counts", {}))
        jobs = now["jobs"]
        line.update(now["vectors"])
        return bool(
            now["events"]
            and now["vectors"]
            and not now["journal_lag_bytes"] + jobs["pending"] + jobs["processing"]
        )

    with progress("embedding") as line:
        if not processes.wait_until(ready, _PLAYED_S):
            raise StoreError(
                "demo", f"not all was read and embedded in {_PLAYED_S:.0f} s", "see: headwater demo --keep"
            )


def _show_status(home: Home) -> None:
    from headwater.surface.status import full_status

    say(_indent(status_text(full_status(home, client.ask(home, "counts", {})))))


def _show_answers(home: Home) -> None:
    scope: dict[str, Any] = {"all_projects": True, "text": True}
    found = client.ask(home, "search", {"query": QUERY, "top_k": 4, "disclosure": "index", **scope})
    say(f'\n4. headwater search "{QUERY}" --top-k 4 --disclosure index\n')
    say(_indent(found["text"]))
    best = found["index"][0]["id"]
    around = client.ask(home, "timeline", {"ids": [best], "window": 2, **scope})
    say(f"\n5. headwater timeline {best} --window 2\n")
    say(_indent(around["text"]))
    whole = client.ask(home, "details", {"ids": [best], **scope})
    say(f"\n6. headwater show {best}\n")
    say(_indent(whole["text"]) + "\n")


def _indent(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines())
