"""What the hook must not record: our own doings, and everything while a person paused it.

Standard library only: the hook loads it.
"""
# Paths are plain strings: importing pathlib takes longer than all that is done here.
# ruff: noqa: PTH118, PTH123

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_SWITCHES = ("HEADWATER_DISABLE", "HEADWATER_INTERNAL")
_TOOL_EVENTS = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"})
_READING_VERBS = frozenset(
    {
        "search",
        "show",
        "timeline",
        "working-set",
        "memories",
        "continuity",
        "context",
        "endless",
        "export",
        "mcp",
    }
)  # their output is memory already


def disabled(env: "Mapping[str, str]") -> bool:
    """Tell whether the environment says that this process is ours or unwanted."""
    return any(env.get(name, "0") not in ("", "0") for name in _SWITCHES)


def paused(home: str, now_ns: int) -> bool:
    """Tell whether the home is paused: PAUSED holds the time (ns) it lasts until, or nothing for no end.

    A file that may not be read or cannot be understood pauses too. Raises OSError when there is no telling, for want of
    file handles: that event is not recorded, but counted.
    """
    try:
        with open(os.path.join(home, "PAUSED"), encoding="ascii") as file:
            until = file.read(64).strip()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (PermissionError, IsADirectoryError, ValueError):
        return True
    return not until.isdecimal() or now_ns < int(until)


def inside(home: str, folder: str) -> bool:
    """Tell whether a folder lies in the home: nobody works there but our own processes."""
    if not folder or not home:
        return False
    try:
        real, root = os.path.realpath(folder), os.path.realpath(home)
    except (OSError, ValueError):
        return False
    return real == root or real.startswith(root.rstrip("/") + "/")


def own_call(payload: "dict[str, Any] | str") -> bool:
    """Tell whether the event is a call of our own tools, by MCP or on the command line."""
    if not isinstance(payload, dict):
        return False
    event, name = payload.get("hook_event_name"), payload.get("tool_name")
    if not isinstance(event, str) or event not in _TOOL_EVENTS or not isinstance(name, str):
        return False
    if name.startswith("mcp__") and "headwater" in name.lower():
        return True
    arguments = payload.get("tool_input")
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return isinstance(command, str) and _asks_us(command)


def _asks_us(command: str) -> bool:
    words = command[:1000].split()
    if not words or not (
        words[0] == "headwater" or (words[0][0] in "/\"'" and _base(words[0]) == "headwater")
    ):
        return False
    return any(word in _READING_VERBS for word in words[1:6])  # after options such as --home DIR --json


def _base(word: str) -> str:
    return word.strip("\"'").rpartition("/")[2]
