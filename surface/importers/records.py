"""Reading records from files of any accepted shape, one at a time, plain or gzipped."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Any, cast

from headwater.flows.claude_transcripts import SKIPPED
from headwater.flows.codex_rollouts import ROLLOUT_TYPES
from headwater.schemas import limits
from headwater.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")
_CHUNK_BYTES = 1024 * 1024
_FIRST_BYTES = 64 * 1024  # of the first line: enough to tell lines from an array
_LITERAL_CHARS = (
    16  # an error so near to the end of what was read may be a word that goes on, such as -Infinity
)
_BETWEEN = re.compile(
    "[ \\t\\r\\n\\x00\ufeff,\\[\\]]*"
)  # values of an array; arrays in arrays are read as one
_NEXT_OBJECT = re.compile(r"\}\s*,?\s*(?=\{)")
_DECODER = json.JSONDecoder(strict=False)
_TRANSCRIPT_KEYS = ({"uuid", "sessionId"}, {"parentUuid", "sessionId"}, {"leafUuid", "summary"})


class Format(StrEnum):
    """What a record is."""

    ENVELOPE = "envelope"  # our own line
    STAMPED = "stamped"  # {"received_at_ns", "payload"}
    HOOK = "hook"  # a bare hook payload
    CLAUDE = "claude"  # a line of a Claude Code transcript
    CODEX = "codex"  # a line of a Codex rollout
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a file: its byte offset (of a line) or its number (in an array), and its value.

    `value` is the text as it stands when it is not JSON; `torn` when that is the last line, not ended: somebody may
    still be writing it.
    """

    file: Path
    offset: int
    n: int
    value: Any
    torn: bool = False


def find_files(paths: list[Path]) -> list[Path]:
    """Return the files to read: those given, and those below folders given, in name order.

    Raises InputError for a path that does not exist or a folder without any such file.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(_SUFFIXES))
            if not below:
                raise InputError(
                    str(path), f"wanted files ending in {', '.join(_SUFFIXES)}, found none", "name a file"
                )
            files += below
        elif path.is_file():
            files.append(path)
        else:
            raise InputError(str(path), "wanted a file or a folder, found nothing", "check the path")
    return list(dict.fromkeys(files))


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file: elements of a JSON array, or lines. Memory is bounded by one record.

    Raises InputError when the file cannot be read.
    """
    try:
        with _open(path) as file:
            stripped = (
                line.strip(b"\xef\xbb\xbf \t\r\n\x00")
                for line in iter(lambda: file.readline(_FIRST_BYTES), b"")
            )
            first = next((line for line in stripped if line), b"")
        with _open(path) as file:
            over_lines = first.startswith(b"[") or first == b"{"  # an array, or an object written for people
            yield from _stream(path, file) if over_lines else _lines(path, file)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            str(path), f"cannot be read: {error}", "check that it is a readable file, plain or .gz"
        ) from error


def count_records(path: Path) -> int:
    """Return how many records a file holds; it is read once for this."""
    return sum(1 for _ in read_records(path))


def format_of(value: Any) -> Format:
    """Return what a record is, told by its keys."""
    if not isinstance(value, dict):
        return Format.UNKNOWN
    if "payload" in value and value.get("v") == 1 and "agent" in value:
        return Format.ENVELOPE
    if "payload" in value and "received_at_ns" in value:
        return Format.STAMPED
    if "hook_event_name" in value:
        return Format.HOOK
    if "payload" in value and value.get("type") in ROLLOUT_TYPES:
        return Format.CODEX
    if any(keys <= value.keys() for keys in _TRANSCRIPT_KEYS) or ("type" in value and "timestamp" in value):
        return Format.CLAUDE
    if value.get("type") in SKIPPED and ("sessionId" in value or "messageId" in value):
        return Format.CLAUDE
    return Format.UNKNOWN


def file_format(path: Path) -> Format:
    """Return what most of the first records of a file are, among those that can be told."""
    seen: dict[Format, int] = {}
    for record in read_records(path):
        found = format_of(record.value)
        seen[found] = seen.get(found, 0) + 1
        if sum(seen.values()) >= 20:
            break
    seen.pop(Format.UNKNOWN, None)
    return max(seen, key=lambda found: seen[found], default=Format.UNKNOWN)


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb"))


def _lines(path: Path, file: IO[bytes]) -> Iterator[Record]:
    offset = n = 0
    while line := file.readline(limits.LINE_BYTES):
        text = line.decode("utf-8", "replace").strip("\ufeff \t\r\n\x00")
        for start, value in _values(text):
            torn = isinstance(value, str) and not line.endswith(b"\n")
            yield Record(path, offset + len(text[:start].encode()), n, value, torn)
            n += 1
        offset += len(line)


def _values(text: str) -> Iterator[tuple[int, Any]]:
    """Yield place and JSON value: usually one of a line; welded ones apart; what is no JSON as text."""
    start = 0
    while start < len(text):
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            value, end = text[start:], len(text)
        yield start, value
        start = end
        while start < len(text) and text[start] in " \t\r\x00":
            start += 1


def _stream(path: Path, file: IO[bytes]) -> Iterator[Record]:
    """Yield JSON values that go over lines, in an array or one after the other, holding one of them and a chunk."""
    reader = _TextReader(file)
    buffer = ""
    start = n = 0
    while True:
        start = _skip(buffer, start)
        found = _value_at(buffer, start, ended=reader.ended) if start < len(buffer) else None
        if found is None:
            if reader.ended:
                return
            buffer = buffer[start:] + reader.more(len(buffer) - start)
            start = 0
            continue
        value, start = found
        yield Record(path, n, n, value)
        n += 1


def _skip(buffer: str, start: int) -> int:
    match = _BETWEEN.match(buffer, start)
    return start if match is None else match.end()


def _value_at(buffer: str, start: int, *, ended: bool) -> tuple[Any, int] | None:
    """Return a value and its end, None when more text is needed; what is broken as text, up to the next object."""
    more = not ended and len(buffer) - start < limits.LINE_BYTES
    try:
        value, end = _DECODER.raw_decode(buffer, start)
    except json.JSONDecodeError as error:
        cut = error.msg.startswith("Unterminated") or error.pos >= len(buffer) - _LITERAL_CHARS
        if more and cut:
            return None
        place = max(error.pos, start + 1)
    except (ValueError, RecursionError):  # a number of thousands of digits, thousands of brackets
        place = start + 1
    else:
        whole = (
            isinstance(value, dict | list | str) or end < len(buffer) - _LITERAL_CHARS
        )  # a number may go on
        return (value, end) if whole or not more else None
    following = _NEXT_OBJECT.search(buffer, place)
    if following is None and more:
        return None
    end = len(buffer) if following is None else following.end()
    return buffer[start:end], end


class _TextReader:
    """Decodes a byte file in chunks."""

    def __init__(self, file: IO[bytes]) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._file = file
        self.ended = False

    def more(self, chars_min: int) -> str:
        """Return the next text, at least doubling what the caller holds, so that big elements stay linear."""
        data = self._file.read(max(_CHUNK_BYTES, chars_min))
        self.ended = not data
        return self._decode(data, self.ended)
