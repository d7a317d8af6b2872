"""ingest PATH...: bring in hook logs and agents' own session files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.schemas import clock, limits
from headwater.storage.locks import is_held
from headwater.storage.run_files import INGEST_LOCK
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, open_home, unopened_home

if TYPE_CHECKING:
    from headwater.storage.home import Home

_REASONS_SHOWN = 12  # of what was skipped: the rest is in --json


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option(
    "--format",
    "wanted",
    type=click.Choice(["auto", "envelope", "hook", "claude", "codex"]),
    default="auto",
    show_default=True,
    help="What the files hold: our own journal lines, hook payloads, Claude Code transcripts, Codex rollouts.",
)
@click.option(
    "--dry-run", is_flag=True, help="Only tell what would come in and what would be skipped, and why."
)
@click.option(
    "--no-embed", is_flag=True, help="Do not wait for vectors; keyword search finds all of it at once."
)
@HOME
@JSON
def ingest(
    paths: tuple[Path, ...],
    wanted: str,
    home_path: Path | None,
    *,
    dry_run: bool,
    no_embed: bool,
    as_json: bool,
) -> None:
    """Bring in sessions: hook logs, or an agent's own files, such as ~/.claude/projects or ~/.codex/sessions.

    Files or folders, plain or .gz, lines or JSON arrays. Again is harmless: it adds nothing.
    """
    from headwater.surface.importers.ingest import (
        append_paths,
        count_events,
        summary,
        wait_for_flow,
    )
    from headwater.surface.importers.records import Format
    from headwater.surface.pending import embed_pending

    kind = None if wanted == "auto" else Format(wanted)
    if dry_run:
        _show_dry_run(list(paths), kind, home_path, as_json=as_json)
        return
    home = open_home(home_path)
    give_way(home)
    start_s = clock.SYSTEM.monotonic_s()
    with progress("reading") as line:
        appended = append_paths(home, list(paths), kind, line)
    with progress("ingesting") as line:
        fates = wait_for_flow(home, appended, line)
    events = count_events(home, appended)
    embedded = 0
    if not no_embed:
        with progress("embedding") as line:
            embedded = embed_pending(home, line)
    report = summary(appended, fates, embedded, clock.SYSTEM.monotonic_s() - start_s, events=events)
    if as_json:
        show_json(report)
    else:
        say(
            f"{report['lines']:,} lines: {report['events']:,} new events, {report['duplicates']:,} duplicates,"
            f" {report['merged']:,} merged, {report['noise']:,} noise, {report['quarantined']:,} quarantined\n"
            f"{report['embedded']:,} items embedded, {report['elapsed_s']:.1f} s"
        )
        if report["times_replaced"]:
            say(f"{report['times_replaced']:,} impossible times replaced by the time of the import")
    for left in appended.left_out:
        note(f"left out {left['file']}: {left['why']}")


def give_way(home: Home) -> None:
    """Lower this process's priority while a stream is up, whose hooks an agent waits for."""
    if is_held(home.run / INGEST_LOCK):
        os.nice(limits.IMPORT_NICE)


def _show_dry_run(paths: list[Path], kind: Any, home_path: Path | None, *, as_json: bool) -> None:
    from headwater.surface.importers.dry_run import dry_run

    with progress("looking") as line:
        report = dry_run(_existing_home(home_path), paths, kind, line)
    if as_json:
        show_json(report)
        return
    for one in report["sessions"]:
        counts = ", ".join(f"{n:,} {name}" for name, n in one["records"].items()) or "nothing"
        skipped = sum(one["skipped"].values())
        say(
            f"{one['session_id'] or 'no session'}  {one['first_at'] or '-'}  {one['last_at'] or '-'}\n"
            f"  {counts}; {skipped:,} skipped, {one['duplicates']:,} told before  {one['file']}"
        )
    say(f"{report['lines']:,} records in {len(report['sessions']):,} sessions; nothing was written")
    reasons = report["skipped"] | report["duplicates"]
    for reason, n in list(reasons.items())[:_REASONS_SHOWN]:
        say(f"  {n:>7,} skipped: {reason}")
    if len(reasons) > _REASONS_SHOWN:
        say(f"  {len(reasons) - _REASONS_SHOWN:,} more reasons with --json")
    for left in report["left_out"]:
        note(f"left out {left['file']}: {left['why']}")


def _existing_home(home_path: Path | None) -> Home | None:
    """Return the home when there is one: looking must not make it."""
    return open_home(home_path, create=False) if unopened_home(home_path).root.is_dir() else None
