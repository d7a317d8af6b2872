"""ingest PATH...: bring in hook logs."""

from __future__ import annotations

from pathlib import Path

import click

from headwater.schemas import clock
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, open_home


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option(
    "--format",
    "wanted",
    type=click.Choice(["auto", "envelope", "hook"]),
    default="auto",
    show_default=True,
    help="What the files hold: our own journal lines, or hook payloads.",
)
@click.option(
    "--no-embed", is_flag=True, help="Do not wait for vectors; keyword search finds all of it at once."
)
@HOME
@JSON
def ingest(
    paths: tuple[Path, ...], wanted: str, home_path: Path | None, *, no_embed: bool, as_json: bool
) -> None:
    """Bring in hook logs: files or folders, plain or .gz, lines or JSON arrays. Again is harmless: it adds nothing."""
    from headwater.surface.importers.ingest import append_paths, embed_pending, summary, wait_for_flow
    from headwater.surface.importers.records import Format

    home = open_home(home_path)
    start_s = clock.SYSTEM.monotonic_s()
    with progress("reading") as line:
        appended = append_paths(home, list(paths), None if wanted == "auto" else Format(wanted), line)
    with progress("ingesting") as line:
        fates = wait_for_flow(home, appended, line)
    embedded = 0
    if not no_embed:
        with progress("embedding") as line:
            embedded = embed_pending(home, line)
    report = summary(appended, fates, embedded, clock.SYSTEM.monotonic_s() - start_s)
    if as_json:
        show_json(report)
    else:
        say(
            f"{report['lines']:,} lines: {report['events']:,} new events, {report['duplicates']:,} duplicates,"
            f" {report['merged']:,} merged, {report['noise']:,} noise, {report['quarantined']:,} quarantined\n"
            f"{report['embedded']:,} items embedded, {report['elapsed_s']:.1f} s"
        )
    for left in appended.left_out:
        note(f"left out {left['file']}: {left['why']}")
