"""hook: how events get in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from headwater.surface.options import HOME

AGENTS = click.Choice(["claude-code", "codex"])


@click.command()
@click.option("--agent", type=AGENTS, default="claude-code", show_default=True, help="Who sends the event.")
@HOME
@click.pass_context
def hook(ctx: click.Context, agent: str, home_path: Path | None) -> None:
    """Record one hook event from stdin. The command that `install --show-command` prints does the same, faster."""
    from headwater.surface import hook as hook_module

    home = home_path or ctx.find_root().params.get("home_path")
    words = ["--agent", agent, *(["--home", str(home)] if home else [])]
    ctx.exit(hook_module.main(words, sys.stdin.buffer, os.environ))


def hook_command(home: Path, agent: str) -> list[str]:
    """Return the fast command line: the base interpreter, without site packages or environment, on one file."""
    from headwater.surface import hook as hook_module

    interpreter = getattr(sys, "_base_executable", None) or sys.executable
    path = Path(hook_module.__file__).resolve()
    return [str(Path(interpreter).resolve()), "-I", "-S", str(path), "--home", str(home), "--agent", agent]
