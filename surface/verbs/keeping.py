"""backup, restore, export, migrate: what is kept, and how it is kept readable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.schemas import clock
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, as_time, open_home, scope_args, scoped, unopened_home

if TYPE_CHECKING:
    from datetime import datetime
    from typing import BinaryIO

    from headwater.storage.home import Home
    from headwater.storage.migrations import MigrationReport

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("file", required=False, type=PATH, metavar="[FILE]")
@click.option("--with-tables", is_flag=True, help="Tables and vectors too; the stream has to be down.")
@click.option("--force", is_flag=True, help="Replace FILE when it exists.")
@HOME
@JSON
def backup(
    file: Path | None, home_path: Path | None, *, with_tables: bool, force: bool, as_json: bool
) -> None:
    """Write a backup (.tar.gz) of all that cannot be made again: journal, archive, decisions, settings.

    FILE may be a folder; default a name with the time, here. Agents may go on meanwhile. Tables and vectors are left
    out, for the stream makes them again.
    """
    from headwater.storage.backup import default_name, write_backup

    home = open_home(home_path, create=False)
    now = clock.SYSTEM.now()
    target = _absolute(file or Path())
    target = target / default_name(now) if target.is_dir() else target
    with progress("backing up (bytes)") as line:
        done = write_backup(
            home, target, now=now, with_tables=with_tables, overwrite=force, update=line.update
        )
    if as_json:
        show_json(
            {
                "file": str(done.file),
                "files": done.files,
                "content_bytes": done.content_bytes,
                "size_bytes": done.size_bytes,
                "with_tables": done.with_tables,
            }
        )
    else:
        say(
            f"{done.file}\n{done.files:,} files, {_size(done.content_bytes)}, packed {_size(done.size_bytes)}"
        )


@click.command()
@click.argument("file", type=PATH, metavar="FILE")
@click.option("--force", is_flag=True, help="Move a home that holds data aside, and keep it.")
@HOME
@JSON
def restore(file: Path, home_path: Path | None, *, force: bool, as_json: bool) -> None:
    """Put a backup in the place of the home, after it has been verified to the last byte.

    A home that holds data is refused; with --force it is renamed to HOME.before-restore-TIME. Tables that the backup
    does not have are made again by the next `up` or `ingest`.
    """
    from headwater.storage.home import FORMAT_VERSION
    from headwater.storage.restore import restore_backup

    home = unopened_home(home_path)
    with progress("restoring (bytes)") as line:
        done = restore_backup(home, _absolute(file), now=clock.SYSTEM.now(), force=force, update=line.update)
    following = "headwater up" if done.format_version == FORMAT_VERSION else "headwater migrate"
    if as_json:
        show_json(
            {
                "home": str(done.home),
                "files": done.files,
                "content_bytes": done.content_bytes,
                "made_at": done.made_at,
                "with_tables": done.with_tables,
                "moved_aside": [str(path) for path in done.aside],
                "next": following,
            }
        )
        return
    say(f"restored {done.home}: {done.files:,} files, {_size(done.content_bytes)}, as of {done.made_at}")
    for path in done.aside:
        say(f"what was there before is in {path}")
    say(f"Next: {following}")


@click.command()
@click.option(
    "--format", "wanted", type=click.Choice(["jsonl", "parquet"]), required=True, help="Of the output."
)
@click.option("--out", type=PATH, metavar="FILE", help="Write here; default, for jsonl only, stdout.")
@click.option("--force", is_flag=True, help="Replace FILE when it exists.")
@click.option(
    "--since", callback=as_time, metavar="TIME", help="From this day or time on; local without a zone."
)
@click.option("--until", callback=as_time, metavar="TIME", help="Before this day or time.")
@scoped
@HOME
@JSON
def export(
    wanted: str,
    out: Path | None,
    since: datetime | None,
    until: datetime | None,
    project: str | None,
    *,
    home_path: Path | None,
    force: bool,
    all_projects: bool,
    as_json: bool,
) -> None:
    """Write events as JSON lines or Parquet, oldest first, with the columns of docs/tables.md.

    --json reports what was written, so it needs --out.
    """
    if out is None and (wanted == "parquet" or as_json):
        raise click.UsageError("name a file: --out FILE")
    home = open_home(home_path, create=False)
    scope = scope_args(project, all_projects=all_projects)
    count, held = _export(
        home, scope, (since, until), wanted, None if out is None else _absolute(out), force=force
    )
    if as_json:
        times = {"since": since and clock.iso(since), "until": until and clock.iso(until)}
        show_json({"file": str(out), "format": wanted, "events": count, "project": held, **times})
    else:
        note(f"{count:,} events of {held or 'all projects'}" + (f" in {out}" if out else ""))


def _export(
    home: Home,
    asked: dict[str, Any],
    times: tuple[datetime | None, datetime | None],
    wanted: str,
    out: Path | None,
    *,
    force: bool,
) -> tuple[int, str | None]:
    """Write the events; return how many, and of which project (None: all)."""
    from dataclasses import replace

    from headwater.query.scope import where
    from headwater.storage.export import write_events
    from headwater.storage.publish import published
    from headwater.surface.operations import Context, scope_of

    context = Context(home)
    scope = replace(scope_of(context, asked), since=times[0], until=times[1])
    rows, renamed = (context.stores.events, where(scope)), context.stores.renamed
    with progress("exporting") as line:
        if out is None:
            stdout: BinaryIO = sys.stdout.buffer
            return write_events(*rows, stdout, wanted, line.update, renamed=renamed), scope.project
        with published(out, overwrite=force) as file:
            return write_events(*rows, file, wanted, line.update, renamed=renamed), scope.project


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option(
    "--backup",
    "backup_file",
    type=PATH,
    metavar="FILE",
    help="Where the backup goes; default beside the home.",
)
@HOME
@JSON
def migrate(home_path: Path | None, backup_file: Path | None, *, dry_run: bool, as_json: bool) -> None:
    """Bring a home that an older Headwater wrote to the format of this one: backup first, then step by step.

    A step that fails leaves the home at the last format that is whole; the same command goes on from there.
    """
    from headwater.storage import migrations

    home = unopened_home(home_path)
    target = None if backup_file is None else _absolute(backup_file)
    with progress("backing up (bytes)") as line:
        done = migrations.migrate(
            home, now=clock.SYSTEM.now(), dry_run=dry_run, backup_file=target, update=line.update
        )
    if as_json:
        steps = [
            {"name": one.name, "from": one.from_version, "to": one.to_version, "says": one.says}
            for one in done.steps
        ]
        show_json(
            {
                "home": str(home.root),
                "from": done.from_version,
                "to": done.to_version,
                "dry_run": done.dry_run,
                "steps": steps,
                "backup": None if done.backup is None else str(done.backup),
            }
        )
    else:
        say(_migration_text(done))


def _migration_text(done: MigrationReport) -> str:
    if not done.steps:
        return f"Nothing to do: the home has format {done.to_version}."
    lines = [
        f"format {done.from_version} → {done.to_version}" + (", nothing done yet" if done.dry_run else "")
    ]
    lines += [f"  {one.name} ({one.from_version} → {one.to_version}): {one.says}" for one in done.steps]
    lines.append(f"backup {'would be' if done.dry_run else 'is'} {done.backup}")
    return "\n".join(lines)


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 100_000 else f"{size_bytes:,} bytes"
