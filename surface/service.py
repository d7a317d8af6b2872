"""The stream as a service of the user's session: a systemd unit on Linux, a launchd agent on macOS.

The service runs `headwater up --foreground`: it stays up without anybody asking, and is started again when it fails.
"""

from __future__ import annotations

import os
import plistlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.schemas import limits
from headwater.schemas.errors import HomeError, InputError
from headwater.storage.home import replace_file
from headwater.surface.install_lines import check_words
from headwater.surface.install_places import program

if TYPE_CHECKING:
    from headwater.storage.home import Home

_LABEL = "headwater.stream"
_UNIT = "headwater.service"


@dataclass(frozen=True, slots=True)
class Service:
    """A service file: where, what is in it, and the commands that begin and end it."""

    path: Path
    text: str
    begin: tuple[tuple[str, ...], ...]
    end: tuple[tuple[str, ...], ...]


def service_of(home: Home, platform: str = sys.platform) -> Service:
    """Return the service of a home; touches nothing. Raises InputError for a path that cannot stand in it."""
    words = (str(program()), "--home", str(home.root), "up", "--foreground")
    check_words(words)
    if platform == "darwin":
        path = Path.home() / "Library" / "LaunchAgents" / f"{_LABEL}.plist"
        domain = f"gui/{os.getuid()}"
        return Service(
            path,
            _plist(words),
            (("launchctl", "bootstrap", domain, str(path)),),
            (("launchctl", "bootout", f"{domain}/{_LABEL}"),),
        )
    config = os.environ.get("XDG_CONFIG_HOME")
    base = Path(config) if config and Path(config).is_absolute() else Path.home() / ".config"
    manager = ("systemctl", "--user")
    return Service(
        base / "systemd" / "user" / _UNIT,
        _unit(words),
        ((*manager, "daemon-reload"), (*manager, "enable", "--now", _UNIT)),
        ((*manager, "disable", "--now", _UNIT),),
    )


def write(service: Service) -> None:
    """Write the file. Idempotent. Raises InputError when the service of another home is there, HomeError."""
    found = _read(service.path)
    if found is not None and found != service.text and not _same_home(found, service.text):
        raise InputError(
            str(service.path), "the service of another home is there", "headwater down --remove-service"
        )
    try:
        service.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HomeError(
            str(service.path.parent), f"cannot be made: {error}", "check its permissions"
        ) from error
    replace_file(service.path, service.text.encode())


def remove(service: Service) -> bool:
    """Remove the file; return whether there was one. Raises HomeError."""
    was_there = _read(service.path) is not None
    try:
        service.path.unlink(missing_ok=True)
    except OSError as error:
        raise HomeError(str(service.path), f"cannot be removed: {error}", "check its permissions") from error
    return was_there


def run(commands: tuple[tuple[str, ...], ...]) -> str | None:
    """Run the commands of a manager; return None, or why one of them failed, in a line."""
    for command in commands:
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=limits.READY_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return " ".join(str(error).split())
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split()) or f"exit {done.returncode}"
            return f"{' '.join(command)}: {said}"
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise HomeError(str(path), f"cannot be read: {error}", "check its permissions") from error


def _same_home(one: str, other: str) -> bool:
    """Tell whether two service files run the stream of one home, perhaps of two versions."""
    homes = [text.partition("--home")[2].partition("foreground")[0] for text in (one, other)]
    return homes[0] == homes[1]


def _unit(words: tuple[str, ...]) -> str:
    line = " ".join(f'"{_escaped(word)}"' for word in words)
    return (
        "[Unit]\n"
        "Description=Headwater, a memory stream for coding agents\n"
        "\n"
        "[Service]\n"
        f"ExecStart={line}\n"
        "Restart=on-failure\n"
        "\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )


def _escaped(word: str) -> str:
    """Return a word as it stands between quotes in a unit, where % and $ mean something too."""
    for sign, instead in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        word = word.replace(sign, instead)
    return word


def _plist(words: tuple[str, ...]) -> str:
    settings = {
        "Label": _LABEL,
        "ProgramArguments": list(words),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ProcessType": "Background",
    }
    return plistlib.dumps(settings, sort_keys=False).decode()
