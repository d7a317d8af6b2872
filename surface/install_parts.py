"""What `install` puts into a file, as parts that merge into a text and can be taken out of it again.

A part knows its own entries by what they call, so that those of another version or interpreter are found too, and those
of anybody else are never touched. Pure functions on texts.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from headwater.schemas.errors import InputError
from headwater.surface import install_text
from headwater.surface.install_lines import NAME, Ignored, TomlServer, base_name, is_our_server, server_home

if TYPE_CHECKING:
    from collections.abc import Mapping

HOOK_S = 5  # an agent gives up a hook after so long; ours needs hundredths of a second
END_HOOK_S = 1  # all hooks of a session's end share 1.5 s
EVENTS: dict[str, tuple[str, ...]] = {
    "claude-code": (
        *("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "StopFailure"),
        *("SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd"),
    ),
    "codex": (
        *("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SubagentStart", "SubagentStop"),
        *("PreCompact", "PostCompact", "SessionEnd"),
    ),
}
_SCRIPT = "/surface/hook.py"


class Part(Protocol):
    """One thing that stands in a file for us."""

    @property
    def what(self) -> str:
        """Name it for people."""
        ...

    def merge(self, text: str, where: str) -> str:
        """Return the text with the part in it, once and as it should be. Raises InputError."""
        ...

    def strip(self, text: str, where: str, made: frozenset[str]) -> str:
        """Return the text without it; `made` names the containers that are ours to take away when empty."""
        ...

    def holds(self, text: str, where: str) -> bool:
        """Tell whether the text has exactly what `merge` would put there. Raises InputError."""
        ...

    def missing(self, text: str, where: str) -> frozenset[str]:
        """Return the names of the containers that `merge` has to make in this text. Raises InputError."""
        ...


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of an agent in a settings file: `command` for each event."""

    agent: str
    command: tuple[str, ...]

    @property
    def what(self) -> str:
        """Name it for people."""
        return f"{len(EVENTS[self.agent])} hooks"

    def merge(self, text: str, where: str) -> str:
        """Return the text with one group for each event; stale ones of ours are replaced."""
        for event in EVENTS[self.agent]:
            if self._of(text, event, where) == [self._handler(event)]:
                continue
            text = self._without(text, event, where)
            text = install_text.append(text, ("hooks", event), {"hooks": [self._handler(event)]}, where)
        return text

    def strip(self, text: str, where: str, made: frozenset[str]) -> str:
        """Return the text without any of our handlers, whichever event they stand under."""
        whole, root = text, install_text.find(text, ("hooks",), where)
        for event in dict.fromkeys(root.keys or ()) if root is not None else ():
            before = text
            text = self._without(text, event, where)
            is_ours = f"hooks.{event}" in made
            if text != before and is_ours and _is_empty(install_text.find(text, ("hooks", event), where)):
                text = install_text.drop(text, ("hooks", event), where)
        if text != whole and "hooks" in made and _is_empty(install_text.find(text, ("hooks",), where)):
            text = install_text.drop(text, ("hooks",), where)
        return text

    def holds(self, text: str, where: str) -> bool:
        """Tell whether each event has our handler, as it should be and once."""
        return all(self._of(text, event, where) == [self._handler(event)] for event in EVENTS[self.agent])

    def missing(self, text: str, where: str) -> frozenset[str]:
        """Return `hooks` and the events below it that are not there."""
        paths = [("hooks",), *(("hooks", event) for event in EVENTS[self.agent])]
        return frozenset(".".join(path) for path in paths if install_text.find(text, path, where) is None)

    def found(self, text: str, where: str) -> list[tuple[str, ...]]:
        """Return the words of every command of ours in the text, also of other homes and versions."""
        handlers = [one for _, _, _, one in _handlers(text, where)]
        return [words for words in map(hook_words, handlers) if words]

    def _handler(self, event: str) -> dict[str, Any]:
        timeout_s = END_HOOK_S if event == "SessionEnd" else HOOK_S
        return {"type": "command", "command": shlex.join(self.command), "timeout": timeout_s}

    def _of(self, text: str, event: str, where: str) -> list[Any]:
        """Return our handlers of one event, as they stand there."""
        found = [one for name, _, _, one in _handlers(text, where) if name == event and self._is_ours(one)]
        return [_numbers(one) for one in found]

    def _is_ours(self, handler: Any) -> bool:
        return home_of(hook_words(handler)) == home_of(self.command)

    def _without(self, text: str, event: str, where: str) -> str:
        """Return the text without our handlers of an event, and without groups that held nothing else."""
        places = [
            (group, n)
            for name, group, n, one in _handlers(text, where)
            if name == event and self._is_ours(one)
        ]
        for group, n in reversed(places):
            text = install_text.drop(text, ("hooks", event, group, "hooks", n), where)
            if _is_empty(install_text.find(text, ("hooks", event, group, "hooks"), where)):
                text = install_text.drop(text, ("hooks", event, group), where)
        return text


def hook_words(handler: Any) -> tuple[str, ...]:
    """Return the words of a handler's command when it is one of our hooks, else none."""
    command = handler.get("command") if isinstance(handler, dict) else None
    if not isinstance(command, str) or (NAME not in command and _SCRIPT not in command):
        return ()
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        return ()
    is_script = any(word.endswith(_SCRIPT) for word in words[:4]) and "--agent" in words
    return words if is_script or (words[1:2] == ("hook",) and base_name(words[0]) == NAME) else ()


