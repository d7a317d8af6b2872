"""doctor: what is wrong, and what to do."""

from __future__ import annotations

from pathlib import Path

import click

from headwater.surface.console import say, show_json
from headwater.surface.options import HOME, JSON, open_home


@click.command()
@HOME
@JSON
@click.pass_context
def doctor(ctx: click.Context, home_path: Path | None, *, as_json: bool) -> None:
    """Check home, disk, processes, stores, model and versions; exit 1 when something is bad."""
    from headwater.surface.doctor import examine, to_json, to_text

    checks = examine(open_home(home_path))
    if as_json:
        show_json(to_json(checks))
    else:
        say(to_text(checks))
    ctx.exit(1 if any(check.level == "bad" for check in checks) else 0)
