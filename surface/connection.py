"""What `doctor` says of the way from agents to this home: are there hooks, do they call what is there, only once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.schemas.errors import HeadwaterError
from headwater.surface import autostart, install_parts, install_text
from headwater.surface.findings import Check
from headwater.surface.install import read_file, short
from headwater.surface.install_lines import NAME, is_our_server
from headwater.surface.install_parts import EVENTS, Hooks, JsonServer
from headwater.surface.install_places import AGENTS, SCOPES, places
from headwater.surface.install_record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.storage.home import Home

_NAME = "install"


@dataclass(slots=True)
class _Seen:
    """What was found in all files together."""

    settings: list[Path] = field(default_factory=list)  # that have hooks of this home
    plugins: list[Path] = field(default_factory=list)  # that switch the plugin on


def connection(home: Home) -> Iterator[Check]:
    """Look at the settings of both agents, of their user and of this folder, and at those that `install` wrote."""
    seen = _Seen()
    found = [*_of_hooks(home, seen), *_of_servers(home), *_of_record(home)]
    if seen.settings and seen.plugins:
        said = f"{short(seen.plugins[0])} has the plugin and {short(seen.settings[0])} the hooks: agents are told twice"
        fix = "run: headwater uninstall --agent claude-code; or switch the plugin off"
        found.append(Check(_NAME, "warn", said, fix))
    elif not seen.settings and not seen.plugins:
        found.append(Check(_NAME, "warn", "no agent has hooks of this home", "run: headwater install"))
    yield from found
    if not found:
        where = ", ".join(short(path) for path in (*seen.settings, *seen.plugins))
        yield Check(_NAME, "ok", f"hooks in {where}")


def _paths(home: Home, kind: type) -> list[tuple[Path, Any]]:
    """Return the files where parts of a kind may stand, and those parts, each file once."""
    found: dict[str, tuple[Path, Any]] = {}
    for agent in AGENTS:
        for scope in SCOPES if agent == "claude-code" else SCOPES[:2]:
            for place in places(home, agent, scope, Path.cwd()):
                if isinstance(place.part, kind):
                    found.setdefault(str(place.path), (place.path, place.part))
    for path, record in Record.load(home).files.items():
        for one in record.written:
            if isinstance(one.part, kind):
                found.setdefault(path, (Path(path), one.part))
    return list(found.values())


def _of_hooks(home: Home, seen: _Seen) -> Iterator[Check]:
    for path, part in _paths(home, Hooks):
        try:
            data = read_file(path)
            text = "" if data is None else data.decode("utf-8", "replace")
            root = install_text.plain(text, str(path))
            lines = part.found(text, str(path))
        except HeadwaterError as error:
            yield Check(_NAME, "warn", f"{error.where}: {error.problem}", error.fix.partition(";")[0])
            continue
        if isinstance(root, dict):
            if _has_plugin(root):
                seen.plugins.append(path)
            if lines and root.get("disableAllHooks") is True:
                yield Check(
                    _NAME, "warn", f"{short(path)} switches all hooks off", "remove disableAllHooks there"
                )
        yield from _of_lines(home, path, part, lines, seen)


def _of_lines(
    home: Home, path: Path, part: Hooks, lines: list[tuple[str, ...]], seen: _Seen
) -> Iterator[Check]:
    """Look at the command lines of hooks in one file."""
    ours = [words for words in lines if install_parts.home_of(words) == str(home.root)]
    others = {install_parts.home_of(words) or "the default home" for words in lines} - {str(home.root)}
    if others:
        said = f"{short(path)} has hooks of another home too: {min(others)}"
        yield Check(
            _NAME, "warn", said, f"run: headwater --home '{min(others)}' uninstall, unless both are meant"
        )
    if not ours:
        return
    seen.settings.append(path)
    again = f"run: headwater install --agent {part.agent}{_scope_of(home, path)}"
    gone = next((word for words in ours for word in _programs(words) if not os.access(word, os.R_OK)), None)
    if gone is not None:
        yield Check(_NAME, "bad", f"the hooks in {short(path)} call {gone}, which is gone", again)
    elif any(words != part.command for words in ours):
        script = next(words for words in ours if words != part.command)[3:4]
        yield Check(_NAME, "warn", f"{short(path)} has hooks of another version: {' '.join(script)}", again)
    elif len(ours) < len(EVENTS[part.agent]):
        said = f"{short(path)} has hooks for {len(ours)} of {len(EVENTS[part.agent])} events"
        yield Check(_NAME, "warn", said, again)


def _programs(words: tuple[str, ...]) -> list[str]:
    """Return the files that a hook's command needs: interpreter and script."""
    return [word for word in words[:4] if word.startswith("/")]


def _scope_of(home: Home, path: Path) -> str:
    """Return the options that name the scope of a file, as far as our record knows it."""
    record = Record.load(home).files.get(str(path))
    scope = record.written[0].scope if record else "user"
    return "" if scope == "user" else f" --scope {scope}"


def _has_plugin(root: dict[str, Any]) -> bool:
    enabled = root.get("enabledPlugins")
    return isinstance(enabled, dict) and any(
        name.partition("@")[0] == NAME and enabled[name] is True for name in enabled
    )


def _of_servers(home: Home) -> Iterator[Check]:
    for path, part in _paths(home, JsonServer):
        data = read_file(path)
        if data is None or NAME.encode() not in data:
            continue
        try:
            found = install_text.find(data.decode("utf-8", "replace"), (*part.at, NAME), str(path))
        except HeadwaterError as error:
            yield Check(_NAME, "warn", f"{error.where}: {error.problem}", error.fix.partition(";")[0])
            continue
        entry = None if found is None else found.plain()
        is_ours = isinstance(entry, dict) and is_our_server(entry)
        if entry is not None and is_ours and not os.access(entry["command"], os.X_OK):
            said = f"the MCP server in {short(path)} is {entry['command']}, which is gone"
            yield Check(_NAME, "bad", said, "run: headwater install")


def _of_record(home: Home) -> Iterator[Check]:
    """Compare what was written with what stands there, and look at what starts the stream."""
    for path, record in Record.load(home).files.items():
        for one in record.written:
            data = read_file(Path(path))
            try:
                stands = data is not None and one.part.holds(data.decode("utf-8", "replace"), path)
            except HeadwaterError:
                continue  # told above
            if not stands and not (
                isinstance(one.part, Hooks) and data is not None and _some(one.part, data, path)
            ):
                scope = "" if one.scope == "user" else f" --scope {one.scope}"
                fix = f"run: headwater install --agent {one.agent}{scope}"
                yield Check(_NAME, "warn", f"{one.part.what} went from {short(Path(path))}", fix)
    words = autostart.words_of(str(home.root))
    if words and not os.access(words[0], os.X_OK):
        said = f"sessions are to start the stream with {words[0]}, which is gone"
        yield Check(_NAME, "bad", said, "run: headwater install")


def _some(part: Hooks, data: bytes, path: str) -> bool:
    """Tell whether hooks are there, though not as they should be: that is told by what they call."""
    return any(
        install_parts.home_of(words) == install_parts.home_of(part.command)
        for words in part.found(data.decode("utf-8", "replace"), path)
    )
