"""Where agents read their settings, and what of ours belongs there."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.schemas.errors import InputError
from headwater.surface.install_lines import NAME, Ignored, TomlServer, check_words
from headwater.surface.install_parts import Hooks, JsonServer
from headwater.surface.verbs.capture import hook_command

if TYPE_CHECKING:
    from headwater.storage.home import Home
    from headwater.surface.install_parts import Part

AGENTS = ("claude-code", "codex")
SCOPES = ("user", "project", "local")


@dataclass(frozen=True, slots=True)
class Place:
    """A file of an agent's settings, and the part that goes there."""

    path: Path
    part: Part


def places(home: Home, agent: str, scope: str, folder: Path) -> list[Place]:
    """Return the files of an agent and scope; `folder` is the one that the agent is started in.

    Raises InputError when the agent has no such scope, or a path cannot stand in a settings file.
    """
    hooks = Hooks(agent, tuple(hook_command(home.root, agent)))
    server = mcp_command(home)
    check_words((*hooks.command, *server, str(folder)))
    if agent == "codex":
        if scope == "local":
            raise InputError(
                "--scope local",
                "wanted user or project: codex has no private settings of a project",
                "use one",
            )
        base = codex_folder() if scope == "user" else folder / ".codex"
        return [Place(base / "hooks.json", hooks), Place(base / "config.toml", TomlServer(server))]
    if scope == "project":
        return [
            Place(folder / ".claude" / "settings.json", hooks),
            Place(folder / ".mcp.json", JsonServer(("mcpServers",), server)),
        ]
    if scope == "local":
        local = [
            Place(folder / ".claude" / "settings.local.json", hooks),
            Place(claude_state(), JsonServer(("projects", str(folder), "mcpServers"), server)),
        ]
        exclude = _exclude_file(folder)
        line = "/.claude/settings.local.json"
        return [*local, Place(exclude, Ignored(line))] if exclude is not None else local
    return [
        Place(claude_folder() / "settings.json", hooks),
        Place(claude_state(), JsonServer(("mcpServers",), server)),
    ]


def mcp_command(home: Home) -> tuple[str, ...]:
    """Return the command line of the MCP server: the installed program, by its absolute path."""
    return (str(program()), "mcp", "--home", str(home.root))


def program() -> Path:
    """Return the installed program: beside our interpreter, else the one on PATH."""
    beside = Path(sys.executable).with_name(NAME)
    found = None if beside.exists() else shutil.which(NAME)
    return Path(found).absolute() if found else beside


def claude_folder() -> Path:
    """Return where Claude Code keeps the settings of its user."""
    named = os.environ.get("CLAUDE_CONFIG_DIR")
    return Path(named).expanduser().absolute() if named else _user_folder() / ".claude"


def claude_state() -> Path:
    """Return where Claude Code keeps MCP servers of its user: in a named folder, else beside the usual one."""
    named = os.environ.get("CLAUDE_CONFIG_DIR")
    return claude_folder() / ".claude.json" if named else _user_folder() / ".claude.json"


def codex_folder() -> Path:
    """Return where Codex keeps everything of its user."""
    named = os.environ.get("CODEX_HOME")
    return Path(named).expanduser().absolute() if named else _user_folder() / ".codex"


def _user_folder() -> Path:
    """Return the user's folder. Raises InputError when there is none."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise InputError("HOME", f"wanted your folder: {error}", "set HOME") from error


def _exclude_file(folder: Path) -> Path | None:
    """Return git's private list of ignored files when the folder is the root of a repository of its own."""
    info = folder / ".git" / "info"
    return info / "exclude" if info.is_dir() else None
