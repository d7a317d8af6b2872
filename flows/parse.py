"""Journal lines to envelopes. A line that is none is data: a `BadLine` with file, offset and reason."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from headwater.schemas import limits
from headwater.schemas.events import BadLine, Envelope, Position, Source
from headwater.schemas.text import clean_text

if TYPE_CHECKING:
    from typing import TypeGuard

    from headwater.storage.journal import RawLine

_DECODER = json.JSONDecoder(
    strict=False
)  # a raw control character inside a string is odd, but no reason to lose it
_START = '{"v":'
_SKIP = re.compile(r"[ \t\r\n\x00]*")
_ODD_ESCAPE = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)")  # half of a pair, or NUL: no store takes them


def parse(line: RawLine) -> list[Envelope | BadLine]:
    """Return the envelopes of a line: one, or several when writers were welded together, and what is broken between.

    Decoding goes on at the next `{"v":` after a broken piece, so that one torn write costs one line. Every string of an
    envelope is valid Unicode without NUL, and no value lies deeper than NESTING_MAX.
    """
    at = Position(line.file, line.offset)
    if line.oversize_bytes:
        reason = f"line of {line.oversize_bytes} bytes, wanted at most {limits.LINE_BYTES}"
        return [BadLine(at, reason, _excerpt(line.data.decode("utf-8", "replace")))]
    try:
        text, odd = line.data.decode(), False
    except UnicodeDecodeError:  # one character for each wrong byte, so that positions stay those of the bytes
        text, odd = line.data.decode("utf-8", "surrogateescape"), True
    odd = odd or ("\\u" in text and _ODD_ESCAPE.search(text) is not None)
    odd = odd or text.count("{") + text.count("[") > limits.NESTING_MAX
    found: list[Envelope | BadLine] = []
    start = _skip(text, 0)
    done, offset = 0, line.offset
    while start < len(text):
        offset += len(text[done:start].encode("utf-8", "surrogateescape"))
        done = start
        piece, start = _piece(text, start, Position(line.file, offset), odd=odd)
        found.append(piece)
    if not found and "\x00" in text:
        found.append(BadLine(at, "nothing but NUL bytes", ""))
    return found


def _skip(text: str, start: int) -> int:
    match = _SKIP.match(text, start)
    return start if match is None else match.end()


def _piece(text: str, start: int, at: Position, *, odd: bool) -> tuple[Envelope | BadLine, int]:
    """Return what begins at `start`, and where the next piece does; what is no envelope goes on to the next start."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        reason = f"not JSON: {_reason(error)}"
    else:
        made = _envelope(at, _plain(value, 0) if odd else value)
        if isinstance(made, Envelope):
            return made, _skip(text, end)
        reason = made
    end = text.find(_START, start + 1)
    end = len(text) if end < 0 else end
    return BadLine(at, reason, _excerpt(text[start:end])), end


def _envelope(at: Position, value: Any) -> Envelope | str:
    """Return the envelope, or why it is none."""
    if not isinstance(value, dict):
        return f"wanted an envelope, got {type(value).__name__}"
    if value.get("v") != 1:
        return f"wanted envelope version 1, got {str(value.get('v'))[:20]!r}"
    received_at_ns, agent = value.get("received_at_ns"), value.get("agent")
    if not _is_number(received_at_ns) or received_at_ns == 0:
        return "received_at_ns is missing or no time"
    if not isinstance(agent, str) or not agent:
        return "agent is missing"
    clipped = value.get("clipped")
    return Envelope(
        position=at,
        id=_text(value.get("id")),
        received_at_ns=received_at_ns,
        agent=agent,
        host=_text(value.get("host")),
        project_dir=_text(value.get("project_dir")),
        project=_text(value.get("project")),
        format=_text(value.get("format")),
        source=_source(value.get("source")),
        payload=value.get("payload"),
        clipped={k: v for k, v in clipped.items() if _is_number(v)} if isinstance(clipped, dict) else {},
    )


def _source(value: Any) -> Source | None:
    if not isinstance(value, dict) or not isinstance(value.get("file"), str):
        return None
    offset, n = value.get("offset"), value.get("n")
    return Source(
        file=value["file"],
        offset=offset if _is_number(offset) else 0,
        n=n if _is_number(n) else 0,
        time=_text(value.get("time")),
    )


def _is_number(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number that every store can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _plain(value: Any, depth: int) -> Any:
    """Return a copy with clean texts, cut below NESTING_MAX."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict | list) and depth >= limits.NESTING_MAX:
        return "…"
    if isinstance(value, dict):
        return {clean_text(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _excerpt(text: str) -> str:
    return clean_text(text[: limits.EXCERPT_CHARS])


def _reason(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)[:120]
