"""Envelopes to events on their way. Pure: nothing here looks at a disk or a clock, so a replay gives the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headwater.flows import claude_hooks, claude_transcripts, codex_rollouts
from headwater.schemas import ids, limits
from headwater.schemas.clock import from_ns, parse_iso
from headwater.schemas.events import BadLine, Draft, Dropped, Envelope, Event, Fate, Kind
from headwater.schemas.text import boundary

if TYPE_CHECKING:
    from datetime import datetime

HOOK_FORMATS = ("claude-hook", "codex-hook")
TRANSCRIPT_FORMAT = "claude-transcript"
ROLLOUT_FORMAT = "codex-rollout"
_NOT_CONTENT = ("originalFile", "originalFileContents")  # clipped by the hook, but no part of an event's text
_MARK_CHARS = 48  # of the sentence that stands for the middle of a long text
_prompt_event_id = lru_cache(maxsize=4096)(ids.prompt_event_id)  # a turn's facts all name it


def normalise(record: Envelope | BadLine) -> list[Draft | Dropped]:
    """Return the events of a record, at least one, or the one reason why it has none: noise, or quarantined."""
    if isinstance(record, BadLine):
        return [Dropped(record.position, Fate.QUARANTINED, record.reason, record.excerpt)]
    payload = record.payload
    if not isinstance(payload, dict):
        return [_quarantine(record, f"payload is {type(payload).__name__}, wanted an object")]
    read = _READERS.get(record.format)
    if read is None:
        return [_quarantine(record, f"unknown format {record.format[:40]!r}")]
    try:
        return read(record, payload)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # an odd shape that nobody thought of is data as well: it must not stop all the others
        return [_quarantine(record, f"cannot be read: {type(error).__name__}: {str(error)[:120]}")]


def told_time(told: str, received_at_ns: int) -> datetime | None:
    """Return the time that a line tells, None when it tells none, one before any agent, or one of its own future."""
    try:
        at = parse_iso(told)
    except ValueError:
        return None
    too_late = at - from_ns(received_at_ns) > timedelta(seconds=limits.FUTURE_S)
    return None if at.year < limits.OLDEST_YEAR or too_late else at


class _Line:
    """What all facts of one record have in common."""

    __slots__ = ("agent_id", "copy_line", "copy_of", "cwd", "session_id", "timestamp", "told", "turn_id")

    def __init__(
        self, session_id: str, *, agent_id: str | None, turn_id: str | None, cwd: str | None
    ) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.turn_id = turn_id
        self.cwd = cwd
        self.timestamp: str | None = None  # None: the record's receipt is its time
        self.told = self.copy_of = self.copy_line = ""


def _from_hook(record: Envelope, payload: dict[str, Any]) -> list[Draft | Dropped]:
    if not claude_hooks.text(payload.get("hook_event_name")):
        return [_quarantine(record, "hook_event_name is missing")]
    session_id = claude_hooks.text(payload.get("session_id"))
    if not session_id:
        return [_quarantine(record, "session_id is missing")]
    fact = claude_hooks.fact(payload, record.project)
    if isinstance(fact, str):
        return [Dropped(record.position, Fate.NOISE, fact)]
    fact.meta = claude_hooks.meta(payload)
    line = _Line(
        session_id,
        agent_id=claude_hooks.text(payload.get("agent_id")) or None,
        turn_id=claude_hooks.turn_of(payload),
        cwd=claude_hooks.text(payload.get("cwd")) or None,
    )
    return [_draft(record, line, fact, 0)]


def _from_transcript(record: Envelope, payload: dict[str, Any]) -> list[Draft | Dropped]:
    line = _Line(
        claude_hooks.text(payload.get("sessionId")),
        agent_id=claude_transcripts.agent_of(payload),
        turn_id=claude_transcripts.turn_of(payload),
        cwd=claude_hooks.text(payload.get("cwd")) or None,
    )
    return _from_log(record, payload, line, claude_transcripts.facts(payload, record.project))


def _from_rollout(record: Envelope, payload: dict[str, Any]) -> list[Draft | Dropped]:
    notes = claude_transcripts.notes_of(payload)
    line = _Line(
        claude_hooks.text(notes.get("session_id")),
        agent_id=None,
        turn_id=codex_rollouts.turn_of(payload),
        cwd=claude_hooks.text(notes.get("cwd")) or None,
    )
    found = codex_rollouts.facts(payload, record.project)
    for fact in found if isinstance(found, list) else ():
        if fact.kind is Kind.PROMPT and notes.get("first") is True:
            fact.key = line.turn_id
    return _from_log(record, payload, line, found)


def _from_log(
    record: Envelope, payload: dict[str, Any], line: _Line, found: list[claude_hooks.Fact] | str
) -> list[Draft | Dropped]:
    """Return the drafts of a line that an agent wrote into its own log."""
    if not line.session_id:
        return [_quarantine(record, "the session's id is missing")]
    if isinstance(found, str):
        return [Dropped(record.position, Fate.NOISE, found)]
    line.timestamp = claude_hooks.text(payload.get("timestamp"))
    notes = claude_transcripts.notes_of(payload)
    line.told = claude_hooks.text(notes.get("line"))
    line.copy_of, line.copy_line = (claude_hooks.text(notes.get(name)) for name in ("copy_of", "copy_line"))
    # the beginning of a session stands before the line that it was told with
    first = -1 if found and found[0].kind is Kind.SESSION_START and len(found) > 1 else 0
    made: list[Draft | Dropped] = [_draft(record, line, fact, n) for n, fact in enumerate(found, first)]
    for n, one in enumerate(made[:-1]):
        if isinstance(one, Draft):
            made[n] = replace(one, last=False)
    return made


def _draft(record: Envelope, line: _Line, fact: claude_hooks.Fact, n: int) -> Draft:
    content = _clip(fact.content)
    event_id, occurrence = _identity(record.agent, line, fact)
    source = record.source
    file, offset = (
        (record.position.file, record.position.offset) if source is None else (source.file, source.offset)
    )
    at, at_source, replaced = _time(record, line, fact)
    event = Event(
        id=event_id,
        agent=record.agent,
        host=record.host,
        session_id=line.session_id,
        prev_session_id=fact.prev_session_id,
        turn_id=line.turn_id,
        agent_id=line.agent_id,
        project=record.project,
        cwd=line.cwd,
        at=at,
        at_source=at_source,
        seq=offset + n,
        kind=fact.kind,
        role=fact.role,
        content=content,
        content_length=_content_length(record, fact.content),
        content_hash=ids.content_hash(content),
        tool=fact.tool,
        files=fact.files,
        parent_id=_parent(record.agent, line.session_id, line.turn_id, fact.kind),
        parts=fact.part,
        meta=fact.meta | replaced | ({"copy_of": line.copy_of} if line.copy_of else {}),
    )
    if (
        line.timestamp is not None
    ):  # wherever a log lies, and packed or not, equal facts of it are counted alike
        file = f"log:{line.session_id}:{line.agent_id or ''}"
    return Draft(
        position=record.position,
        event=event,
        source_file=file,
        source_offset=offset,
        occurrence=occurrence,
        delivery=str(fact.part.value),
        told=line.told,
        copy_of=line.copy_of,
        copy_line=line.copy_line,
    )


def _identity(agent: str, line: _Line, fact: claude_hooks.Fact) -> tuple[str, str | None]:
    """Return (event id, None), or ("", occurrence key) for a fact that carries no id."""
    session_id = line.session_id
    if fact.key and fact.kind is Kind.TOOL:
        return ids.tool_event_id(agent, session_id, fact.key), None
    if fact.key and fact.kind in (
        Kind.PROMPT,
        Kind.NOTE,
    ):  # a note in a prompt's place: its tools name it as parent
        return _prompt_event_id(agent, session_id, fact.key), None
    if fact.key and fact.kind is Kind.SESSION_START:
        return ids.session_event_id(agent, session_id), None
    if fact.kind is Kind.RESPONSE and line.turn_id:
        # sub-agents of one turn may say the same; a log has blanks around a text that a hook does not tell
        turn = f"{line.turn_id}\n{line.agent_id}" if line.agent_id else line.turn_id
        return ids.response_event_id(agent, session_id, turn, fact.content.strip()), None
    text_hash = ids.content_hash(fact.identity.strip() if fact.kind is Kind.RESPONSE else fact.identity)
    return "", ids.occurrence_key(agent, session_id, line.agent_id or "", fact.kind.value, text_hash)


def _parent(agent: str, session_id: str, turn_id: str | None, kind: Kind) -> str | None:
    """Return the prompt of a tool or response whose turn is named; the others are linked by their session."""
    if turn_id is None or kind not in (Kind.TOOL, Kind.RESPONSE):
        return None
    return _prompt_event_id(agent, session_id, turn_id)


def _time(record: Envelope, line: _Line, fact: claude_hooks.Fact) -> tuple[datetime, str, dict[str, Any]]:
    """Return when it happened, who told, and what was told when that cannot be.

    A hook's payload has no time but that of its receipt.
    """
    if line.timestamp is None:
        told_by = record.source.time if record.source is not None and record.source.time else "hook"
        return from_ns(record.received_at_ns), told_by, {}
    told = fact.at or line.timestamp
    at = told_time(told, record.received_at_ns)
    if at is not None:
        return at, "transcript", {}
    return from_ns(record.received_at_ns), "received", {"time_told": told[:64]} if told else {}


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


_READERS = {
    **dict.fromkeys(HOOK_FORMATS, _from_hook),
    TRANSCRIPT_FORMAT: _from_transcript,
    ROLLOUT_FORMAT: _from_rollout,
}
