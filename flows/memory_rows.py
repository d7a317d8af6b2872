"""Derived things as rows of their tables, and the summaries among them as vector jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.schemas import ids
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobRequest
from headwater.schemas.memory_columns import MEMORIES, SESSIONS
from headwater.schemas.text import cjk_runs, code_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from headwater.flows.consolidate import Mark, Memory
    from headwater.flows.continuity import Transition
    from headwater.schemas.columns import TableDef

ITEM_KINDS = {MEMORIES.name: ItemKind.MEMORY, SESSIONS.name: ItemKind.SESSION_SUMMARY}


def with_words(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row that has a summary with the columns that are made of it."""
    summary = row["summary"]
    made = {
        "code": code_words(summary),
        "cjk": cjk_runs(summary),
        "content_hash": ids.content_hash(summary),
    }
    return {**row, **made}


def memory_row(memory: Memory) -> dict[str, Any]:
    """Return a row of `MEMORIES`."""
    return with_words(
        {
            "memory_id": memory.id,
            "project": memory.project,
            "thread_id": memory.thread_id,
            "summary": memory.summary,
            "topics": list(memory.topics),
            "source_events": list(memory.source_events),
            "confidence": memory.confidence,
            "created_at": memory.created_at,
            "first_at": memory.first_at,
            "last_at": memory.last_at,
            "closed_by": memory.trigger,
            "count": memory.count,
            "superseded_by": memory.superseded_by,
        }
    )


def reversal_row(mark: Mark, project: str, at: datetime) -> dict[str, Any]:
    """Return a row of `REVERSALS`."""
    return {
        "id": "rev_" + ids.digest("reversal", project, mark.old_event, mark.new_event),
        "project": project,
        "old_memory": mark.old_memory,
        "new_memory": mark.new_memory,
        "old_event": mark.old_event,
        "new_event": mark.new_event,
        "shared": list(mark.shared),
        "strength": mark.strength,
        "at": at,
    }


def transition_row(one: Transition, session_id: str) -> dict[str, Any]:
    """Return a row of `CONTINUITY_LOG`."""
    parts = one.continuity
    return {
        "log_id": one.id,
        "project": one.project,
        "session_id": session_id,
        "thread_id": one.thread_id,
        "turn_event_id": one.turn_event_id,
        "from_context_id": one.from_context_id,
        "to_context_id": one.to_context_id,
        "continuity_score": parts.score,
        "topics_score": parts.topics,
        "files_score": parts.files,
        "time_score": parts.time,
        "entities_score": parts.entities,
        "transition_type": one.type.value,
        "score_type": one.score_type.value,
        "created_at": one.at,
    }


def summary_requests(
    definition: TableDef, rows: Iterable[Mapping[str, Any]], embedding_version: str
) -> list[JobRequest]:
    """Return the vector jobs of rows that hold a summary; none for other tables."""
    kind = ITEM_KINDS.get(definition.name)
    if kind is None:
        return []
    return [
        JobRequest(kind, row[definition.key], embedding_version, row["content_hash"])
        for row in rows
        if row["summary"].strip()
    ]
