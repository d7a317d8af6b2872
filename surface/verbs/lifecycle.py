"""up, down, status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headwater.schemas import clock, limits
from headwater.schemas.errors import DamagedError, StoreError
from headwater.storage.active import next_step
from headwater.surface import client, processes
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, open_home
from headwater.surface.status import model_error

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.storage.home import Home

PROGRAMS = ("supervisor", "ingest", "server")


@click.command()
@click.option("--foreground", is_flag=True, help="Stay here; stop with Ctrl-C.")
@click.option("--install-service", is_flag=True, help="Let your session's systemd or launchd keep it up.")
@click.option("--dry-run", is_flag=True, help="With --install-service: only show the file.")
@HOME
def up(home_path: Path | None, *, foreground: bool, install_service: bool, dry_run: bool) -> None:
    """Start the stream: ingest and server. Does nothing when it is up already.

    It stops by itself when no hook and no question came for `server.idle_stop_h` hours (24); in the foreground and as a
    service it stays.
    """
    home = open_home(home_path)
    home.config()  # a broken setting is told here, not in a log
    if install_service:
        _install_service(home, dry_run=dry_run)
        return
    if foreground:
        from headwater.surface import workers

        say(f"headwater is starting, home {home.root}; stop it with Ctrl-C")
        workers.set_up_logging(home, "supervisor")
        workers.supervise(home, workers.stop_on_signals())
        return
    started = ensure_up(home)
    problem = model_error(home)
    if problem is not None:
        note(f"headwater: no vectors, keyword search only: {problem}")
    step = next_step(home)
    if step is not None:
        note(f"headwater: {step}")
    say(("headwater is up" if started else "headwater is up already") + f", home {home.root}")


@click.command()
@click.option("--remove-service", is_flag=True, help="Take back what up --install-service wrote.")
@HOME
def down(home_path: Path | None, *, remove_service: bool) -> None:
    """Stop the stream; what was read is safe."""
    home = open_home(home_path, create=False)
    if remove_service:
        _remove_service(home)
    with progress("stopping"):
        ended = processes.stop_all(home)
    say("headwater is down" if ended else "headwater was not up")


@click.command()
@HOME
@JSON
def status(home_path: Path | None, *, as_json: bool) -> None:
    """Show what runs, what is stored, and what waits or failed."""
    from headwater.surface.status import full_status, unknown_counts

    home = open_home(home_path)
    try:
        counts = client.ask(home, "counts", {})
    except (DamagedError, StoreError) as error:  # what can be told without the tables is told all the same
        counts = unknown_counts(error)
    full = full_status(home, counts)
    if as_json:
        show_json(full)
    else:
        say(status_text(full))


def _install_service(home: Home, *, dry_run: bool) -> None:
    from headwater.surface import service

    wanted = service.service_of(home)
    if dry_run:
        say(f"{wanted.path}:\n{wanted.text}")
        say("\n".join(" ".join(command) for command in wanted.begin))
        return
    service.write(wanted)
    with progress("stopping"):
        processes.stop_all(home)  # the manager starts its own
    problem = service.run(wanted.begin)
    if problem is None:
        say(f"headwater is a service now: {wanted.path}")
        return
    ensure_up(home)
    note(f"headwater: {wanted.path} is written, its manager cannot be asked here: {problem}")
    say(f"headwater is up, home {home.root}; in your own session run:")
    say("\n".join(" ".join(command) for command in wanted.begin))


def _remove_service(home: Home) -> None:
    from headwater.surface import service

    wanted = service.service_of(home)
    problem = service.run(wanted.end) if wanted.path.exists() else None
    if service.remove(wanted):
        say(f"the service is gone: {wanted.path}")
        if problem is not None:
            note(f"headwater: its manager cannot be asked here: {problem}")
    else:
        say("there was no service")


def ensure_up(home: Home) -> bool:
    """Start what does not run and wait until it answers; return whether anything had to be started.

    Raises StoreError when it is not ready in time, or at once when a program of it ends again and again.
    """
    before = {role: log_size(home, role) for role in PROGRAMS}
    started = processes.pids(home)["supervisor"] is None
    if started:
        processes.spawn(home, "supervisor", detached=True)
    is_ready = False
    trouble: list[str] = []

    def settled() -> bool:
        nonlocal is_ready
        is_ready = _ready(home)
        trouble[:] = _troubles(home, before)
        return is_ready or len(trouble) >= limits.START_TRIES

    with progress("starting"):
        processes.wait_until(settled, limits.READY_S)
    if is_ready:
        return started
    if trouble:
        problem, _, fix = trouble[-1].partition(". Fix: ")
        raise StoreError("up", problem, fix or f"see {home.logs}")
    raise StoreError(
        "up", f"not ready after {limits.READY_S:.0f} s", f"see {home.logs}, then: headwater down"
    )


def _ready(home: Home) -> bool:
    if processes.pids(home)["ingest"] is None:
        return False
    try:
        return client.ask_server(home, "ping", {}) is not None
    except StoreError:
        return False  # it ended just now; the supervisor starts it again


def log_size(home: Home, role: str) -> int:
    """Return how long a program's log is, bytes."""
    path = home.logs / f"{role}.log"
    return path.stat().st_size if path.exists() else 0


