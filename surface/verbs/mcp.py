"""mcp: tools for an agent over stdin and stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headwater.surface.options import HOME, open_home, scope_args, scoped

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@scoped
@HOME
def mcp(project: str | None, home_path: Path | None, *, all_projects: bool) -> None:
    """Serve memory to an agent over MCP, on stdin and stdout.

    Tools: search, timeline, get_details (also get_observations), __IMPORTANT; resources: working set and memories. The
    project is the one of the folder it is started in. Works with and without `headwater up`.
    """
    from headwater.surface.asker import Asker
    from headwater.surface.mcp_server import serve_stdio
    from headwater.surface.mcp_tools import MemoryTools

    home = open_home(home_path)
    scope = scope_args(project, all_projects=all_projects)
    asker = Asker(home)
    here = None if all_projects else scope["project"] or scope["here"]
    try:
        serve_stdio(MemoryTools(asker, here))
    finally:
        asker.close()
