"""reprocess, archive: building the tables anew from layer 0, and sealing what went silent."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from headwater.schemas import limits
from headwater.schemas.errors import BusyError
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, open_home, scope_args

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.flows.archive_steps import ArchiveReport
    from headwater.flows.reprocess_run import ReprocessReport


@click.command()
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    default=limits.GENERATIONS_KEPT,
    show_default=True,
    metavar="N",
    help="Old generations that stay, to go back to.",
)
@click.option(
    "--project", metavar="FOLDER", help="Build only this project anew; the others stay as they are."
)
@click.option("--to", "target", metavar="GEN", help="Go back to an old generation instead.")
@HOME
@JSON
def reprocess(
    home_path: Path | None, *, keep: int, project: str | None, target: str | None, as_json: bool
) -> None:
    """Build all tables anew from archive and journal, then switch to them.

    The stream may be up: it goes on, and pauses for a moment at the switch. Interrupted, it changes nothing; run again,
    it goes on where it was.
    """
    if target is not None and project is not None:
        raise click.UsageError("--to and --project exclude each other")
    from headwater.flows.reprocess_run import ReprocessOptions, go_back
    from headwater.flows.reprocess_run import reprocess as build
    from headwater.surface.workers import stop_on_signals

    home = open_home(home_path, create=False)
    named = None if project is None else scope_args(project, all_projects=False)["project"]
    stop = stop_on_signals()
    with progress("reprocessing") as line:
        options = ReprocessOptions(keep=keep, project=named, stop=stop, update=line.update)
        done = build(home, options) if target is None else go_back(home, target, options)
    if as_json:
        show_json(asdict(done))
    else:
        say(reprocess_text(done))


@click.command()
@click.option(
    "--older-than-days",
    "days",
    type=click.FloatRange(min=0),
    default=limits.ARCHIVE_SILENT_S / 86_400,
    show_default=True,
    metavar="N",
    help="Files without a write for so long.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@HOME
@JSON
def archive(home_path: Path | None, *, days: float, dry_run: bool, as_json: bool) -> None:
    """Seal silent journal files in the archive, and export closed days. A running stream does this by itself."""
    from headwater.flows.archive_run import run_archive
    from headwater.flows.ingest_run import IngestOptions, run_ingest
    from headwater.storage.active import active_version
    from headwater.storage.locks import hold_lock
    from headwater.storage.run_files import INGEST_LOCK
    from headwater.surface.workers import stop_on_signals

    home = open_home(home_path, create=False)
    stop = stop_on_signals()
    if not dry_run:  # what is not read yet would have to stay
        run_ingest(home, IngestOptions(active_version(home), until_idle=True, stop=stop))
    with hold_lock(home.run / INGEST_LOCK, "ingest flow"):
        report = run_archive(home, older_than_s=days * 86_400, dry_run=dry_run, stop=stop)
    if stop.is_set():
        raise BusyError("archive", "stopped before it was done", "run it again")
    if as_json:
        show_json(archive_json(report, dry_run=dry_run))
        return
    say(archive_text(report, dry_run=dry_run))
    for name, why in report.left:
        note(f"left in the journal: {name}: {why}")


def archive_json(report: ArchiveReport, *, dry_run: bool) -> dict[str, object]:
    """Return a run of the archive as JSON-ready data."""
    left = [{"file": name, "why": why} for name, why in report.left]
    return asdict(report) | {"left": left, "dry_run": dry_run}


def archive_text(report: ArchiveReport, *, dry_run: bool) -> str:
    """Return a run of the archive for people."""
    what = "would be sealed" if dry_run else "sealed"
    days = "would be exported" if dry_run else "exported"
    return (
        f"{report.files:,} files with {report.lines:,} lines ({report.journal_bytes:,} bytes) {what},"
        f" {report.days:,} days {days}, {len(report.left):,} silent files left in the journal"
    )


def reprocess_text(done: ReprocessReport) -> str:
    """Return a run of reprocess for people."""
    speed = f"{done.lines:,} lines read in {done.elapsed_s:.1f} s ({done.lines_per_s:,.0f}/s)"
    lines = [
        f"{done.generation} is current, with {done.events:,} events; {done.previous} was before",
        f"{speed}, the stream paused for {done.pause_s:.1f} s; {done.enqueued:,} items wait for vectors",
    ]
    if done.removed:
        lines.append(f"deleted: {', '.join(done.removed)}")
    return "\n".join(lines)
