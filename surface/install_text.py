"""Editing JSON files of other programs as text: whatever we do not mean to change keeps every byte.

Read is what such files are in practice: JSON, with a byte order mark, comments and trailing commas when they are there.
Pure functions from text to text; positions are characters.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from headwater.schemas.errors import InputError

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}
_BOM = "\ufeff"

Path = tuple[str | int, ...]
"""Keys and indexes from the root to a value."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A number as it is written: nothing is lost by reading it."""

    text: str


@dataclass(slots=True)
class Node:
    """A value and where it stands; of a member of an object `from_` is where its key begins."""

    start: int
    end: int
    value: Any = None  # of a string, number or word
    keys: list[str] | None = None  # of an object, in order
    children: list[Node] = field(default_factory=list)  # of an object or array
    is_array: bool = False
    from_: int = 0

    def child(self, key: str | int) -> Node | None:
        """Return the value below a key (the last of that name counts) or an index, None when there is none."""
        if self.keys is not None and key in self.keys:
            return self.children[len(self.keys) - 1 - self.keys[::-1].index(str(key))]
        if self.is_array and isinstance(key, int) and key < len(self.children):
            return self.children[key]
        return None

    def plain(self) -> Any:
        """Return the value as dicts, lists, strings, `Raw`, True, False, None."""
        if self.keys is not None:
            return {key: node.plain() for key, node in zip(self.keys, self.children, strict=True)}
        return [node.plain() for node in self.children] if self.is_array else self.value


@lru_cache(maxsize=8)  # one edit looks at the same text many times, and some have megabytes
def parse(text: str, where: str = "JSON") -> Node | None:
    """Return the root (not to be changed), None for a text without a value. Raises InputError with `where` and line."""
    reader = _Reader(text, where)
    at = reader.skip(len(_BOM) if text.startswith(_BOM) else 0)
    if at == len(text):
        return None
    try:
        root = reader.value(at)
    except RecursionError as error:
        raise InputError(where, "nested too deeply to be read", "make it simpler") from error
    end = reader.skip(root.end)
    if end < len(text):
        raise reader.fault(end, "wanted the end of the file")
    return root


def plain(text: str, where: str = "JSON") -> Any:
    """Return what a text says, an empty object for one that says nothing. Raises InputError."""
    root = parse(text, where)
    return {} if root is None else root.plain()


class _Reader:
    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where

    def fault(self, at: int, wanted: str) -> InputError:
        line = self.text.count("\n", 0, at) + 1
        got = self.text[at : at + 12].split("\n")[0].strip()
        fix = "correct that line; nothing was written"
        return InputError(f"{self.where} line {line}", f"{wanted}, got {got or 'nothing more'!r}", fix)

    def skip(self, at: int) -> int:
        found = _TRIVIA.match(self.text, at)
        end = found.end() if found else at
        if self.text.startswith("/*", end):
            raise self.fault(end, "wanted the end of a comment")
        return end

    def value(self, at: int) -> Node:
        start = self.text[at : at + 1]
        if start in ("{", "["):
            return self._container(at, is_array=start == "[")
        if start == '"':
            return self._string(at)
        if found := _NUMBER.match(self.text, at):
            return Node(at, found.end(), Raw(found[0]), from_=at)
        for word, value in _WORDS.items():
            if self.text.startswith(word, at):
                return Node(at, at + len(word), value, from_=at)
        raise self.fault(at, "wanted a value")

    def _string(self, at: int) -> Node:
        found = _STRING.match(self.text, at)
        if found is None:
            raise self.fault(at, 'wanted a string that ends with "')
        try:
            return Node(at, found.end(), json.loads(found[0]), from_=at)
        except ValueError as error:
            raise self.fault(at, "wanted a string with sound escapes") from error

    def _container(self, at: int, *, is_array: bool) -> Node:
        node = Node(at, at, keys=None if is_array else [], is_array=is_array, from_=at)
        close = "]" if is_array else "}"
        here = self.skip(at + 1)
        while not self.text.startswith(close, here):
            begin = here
            if node.keys is not None:
                if not self.text.startswith('"', here):
                    raise self.fault(here, 'wanted a key in "" or }')
                key = self._string(here)
                node.keys.append(key.value)
                here = self.skip(key.end)
                if not self.text.startswith(":", here):
                    raise self.fault(here, "wanted :")
                here = self.skip(here + 1)
            child = self.value(here)
            child.from_ = begin
            node.children.append(child)
            here = self.skip(child.end)
            if self.text.startswith(",", here):
                here = self.skip(here + 1)
            elif not self.text.startswith(close, here):
                raise self.fault(here, f"wanted , or {close}")
        node.end = here + 1
        return node


def find(text: str, path: Path, where: str = "JSON") -> Node | None:
    """Return the value at a path, None when there is none. Raises InputError."""
    node = parse(text, where)
    for key in path:
        node = None if node is None else node.child(key)
    return node


def put(text: str, path: Path, value: Any, where: str = "JSON") -> str:
    """Return the text with `value` at the path: in the place of what is there, else as the last member.

    Objects on the way are made. Raises InputError when something else than an object is in the way.
    """
    found = find(text, path, where)
    if found is not None:
        pad = _line_indent(text, found.start)
        return text[: found.start] + _render(text, value, pad, flat=False) + text[found.end :]
    parent = _made_up_to(text, path[:-1], where)
    if isinstance(parent, int):  # what is missing goes in at once
        for key in reversed(path[parent + 1 :]):
            value = {key: value}
        return put(text, path[: parent + 1], value, where)
    if parent is None:
        for key in reversed(path):
            value = {key: value}
        return _begin(text, value)
    if parent.keys is None:
        raise _in_the_way(text, where, path[:-1])
    return _insert(text, parent, str(path[-1]), value)


