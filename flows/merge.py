"""Several deliveries of one fact become one event: fields by fixed precedence, never by arrival.

`merge` is commutative and idempotent, and associative over the deliveries of one fact, where a source tells a field
alike before and after, or only after: a property test holds it to that.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.schemas.events import Event, Part, ToolCall

# who tells a field best, best first: an announced call knows its input only; hooks carry the fullest text, transcripts
# the agent's own time
_CONTENT = (Part.HOOK, Part.TRANSCRIPT, Part.HOOK_BEFORE, Part.TRANSCRIPT_BEFORE)
_TIME = (Part.TRANSCRIPT, Part.HOOK, Part.TRANSCRIPT_BEFORE, Part.HOOK_BEFORE)


def merge(one: Event, two: Event) -> Event:
    """Return the event that both deliveries of a fact (same id) make together."""
    content = _best(one, two, _CONTENT)
    time = _best(one, two, _TIME)
    other = two if content is one else one
    return replace(
        content,
        at=time.at,
        at_source=time.at_source,
        seq=time.seq,
        host=content.host or other.host,
        prev_session_id=content.prev_session_id or other.prev_session_id,
        turn_id=content.turn_id or other.turn_id,
        agent_id=content.agent_id or other.agent_id,
        project=content.project or other.project,
        cwd=content.cwd or other.cwd,
        parent_id=content.parent_id or other.parent_id,
        tool=_tool(content.tool, other.tool),
        files=content.files or other.files,
        entities=content.entities or other.entities,
        topics=content.topics or other.topics,
        content=content.content or other.content,
        content_hash=content.content_hash if content.content else other.content_hash,
        content_length=content.content_length if content.content else other.content_length,
        parts=one.parts | two.parts,
        meta={**other.meta, **content.meta},
    )


def _best(one: Event, two: Event, order: tuple[Part, ...]) -> Event:
    """Return the event whose best delivery stands first in `order`; of two equal ones, the earlier, then smaller text.

    Two deliveries of the same rank are told apart by all they hold, so that which of them came first never matters.
    """
    rank_one, rank_two = _rank(one.parts, order), _rank(two.parts, order)
    if rank_one != rank_two:
        return one if rank_one < rank_two else two
    return min(one, two, key=lambda event: (event.at, event.seq, event.content, repr(event)))


def _rank(parts: Part, order: tuple[Part, ...]) -> int:
    return next((n for n, part in enumerate(order) if part in parts), len(order))


def _tool(best: ToolCall | None, other: ToolCall | None) -> ToolCall | None:
    if best is None or other is None:
        return best or other
    return ToolCall(
        name=best.name if best.name != "unknown" else other.name,
        use_id=best.use_id or other.use_id,
        ok=best.ok if best.ok is not None else other.ok,
        error=best.error or other.error,
        duration_ms=best.duration_ms if best.duration_ms is not None else other.duration_ms,
    )
