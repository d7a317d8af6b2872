"""Working set, memories and continuity as JSON-ready values, and as text for a terminal of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.query.format import COLUMNS, wrap
from headwater.schemas.clock import iso, local

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from headwater.query.continuity import CurrentContinuity, LogRow
    from headwater.query.memories import Memory, Reversal
    from headwater.query.working_set import WorkingSet
    from headwater.storage.usage import Access

_INDENT = "    "


def working_set_json(
    found: WorkingSet, summaries: Mapping[str, str], continuity: CurrentContinuity
) -> dict[str, Any]:
    """Return the working set; `id` is the event's, `summary` one line of its text."""
    return {
        "events": [
            {
                "id": one.event_id,
                "relevance": round(one.relevance, 4),
                "expires_at": iso(one.expires_at),
                "kind": one.kind,
                "summary": summaries.get(one.event_id, ""),
                "at": iso(one.at),
                "project": one.project,
            }
            for one in found.members
        ],
        "topics": list(found.topics),
        "files": list(found.files),
        "entities": list(found.entities),
        "last_activity": _time(found.last_activity),
        "continuity": continuity_json(continuity),
    }


def continuity_json(continuity: CurrentContinuity) -> dict[str, Any] | None:
    """Return score (null: unknown) and type of the last transition, None without any transition."""
    if continuity.type is None:
        return None
    return {"score": _rounded(continuity.score), "type": continuity.type}


def memory_json(
    memory: Memory, access: Access | None, reversals: Sequence[Reversal], llm_summary: str | None = None
) -> dict[str, Any]:
    """Return a memory with its use and what it reversed or was reversed by; `score` only when it was searched for."""
    row: dict[str, Any] = {
        "id": memory.id,
        "summary": memory.summary,
        "topics": list(memory.topics),
        "source_events": list(memory.source_events),
        "confidence": round(memory.confidence, 4),
        "count": memory.count,
        "superseded_by": memory.superseded_by,
        "created_at": iso(memory.created_at),
        "accessed_at": _time(access.accessed_at if access else None),
        "access_count": access.access_count if access else 0,
        "llm_summary": llm_summary,
        "first_at": iso(memory.first_at),
        "last_at": iso(memory.last_at),
        "project": memory.project,
        "reversals": [
            reversal_json(one) for one in reversals if memory.id in (one.old_memory, one.new_memory)
        ],
    }
    return row if memory.score is None else row | {"score": memory.score}


def reversal_json(reversal: Reversal) -> dict[str, Any]:
    """Return which prompt, in which memory, reverses which."""
    return {
        "old_memory": reversal.old_memory,
        "new_memory": reversal.new_memory,
        "old_event": reversal.old_event,
        "new_event": reversal.new_event,
        "shared": list(reversal.shared),
        "strength": round(reversal.strength, 4),
        "at": iso(reversal.at),
    }


def log_row_json(row: LogRow) -> dict[str, Any]:
    """Return a row of the continuity log; a part is null where it was left out."""
    return {
        "id": row.id,
        "from": row.from_context,
        "to": row.to_context,
        "score": round(row.score, 4),
        "parts": {
            "topics": _rounded(row.topics),
            "files": _rounded(row.files),
            "time": _rounded(row.time),
            "entities": _rounded(row.entities),
        },
        "type": row.type,
        "score_type": row.score_type,
        "at": iso(row.at),
        "project": row.project,
    }


# --- text ---


def working_set_text(answer: Mapping[str, Any], found: WorkingSet, *, with_project: bool) -> str:
    """Return the working set for a person; times in the local zone."""
    if not found.members:
        return "Nothing is active."
    count = len(found.members)
    lines = [
        f"{count} {'event is' if count == 1 else 'events are'} active, {_continuity(answer['continuity'])}"
    ]
    for name in ("topics", "files", "entities"):
        lines += _listed(name, answer[name])
    lines.append("")
    for number, (row, one) in enumerate(zip(answer["events"], found.members, strict=True), start=1):
        lines.append(f"{number:3}. {one.relevance:.2f}  {one.kind:<8}  {_shown(one.at)}  {one.event_id}")
        lines += wrap(row["summary"], "     ")
        lines += wrap(one.project, "     ") if with_project else []
    return "\n".join(lines)


