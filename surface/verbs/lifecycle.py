"""up, down, status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headwater.schemas import limits
from headwater.schemas.errors import BusyError, StoreError
from headwater.surface import client, processes
from headwater.surface.console import progress, say, show_json
from headwater.surface.options import HOME, JSON, open_home

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.storage.home import Home


@click.command()
@click.option("--foreground", is_flag=True, help="Stay here; stop with Ctrl-C.")
@HOME
def up(home_path: Path | None, *, foreground: bool) -> None:
    """Start the stream: ingest and server. Does nothing when it is up already."""
    home = open_home(home_path)
    home.config()  # a broken setting is told here, not in a log
    if foreground:
        from headwater.surface import workers

        say(f"headwater is starting, home {home.root}; stop it with Ctrl-C")
        workers.set_up_logging(home, "supervisor")
        workers.supervise(home, workers.stop_on_signals())
        return
    started = ensure_up(home)
    say(("headwater is up" if started else "headwater is up already") + f", home {home.root}")


@click.command()
@HOME
def down(home_path: Path | None) -> None:
    """Stop the stream; what was read is safe."""
    home = open_home(home_path, create=False)
    with progress("stopping"):
        ended = processes.stop_all(home)
    say("headwater is down" if ended else "headwater was not up")


@click.command()
@HOME
@JSON
def status(home_path: Path | None, *, as_json: bool) -> None:
    """Show what runs, what is stored, and what waits or failed."""
    from headwater.surface.status import full_status

    home = open_home(home_path)
    full = full_status(home, client.ask(home, "counts", {}))
    if as_json:
        show_json(full)
    else:
        say(status_text(full))


def ensure_up(home: Home) -> bool:
    """Start what does not run and wait until it answers; return whether anything had to be started.

    Raises StoreError when it is not ready in time.
    """
    started = processes.pids(home)["supervisor"] is None
    if started:
        try:
            processes.spawn(home, "supervisor", detached=True)
        except BusyError:
            started = False  # another `up` was faster
    with progress("starting"):
        if not processes.wait_until(lambda: _ready(home), limits.READY_S):
            raise StoreError(
                "up", f"not ready after {limits.READY_S:.0f} s", f"see {home.logs}, then: headwater down"
            )
    return started


def _ready(home: Home) -> bool:
    running = processes.pids(home)
    return running["ingest"] is not None and client.ask_server(home, "ping", {}) is not None


def status_text(full: dict[str, Any]) -> str:
    """Return `status` for people, at most 80 columns."""
    jobs = full["jobs"]
    runs = " · ".join(f"{role} {'up' if full['running'][role] else 'down'}" for role in ("ingest", "server"))
    wakes = full["wakes"]
    rows = [
        ("home", full["home"]),
        ("running", f"{runs}    mode {full['mode']}"),
        ("events", f"{full['events']:,} in {full['sessions']:,} sessions of {full['projects']:,} projects"),
        ("vectors", f"{full['vectors']:,} items    version {full['embedding_version'] or 'none yet'}"),
        (
            "jobs",
            f"{jobs['pending']:,} pending, {jobs['processing']:,} processing, {jobs['failed']:,} failed",
        ),
        ("memories", f"{full['memories']:,}"),
        (
            "journal",
            f"{full['journal_lag_bytes']:,} bytes unread    wakes {wakes['watch']:,} watch, {wakes['rescan']:,} rescan",
        ),
        ("problems", f"{full['quarantined']:,} lines quarantined, {full['hook_failures']:,} hook failures"),
    ]
    lines = [f"{name:<10}{value}" for name, value in rows]
    if not all(full["running"].values()):
        lines.append("\nStart it with: headwater up")
    return "\n".join(lines)
