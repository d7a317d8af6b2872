"""Installing into the folder of an invented user, and looking at what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.storage.home import Home
from headwater.surface import install_text
from headwater.surface.install import apply, plan_install, plan_uninstall


def settings_file(user: Path, data: bytes | None = None) -> Path:
    """Return the user's settings, with these bytes in it."""
    path = user / ".claude" / "settings.json"
    if data is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return path


def install(opened: Home, agent: str = "claude-code", scope: str = "user", folder: Path = Path("/")) -> int:
    """Install and return how many files were written."""
    changes = plan_install(opened, agent, scope, folder)
    apply(opened, changes)
    return sum(change.is_written for change in changes)


def uninstall(opened: Home, folder: Path = Path("/"), **only: str) -> int:
    """Uninstall (what `only` says: agent, scope) and return how many files were written."""
    changes = plan_uninstall(
        opened, lambda one: all(getattr(one, name) == value for name, value in only.items()), folder
    )
    apply(opened, changes)
    return sum(change.is_written for change in changes)


def tree(user: Path) -> dict[str, bytes | str]:
    """Return every file, folder and link below a user's folder but for the home."""
    found: dict[str, bytes | str] = {}
    for path in sorted(user.rglob("*")):
        name = path.relative_to(user).as_posix()
        if not name.startswith("head water"):
            found[name] = (
                str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
            )
    return found


def handlers(data: bytes) -> dict[str, list[Any]]:
    """Return the handlers of each event in a settings file."""
    hooks = install_text.plain(data.decode())["hooks"]
    return {event: [one for group in groups for one in group["hooks"]] for event, groups in hooks.items()}
