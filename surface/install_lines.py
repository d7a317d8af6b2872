"""What `install` puts into files that are no JSON: a table of TOML, a line of a list; and what a command may hold.

Pure functions on texts, as in `install_parts`.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "headwater"  # of our program, and of our MCP server
_TOML_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def is_our_server(entry: Any) -> bool:
    """Tell whether an entry of MCP servers runs our program."""
    if not isinstance(entry, dict):
        return False
    args = entry.get("args")
    words = [str(entry.get("command")), *(args if isinstance(args, list) else [])]
    return base_name(words[0]) == NAME and "mcp" in words


def server_home(entry: Any) -> str | None:
    """Return the home that an entry of MCP servers names, None when it names none."""
    args = entry.get("args") if isinstance(entry, dict) else None
    words = args if isinstance(args, list) else []
    return words[words.index("--home") + 1] if "--home" in words[:-1] else None


def base_name(word: str) -> str:
    """Return the last part of a path."""
    return word.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class TomlServer:
    """Our MCP server in a TOML file: a table of its own at the end."""

    command: tuple[str, ...]

    @property
    def what(self) -> str:
        """Name it for people."""
        return "the MCP server"

    def merge(self, text: str, where: str) -> str:
        """Return the text with the table. Raises InputError for a broken file and for another server of that name."""
        if self.holds(text, where):
            return text
        text = self._cut(text, where, of_any_home=True)
        servers = _toml(text, where).get("mcp_servers", {})
        if not isinstance(servers, dict) or NAME in servers:
            raise InputError(where, f"mcp_servers.{NAME} is there already, not ours", "rename that one")
        newline = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text else newline if text.endswith("\n") else newline * 2
        merged = f"{text}{gap}{newline.join(self._lines())}{newline}"
        try:
            _toml(merged, where)
        except InputError as error:  # `mcp_servers = {...}` in one line cannot be added to
            fix = f"write it as tables: [mcp_servers.NAME]; got {error.problem}"
            raise InputError(
                where, "mcp_servers is written in a way that nothing can be added to", fix
            ) from error
        return merged

    def strip(self, text: str, where: str, made: frozenset[str]) -> str:
        """Return the text without our table; that of another home stays."""
        del made
        return self._cut(text, where, of_any_home=False)

    def _cut(self, text: str, where: str, *, of_any_home: bool) -> str:
        servers = _toml(text, where).get("mcp_servers", {})
        entry = servers.get(NAME) if isinstance(servers, dict) else None
        found = re.search(rf"^[ \t]*\[mcp_servers\.{NAME}\][^\n]*\n?", text, re.MULTILINE)
        is_of_us = of_any_home or server_home(entry) == server_home({"args": [*self.command]})
        if not is_our_server(entry) or not is_of_us or found is None:
            return text
        after = _TOML_HEADER.search(text, found.end())
        end = after.start() if after else len(text)
        kept = text[: found.start()]
        if not after:  # the empty line before it was ours
            kept = re.sub(r"(\r?\n)\r?\n\Z", r"\1", kept)
        return kept + text[end:]

    def holds(self, text: str, where: str) -> bool:
        """Tell whether the table is there as it should be."""
        servers = _toml(text, where).get("mcp_servers", {})
        wanted = {"command": self.command[0], "args": list(self.command[1:])}
        return isinstance(servers, dict) and servers.get(NAME) == wanted

    def missing(self, text: str, where: str) -> frozenset[str]:
        """Return nothing: a table stands for itself."""
        del text, where
        return frozenset()

    def _lines(self) -> tuple[str, ...]:
        args = ", ".join(json.dumps(word, ensure_ascii=False) for word in self.command[1:])
        command = json.dumps(self.command[0], ensure_ascii=False)
        return (f"[mcp_servers.{NAME}]", f"command = {command}", f"args = [{args}]")


def _toml(text: str, where: str) -> Mapping[str, Any]:
    """Return what a TOML file says. Raises InputError with its line."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n").removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        place = f"{where} line {line[1]}" if line else where
        raise InputError(
            place, f"not valid TOML: {error}", "correct that line; nothing was written"
        ) from error


@dataclass(frozen=True, slots=True)
class Ignored:
    """A line of `.git/info/exclude`: a private settings file does not show in `git status`."""

    line: str

    @property
    def what(self) -> str:
        """Name it for people."""
        return "a line that keeps the file out of git"

    def merge(self, text: str, where: str) -> str:
        """Return the text with the line at its end."""
        if self.holds(text, where):
            return text
        gap = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{gap}{self.line}\n"

    def strip(self, text: str, where: str, made: frozenset[str]) -> str:
        """Return the text without the line."""
        del where, made
        return "".join(one for one in text.splitlines(keepends=True) if one.rstrip("\r\n") != self.line)

    def holds(self, text: str, where: str) -> bool:
        """Tell whether the line is there."""
        del where
        return self.line in text.splitlines()

    def missing(self, text: str, where: str) -> frozenset[str]:
        """Return nothing: a line needs no container."""
        del text, where
        return frozenset()


def check_words(words: tuple[str, ...]) -> None:
    """Raise InputError for a command that cannot stand in a settings file: no text, or more than a line."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                os.fsencode(word).decode("utf-8", "replace"),
                "wanted a path in UTF-8, got other bytes",
                "move it to a folder with such a name",
            ) from error
        if "\n" in word or "\0" in word:
            raise InputError(repr(word), "wanted a path without line breaks", "move it to another folder")
