"""install and uninstall: our entries in the settings of agents."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.surface import install as installing
from headwater.surface.console import note, say
from headwater.surface.install_places import AGENTS, SCOPES
from headwater.surface.options import HOME, open_home, unopened_home
from headwater.surface.verbs.capture import hook_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.storage.home import Home
    from headwater.surface.install import Change
    from headwater.surface.install_record import Written

_DRY = click.option("--dry-run", is_flag=True, help="Only show what would be written.")


@click.command()
@click.option("--agent", type=click.Choice(AGENTS), default="claude-code", show_default=True)
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="user",
    show_default=True,
    help="All of your projects; this folder, shared; this folder, private.",
)
@_DRY
@click.option("--no-start", is_flag=True, help="A session does not start the stream; run: headwater up")
@click.option("--show-command", is_flag=True, help="Only print the hook's command line.")
@HOME
def install(
    agent: str, scope: str, home_path: Path | None, *, dry_run: bool, no_start: bool, show_command: bool
) -> None:
    """Write hooks and MCP server into an agent's settings.

    Shows each change as a diff, keeps the former files in the home, and touches nothing else in them. Run again, it
    does nothing, or brings what another version wrote up to date. `headwater uninstall` gives the files back.
    """
    home = unopened_home(home_path) if dry_run else open_home(home_path)
    if show_command:
        say(shlex.join(hook_command(home.root, agent)))
        return
    changes = installing.plan_install(home, agent, scope, Path.cwd())
    will_start = not no_start and not installing.starts_by_itself(home)
    if dry_run:
        _show(changes)
        say("nothing was written: --dry-run" if changes or will_start else "nothing to do")
        return
    installing.apply(home, changes)
    installing.set_autostart(home, on=not no_start)
    _show(changes)
    _tell_installed(home, agent, scope, changes, will_start=will_start)


def _tell_installed(
    home: Home, agent: str, scope: str, changes: Sequence[Change], *, will_start: bool
) -> None:
    written = [change for change in changes if change.is_written]
    if not written and not will_start:
        say(f"nothing to do: {agent} has everything already ({scope})")
        return
    if written:
        say(f"installed for {agent} ({scope}); former files are kept in {home.root / 'install'}")
    if will_start:
        say("a session of the agent starts the stream when it is not up")
    if agent == "codex":
        say("codex asks at its next start whether to trust the hooks: say yes")
    if scope == "project":
        note("headwater: these files name paths of this machine; think before you commit them")


@click.command()
@click.option("--agent", type=click.Choice(AGENTS), help="Only of this agent; default all.")
@click.option("--scope", type=click.Choice(SCOPES), help="Only of this scope; default all.")
@_DRY
@HOME
def uninstall(agent: str | None, scope: str | None, home_path: Path | None, *, dry_run: bool) -> None:
    """Take what `install` wrote out of the agents' settings again.

    A file that nobody changed since is given back byte for byte; of any other one only our entries go. What was
    recorded stays in the home.
    """
    home = open_home(home_path, create=False)

    def wanted(one: Written) -> bool:
        return agent in (None, one.agent) and scope in (None, one.scope)

    changes = installing.plan_uninstall(home, wanted, Path.cwd())
    if dry_run:
        _show(changes)
        say("nothing was written: --dry-run" if changes else "nothing to do")
        return
    installing.apply(home, changes)
    _show(changes)
    if not installing.is_installed(home):
        installing.set_autostart(home, on=False)
    if changes:
        say(f"uninstalled; events and memories stay in {home.root}")
    else:
        say("nothing to do: no settings have entries of this home")


def _show(changes: Sequence[Change]) -> None:
    for change in changes:
        if change.is_written:
            say(f"{installing.short(change.path)}: {change.what}")
            say(installing.diff_text(change) + "\n")