def home_of(words: tuple[str, ...]) -> str | None:
    """Return the home that a hook's command names, None when it names none or is no hook of ours."""
    return words[words.index("--home") + 1] if "--home" in words[:-1] else None


def _handlers(text: str, where: str) -> list[tuple[str, int, int, Any]]:
    """Return event, group, place in the group and value of every handler in a settings file."""
    root = install_text.plain(text, where)
    hooks = root.get("hooks") if isinstance(root, dict) else None
    return [
        (event, n, m, handler)
        for event, groups in (hooks.items() if isinstance(hooks, dict) else ())
        for n, group in enumerate(groups if isinstance(groups, list) else ())
        for m, handler in enumerate(_list_of(group))
    ]


def _list_of(group: Any) -> list[Any]:
    found = group.get("hooks") if isinstance(group, dict) else None
    return found if isinstance(found, list) else []


def _numbers(handler: Any) -> Any:
    """Return a handler with its numbers as such."""
    if not isinstance(handler, dict):
        return handler
    return {
        key: json.loads(one.text) if isinstance(one, install_text.Raw) else one
        for key, one in handler.items()
    }


def _is_empty(node: install_text.Node | None) -> bool:
    return node is not None and not node.children and (node.is_array or node.keys is not None)


@dataclass(frozen=True, slots=True)
class JsonServer:
    """Our MCP server in a JSON file, below the keys `at`."""

    at: tuple[str, ...]
    command: tuple[str, ...]

    @property
    def what(self) -> str:
        """Name it for people."""
        return "the MCP server"

    def merge(self, text: str, where: str) -> str:
        """Return the text with the server; another program's of the same name is in the way."""
        found = install_text.find(text, (*self.at, NAME), where)
        if found is not None and not is_our_server(found.plain()):
            line = text.count("\n", 0, found.start) + 1
            raise InputError(
                f"{where} line {line}", f"an MCP server '{NAME}' of somebody else is there", "rename that one"
            )
        return (
            text
            if self.holds(text, where)
            else install_text.put(text, (*self.at, NAME), self._value(), where)
        )

    def strip(self, text: str, where: str, made: frozenset[str]) -> str:
        """Return the text without the server; that of another home stays."""
        found = install_text.find(text, (*self.at, NAME), where)
        entry = None if found is None else found.plain()
        if not is_our_server(entry) or server_home(entry) != server_home(self._value()):
            return text
        text = install_text.drop(text, (*self.at, NAME), where)
        for depth in range(len(self.at), 0, -1):
            path = self.at[:depth]
            if _dotted(path) in made and _is_empty(install_text.find(text, path, where)):
                text = install_text.drop(text, path, where)
        return text

    def cut(self, text: str, where: str) -> str:
        """Return the text without the server, of whichever home it is; its containers stay."""
        found = install_text.find(text, (*self.at, NAME), where)
        is_of_us = found is not None and is_our_server(found.plain())
        return install_text.drop(text, (*self.at, NAME), where) if is_of_us else text

    def holds(self, text: str, where: str) -> bool:
        """Tell whether the server is there as it should be."""
        found = install_text.find(text, (*self.at, NAME), where)
        return found is not None and found.plain() == self._value()

    def missing(self, text: str, where: str) -> frozenset[str]:
        """Return the containers above the server that are not there."""
        paths = [self.at[:depth] for depth in range(1, len(self.at) + 1)]
        return frozenset(_dotted(path) for path in paths if install_text.find(text, path, where) is None)

    def _value(self) -> dict[str, Any]:
        return {"type": "stdio", "command": self.command[0], "args": list(self.command[1:]), "env": {}}


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path)


def to_json(part: Part) -> dict[str, Any]:
    """Return a part as JSON-ready data."""
    match part:
        case Hooks():
            return {"kind": "hooks", "agent": part.agent, "command": list(part.command)}
        case JsonServer():
            return {"kind": "json_server", "at": list(part.at), "command": list(part.command)}
        case TomlServer():
            return {"kind": "toml_server", "command": list(part.command)}
        case Ignored():
            return {"kind": "ignored", "line": part.line}
    raise TypeError(f"part: wanted one of ours, got {type(part).__name__}")


def from_json(data: Mapping[str, Any]) -> Part:
    """Return the part that `to_json` made. Raises KeyError or ValueError for anything else."""
    match data["kind"]:
        case "hooks" if data["agent"] in EVENTS:
            return Hooks(data["agent"], tuple(data["command"]))
        case "json_server":
            return JsonServer(tuple(data["at"]), tuple(data["command"]))
        case "toml_server":
            return TomlServer(tuple(data["command"]))
        case "ignored":
            return Ignored(data["line"])
    raise ValueError(f"part {data['kind']!r}")


def same_place(one: Part, other: Part) -> bool:
    """Tell whether two parts are the same entry, perhaps of two versions."""
    if isinstance(one, Hooks) and isinstance(other, Hooks):
        return (one.agent, home_of(one.command)) == (other.agent, home_of(other.command))
    if isinstance(one, JsonServer) and isinstance(other, JsonServer):
        return one.at == other.at
    return type(one) is type(other) and not isinstance(one, Hooks | JsonServer)
