"""Envelopes to events on their way. Pure: nothing here looks at a disk or a clock, so a replay gives the same."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headwater.flows import claude_hooks
from headwater.schemas import ids, limits
from headwater.schemas.clock import from_ns
from headwater.schemas.events import BadLine, Draft, Dropped, Envelope, Event, Fate, Kind
from headwater.schemas.text import boundary

if TYPE_CHECKING:
    from datetime import datetime

HOOK_FORMATS = ("claude-hook", "codex-hook")
_NOT_CONTENT = ("originalFile", "originalFileContents")  # clipped by the hook, but no part of an event's text
_MARK_CHARS = 48  # of the sentence that stands for the middle of a long text
_prompt_event_id = lru_cache(maxsize=4096)(ids.prompt_event_id)  # a turn's facts all name it


def normalise(record: Envelope | BadLine) -> Draft | Dropped:
    """Return the event of a record, or why it has none: noise, or quarantined with the reason."""
    if isinstance(record, BadLine):
        return Dropped(record.position, Fate.QUARANTINED, record.reason, record.excerpt)
    payload = record.payload
    if not isinstance(payload, dict):
        return _quarantine(record, f"payload is {type(payload).__name__}, wanted an object")
    if record.format not in HOOK_FORMATS:
        return _quarantine(record, f"unknown format {record.format[:40]!r}")
    try:
        return _from_hook(record, payload)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # an odd shape that nobody thought of is data as well: it must not stop all the others
        return _quarantine(record, f"cannot be read: {type(error).__name__}: {str(error)[:120]}")


def _from_hook(record: Envelope, payload: dict[str, Any]) -> Draft | Dropped:
    if not claude_hooks.text(payload.get("hook_event_name")):
        return _quarantine(record, "hook_event_name is missing")
    session_id = claude_hooks.text(payload.get("session_id"))
    if not session_id:
        return _quarantine(record, "session_id is missing")
    fact = claude_hooks.fact(payload, record.project)
    if isinstance(fact, str):
        return Dropped(record.position, Fate.NOISE, fact)
    return _draft(record, payload, session_id, fact)


def _draft(record: Envelope, payload: dict[str, Any], session_id: str, fact: claude_hooks.Fact) -> Draft:
    content = _clip(fact.content)
    agent_id = claude_hooks.text(payload.get("agent_id")) or None
    turn_id = claude_hooks.turn_of(payload)
    at, at_source = _time(record)
    event_id, occurrence = _identity(record.agent, session_id, fact, agent_id=agent_id, turn_id=turn_id)
    source = record.source
    event = Event(
        id=event_id,
        agent=record.agent,
        host=record.host,
        session_id=session_id,
        turn_id=turn_id,
        agent_id=agent_id,
        project=record.project,
        cwd=claude_hooks.text(payload.get("cwd")) or None,
        at=at,
        at_source=at_source,
        seq=record.position.offset if source is None else source.offset,
        kind=fact.kind,
        role=fact.role,
        content=content,
        content_length=_content_length(record, fact.content),
        content_hash=ids.content_hash(content),
        tool=fact.tool,
        files=fact.files,
        parent_id=_parent(record.agent, session_id, turn_id, fact.kind),
        parts=fact.part,
        meta=claude_hooks.meta(payload),
    )
    return Draft(
        position=record.position,
        event=event,
        source_file=record.position.file if source is None else source.file,
        source_offset=record.position.offset if source is None else source.offset,
        occurrence=occurrence,
        delivery=str(fact.part.value),
    )


def _identity(
    agent: str,
    session_id: str,
    fact: claude_hooks.Fact,
    *,
    agent_id: str | None,
    turn_id: str | None,
) -> tuple[str, str | None]:
    """Return (event id, None), or ("", occurrence key) for a fact that carries no id."""
    if fact.key and fact.kind is Kind.TOOL:
        return ids.tool_event_id(agent, session_id, fact.key), None
    if fact.key and fact.kind in (
        Kind.PROMPT,
        Kind.NOTE,
    ):  # a note in a prompt's place: its tools name it as parent
        return _prompt_event_id(agent, session_id, fact.key), None
    if fact.kind is Kind.RESPONSE and turn_id:
        return ids.response_event_id(agent, session_id, turn_id, fact.content), None
    text_hash = ids.content_hash(fact.identity)
    return "", ids.occurrence_key(agent, session_id, agent_id or "", fact.kind.value, text_hash)


def _parent(agent: str, session_id: str, turn_id: str | None, kind: Kind) -> str | None:
    """Return the prompt of a tool or response whose turn is named; the others are linked by their session."""
    if turn_id is None or kind not in (Kind.TOOL, Kind.RESPONSE):
        return None
    return _prompt_event_id(agent, session_id, turn_id)


def _time(record: Envelope) -> tuple[datetime, str]:
    """Return when it happened and who told: a hook's payload has no time but that of its receipt."""
    told_by = record.source.time if record.source is not None and record.source.time else "hook"
    return from_ns(record.received_at_ns), told_by


def _clip(text: str) -> str:
    """Return at most CONTENT_CHARS: head and tail, for what failed stands at the end."""
    if len(text) <= limits.CONTENT_CHARS:
        return text
    half = (limits.CONTENT_CHARS - _MARK_CHARS) // 2
    head, tail = boundary(text, half), boundary(text, len(text) - half)
    tail = tail if len(text) - tail <= half + _MARK_CHARS // 4 else len(text) - half  # no endless grapheme
    return f"{text[:head]}… [{tail - head} characters clipped] …{text[tail:]}"


def _content_length(record: Envelope, content: str) -> int:
    """Return about how many characters the text had before the hook and we clipped it."""
    clipped = (n for path, n in record.clipped.items() if not path.endswith(_NOT_CONTENT))
    return max([len(content), *clipped])


def _quarantine(record: Envelope, reason: str) -> Dropped:
    where = f" (from {record.source.file} at {record.source.offset})" if record.source else ""
    excerpt = claude_hooks.text(record.payload)[: limits.EXCERPT_CHARS]
    return Dropped(record.position, Fate.QUARANTINED, reason + where, excerpt)