def append(text: str, path: Path, value: Any, where: str = "JSON") -> str:
    """Return the text with `value` as the last element of the array at the path, which is made when missing.

    Raises InputError when something else than an array is there.
    """
    found = find(text, path, where)
    if found is None:
        return put(text, path, [value], where)
    if not found.is_array:
        raise _in_the_way(text, where, path)
    return _insert(text, found, None, value)


def drop(text: str, path: Path, where: str = "JSON") -> str:
    """Return the text without the value at the path, and without its key and comma; as it is when there is none."""
    parent, found = find(text, path[:-1], where), find(text, path, where)
    if parent is None or found is None:
        return text
    index = next(n for n, child in enumerate(parent.children) if child.from_ == found.from_)
    return _remove(text, parent, index)


def _in_the_way(text: str, where: str, path: Path) -> InputError:
    found = find(text, path, where)
    line = text.count("\n", 0, found.start if found else 0) + 1
    name = ".".join(str(key) for key in path) or "the file"
    got = text[found.start : found.start + 12] if found else "nothing"
    return InputError(
        f"{where} line {line}", f"{name}: wanted another kind of value, got {got!r}", "correct that line"
    )


def _made_up_to(text: str, path: Path, where: str) -> Node | int | None:
    """Return the object at the path; how many of its keys are there when some are not; None without a root."""
    node = parse(text, where)
    if node is None:
        return None
    for depth, key in enumerate(path):
        if node.keys is None:
            raise _in_the_way(text, where, path[:depth])
        below = node.child(key)
        if below is None:
            return depth
        node = below
    return node


def _newline(text: str) -> str:
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _unit(text: str) -> str:
    """Return one step of indentation as the file has it: that of the root's first member."""
    found = re.search(r"[{\[][ \t]*\r?\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _line_indent(text: str, at: int) -> str:
    """Return the white space at the start of the line of a position."""
    found = re.match(r"[ \t]*", text[text.rfind("\n", 0, at) + 1 :])
    return found[0] if found else ""


def _render(text: str, value: Any, pad: str, *, flat: bool) -> str:
    if flat:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    return f"{_newline(text)}{pad}".join(lines)


def _begin(text: str, value: Any) -> str:
    """Return a text that had no value with one; its comments stay."""
    bom = _BOM if text.startswith(_BOM) else ""
    said = text[len(bom) :].strip()
    before = f"{said}{_newline(text)}" if said else ""
    return f"{bom}{before}{_render(text, value, '', flat=False)}{_newline(text)}"


def _insert(text: str, parent: Node, key: str | None, value: Any) -> str:
    """Return the text with one more last child of a container."""
    close = parent.end - 1
    last = parent.children[-1].end if parent.children else parent.start + 1
    solid = last + len(text[last:close].rstrip())  # after comments and a comma that stand behind it
    has_comma = "," in _COMMENTS.sub(
        "", text[last:solid]
    )  # one behind the last child: then ours gets one too
    head = text[:last] + ("," if parent.children and not has_comma else "") + text[last:solid]
    tail = "," if has_comma else ""
    first = parent.children[0] if parent.children else None
    flat = first is not None and "\n" not in text[parent.start : first.from_] + text[last:close]
    own = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    if flat:
        return f"{head} {own}{_render(text, value, '', flat=True)}{tail}{text[solid:]}"
    outer = _line_indent(text, parent.start)
    on_own_line = first is not None and "\n" in text[parent.start : first.from_]
    pad = _line_indent(text, first.from_) if first is not None and on_own_line else outer + _unit(text)
    rest = text[solid:close] if "\n" in text[solid:close] else f"{_newline(text)}{outer}"
    body = own + _render(text, value, pad, flat=False)
    return f"{head}{_newline(text)}{pad}{body}{tail}{rest}{text[close:]}"


def _remove(text: str, parent: Node, index: int) -> str:
    """Return the text without a child of a container; comments around it stay."""
    children, close = parent.children, parent.end - 1
    child = children[index]
    comma = _comma(text, child.end, children[index + 1].from_ if index + 1 < len(children) else close)
    if index + 1 < len(children):
        following = children[index + 1].from_
        end = following if not text[comma + 1 : following].strip() else comma + 1
        return text[: child.from_] + text[end:]
    end = child.end if comma < 0 else comma + 1
    before = children[index - 1].end if index else parent.start + 1
    start = before + len(text[before : child.from_].rstrip())
    if index and comma < 0:  # the comma that stood before it goes as well
        at = _comma(text, before, child.from_)
        return text[:at] + text[at + 1 : start] + text[end:]
    if not index and not (text[parent.start + 1 : start] + text[end:close]).strip():
        return text[: parent.start + 1] + text[close:]
    return text[:start] + text[end:]


def _comma(text: str, start: int, end: int) -> int:
    """Return where the comma stands between two positions, outside of comments; -1 when there is none."""
    blank = _COMMENTS.sub(lambda found: " " * len(found[0]), text[start:end])
    at = blank.find(",")
    return -1 if at < 0 else start + at