def memories_text(
    memories: Sequence[Memory],
    accesses: Mapping[str, Access],
    reversals: Sequence[Reversal],
    llm_summaries: Mapping[str, str],
    *,
    with_project: bool,
) -> str:
    """Return memories for a person: when, what, and what became of it."""
    if not memories:
        return "No memories."
    blocks = []
    for number, memory in enumerate(memories, start=1):
        sources = len(memory.source_events)
        head = f"{number:3}. {_shown(memory.last_at)}  {memory.id}  {sources} {'event' if sources == 1 else 'events'}"
        head += f", confidence {memory.confidence:.2f}"
        head += "" if memory.score is None else f", score {memory.score:.2f}"
        lines = [head]
        for line in memory.summary.split("\n"):
            lines += wrap(line, "     ")
        lines += (
            wrap(f"In a model's words: {llm_summaries[memory.id]}", "     ")
            if memory.id in llm_summaries
            else []
        )
        lines += wrap(_fate(memory, accesses.get(memory.id), reversals), "     ")
        lines += wrap(memory.project, "     ") if with_project else []
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _fate(memory: Memory, access: Access | None, reversals: Sequence[Reversal]) -> str:
    parts = [f"superseded by {memory.superseded_by}"] if memory.superseded_by else []
    reversed_ones = [one.old_memory for one in reversals if memory.id == one.new_memory != one.old_memory]
    parts += [f"reverses {', '.join(dict.fromkeys(reversed_ones))}"] if reversed_ones else []
    parts += [f"consolidated {memory.count} times"] if memory.count > 1 else []
    if access is not None:
        parts.append(f"read {access.access_count} {'time' if access.access_count == 1 else 'times'}")
    return "; ".join(parts)


def continuity_text(rows: Sequence[LogRow], continuity: CurrentContinuity, *, with_project: bool) -> str:
    """Return the log for a person, newest first: score, its parts, type."""
    if not rows:
        return "No turns in the continuity log."
    score = "unknown, no turn in it" if continuity.score is None else f"{continuity.score:.2f}"
    lines = [f"Score of the last hour: {score}", ""]
    lines.append(f"{'at':<16}  score  {'type':<12} topics  files   time  entities")
    for row in rows:
        parts = f"{_cell(row.topics):>6} {_cell(row.files):>6} {_cell(row.time):>6} {_cell(row.entities):>9}"
        lines.append(f"{_shown(row.at)}   {row.score:.2f}  {row.type:<12} {parts}")
        lines += wrap(row.project, _INDENT) if with_project else []
    return "\n".join(lines)


def status_text(status: Mapping[str, Any]) -> str:
    """Return `endless status` for a person."""
    last = status["last_consolidation"]
    facts = [
        ("Mode", status["mode"]),
        ("Working set", f"{status['working_set_size']} events within {status['working_set_hours']:g} hours"),
        ("Continuity", _continuity(status["continuity"]).removeprefix("continuity ")),
        ("Memories", str(status["memories"])),
        ("Last consolidation", "none yet" if last is None else last),
        ("Topics", ", ".join(status["topics"]) or "-"),
        ("Files", ", ".join(status["files"]) or "-"),
    ]
    lines: list[str] = []
    for name, value in facts:
        first, *more = wrap(value, " " * 20) or [" " * 20 + "-"]
        lines += [f"{name:<20}{first.strip()}", *more]
    return "\n".join(lines)


def _continuity(continuity: Mapping[str, Any] | None) -> str:
    if continuity is None:
        return "continuity unknown"
    score = "unknown" if continuity["score"] is None else f"{continuity['score']:.2f}"
    return f"continuity {score} ({continuity['type'].replace('_', ' ')})"


def _listed(name: str, values: Sequence[str]) -> list[str]:
    if not values:
        return []
    first, *more = wrap(", ".join(values), " " * 10, COLUMNS)
    return [f"{name:<10}{first.strip()}", *more]


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _shown(at: datetime) -> str:
    return f"{local(at):%Y-%m-%d %H:%M}"


def _time(at: datetime | None) -> str | None:
    return None if at is None else iso(at)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
