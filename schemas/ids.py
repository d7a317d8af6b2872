"""Derived ids: the same fact gives the same id, whichever way and however often it arrives.

An id is a prefix and 60 bits of SHA-256 in base 32, so that it is short to read out and to put into a prompt.
At 300,000 ids the chance of any collision is below 4e-8 (birthday bound n^2 / 2^61).
"""

from __future__ import annotations

import hashlib

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u to misread
_PAIRS = tuple(
    high + low for high in _ALPHABET for low in _ALPHABET
)  # 10 bits at a time: ids are made by the thousand
_SEPARATOR = "\x1f"  # the unit separator: rare in what agents send
_ESCAPE = (
    "\x1e"  # stands before a separator that a part holds itself, so that no two lists of parts look alike
)


def digest(*parts: str) -> str:
    """Return 12 base-32 characters (60 bits) of SHA-256 over the parts."""
    text = _SEPARATOR.join(parts)
    if _ESCAPE in text or text.count(_SEPARATOR) != len(parts) - 1:
        escaped = (part.replace(_ESCAPE, _ESCAPE + "0").replace(_SEPARATOR, _ESCAPE + "1") for part in parts)
        text = _SEPARATOR.join(escaped)
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return (
        _PAIRS[number & 1023]
        + _PAIRS[number >> 10 & 1023]
        + _PAIRS[number >> 20 & 1023]
        + _PAIRS[number >> 30 & 1023]
        + _PAIRS[number >> 40 & 1023]
        + _PAIRS[number >> 50 & 1023]
    )


def content_hash(text: str) -> str:
    """Return 16 hex characters (64 bits) of SHA-256: enough to see a change of one item's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def tool_event_id(agent: str, session_id: str, tool_use_id: str) -> str:
    """Return the id of a tool call that carries its own id."""
    return "evt_" + digest("tool", agent, session_id, tool_use_id)


def prompt_event_id(agent: str, session_id: str, prompt_id: str) -> str:
    """Return the id of a prompt that carries its own id."""
    return "evt_" + digest("prompt", agent, session_id, prompt_id)


def response_event_id(agent: str, session_id: str, turn_id: str, text: str) -> str:
    """Return the id of an answer: a turn can have several, told apart by their text."""
    return "evt_" + digest("response", agent, session_id, turn_id, content_hash(text))


def compact_event_id(agent: str, session_id: str, prompt_id: str) -> str:
    """Return the id of a compaction that carries a prompt id."""
    return "evt_" + digest("compact", agent, session_id, prompt_id)


def session_event_id(agent: str, session_id: str) -> str:
    """Return the id of the event that begins a session: it happens once, however often the session is resumed."""
    return "evt_" + digest("session", agent, session_id)


def line_key(agent: str, *parts: str) -> str:
    """Return what names a line of an agent's own log: its uuid, or what else tells it from all others."""
    return digest("line", agent, *parts)


def occurrence_key(agent: str, session_id: str, agent_id: str, kind: str, text_hash: str) -> str:
    """Return what two facts without an id have in common when they have the same content."""
    return digest("occurrence", agent, session_id, agent_id, kind, text_hash)


def occurrence_event_id(key: str, n: int) -> str:
    """Return the id of the n-th fact (from 0, counted per source file) with the same occurrence key."""
    return "evt_" + digest("nth", key, str(n))


def task_title_id(event_id: str, n: int) -> str:
    """Return the id of the n-th title (from 0) that a tool call writes down; it names the event that holds it."""
    return f"{event_id}~{n}"


def event_of_task_title(item_id: str) -> str:
    """Return the event that holds a title of a task."""
    return item_id.rpartition("~")[0]


def job_id(item_kind: str, item_id: str, embedding_version: str) -> str:
    """Return the id of the one job that an item has per embedding version."""
    return "job_" + digest("job", item_kind, item_id, embedding_version)


def vector_id(item_kind: str, item_id: str, chunk_n: int) -> str:
    """Return the id of one vector row: `kind:item#chunk`."""
    return f"{item_kind}:{item_id}#{chunk_n}"