def _troubles(home: Home, before: dict[str, int]) -> list[str]:
    """Return what ended our programs since their logs were so long, but for another one being there already."""
    found: list[str] = []
    for role, start in before.items():
        path = home.logs / f"{role}.log"
        lines = path.read_bytes()[start:].decode("utf-8", "replace").splitlines() if path.exists() else []
        mark = f"ERROR {role} ended: "
        found += [line.partition(mark)[2] for line in lines if mark in line and "already running" not in line]
    return found


def _counted(full: dict[str, Any], text: str) -> str:
    """Return a line of counts, or that the tables cannot be read."""
    if full["tables_error"]:
        return "cannot be read now; why: headwater doctor"
    return text.format(version=full["embedding_version"] or "none yet", **full)


def told_text(told: dict[str, Any]) -> str:
    """Return how much of what agents were told was used, by kind: `12 items, 33% used (memory 50%, found 0%)`."""
    if told["share"] is None:
        return f"{told['told']:,} items; no turn of theirs is over yet"
    kinds = ", ".join(
        f"{name} {one['share']:.0%}" for name, one in told["by_kind"].items() if one["share"] is not None
    )
    return f"{told['told']:,} items, {told['share']:.0%} used ({kinds})"


def status_text(full: dict[str, Any]) -> str:
    """Return `status` for people, at most 80 columns."""
    jobs = full["jobs"]
    runs = " · ".join(f"{role} {'up' if full['running'][role] else 'down'}" for role in ("ingest", "server"))
    wakes = full["wakes"]
    rows = [
        ("home", full["home"]),
        ("running", f"{runs}    mode {full['mode']}"),
        ("events", _counted(full, "{events:,} in {sessions:,} sessions of {projects:,} projects")),
        ("vectors", _counted(full, "{vectors:,} items    version {version}")),
        (
            "jobs",
            f"{jobs['pending']:,} pending, {jobs['processing']:,} processing, {jobs['failed']:,} failed",
        ),
        ("memories", _counted(full, "{memories:,}")),
        *([("told", told_text(full["told"]))] if full["told"] and full["told"]["told"] else []),
        (
            "journal",
            f"{full['journal_lag_bytes']:,} bytes unread    wakes {wakes['watch']:,} watch, {wakes['rescan']:,} rescan",
        ),
        ("problems", f"{full['quarantined']:,} lines quarantined, {full['hook_failures']:,} hook failures"),
    ]
    lines = [f"{name:<10}{value}" for name, value in rows]
    if full["paused"]:
        until = full["paused"]["until"]
        end = (
            f"until {clock.local(clock.parse_iso(until)):%Y-%m-%d %H:%M}"
            if until
            else "until you say: headwater resume"
        )
        lines.append(f"{'paused':<10}hooks record and tell nothing {end}")
    if full["model_error"]:
        lines.append(f"{'model':<10}cannot be used; why: headwater doctor")
    if full["archive_error"]:
        lines.append(f"{'archive':<10}the last run failed; why: headwater doctor")
    if full["model_next_step"]:
        lines.append(f"{'model':<10}another one is configured than answers; see: headwater models")
    if full["llm"] and full["llm"]["error"]:
        lines.append(f"{'llm':<10}gave no summary; extracts stand alone; why: headwater doctor")
    if full["damaged"]:
        lines.append(
            f"{'damaged':<10}{len(full['damaged'])} moved aside and made again; see: headwater doctor"
        )
    if not all(full["running"].values()):
        lines.append("\nStart it with: headwater up")
    return "\n".join(lines)
