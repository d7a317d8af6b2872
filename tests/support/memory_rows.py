"""Rows of the tables of memory, written by hand: what the ingest flow writes, without the flow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.schemas.events import Kind
from headwater.schemas.ids import content_hash
from headwater.schemas.memory_columns import (
    CONTINUITY_LOG,
    EVENT_THREADS,
    MEMORIES,
    MEMORY_TABLES,
    REVERSALS,
    SESSIONS,
    WORKING_SET,
)
from headwater.schemas.relevance import KIND_VALUE, combine
from headwater.schemas.text import cjk_runs, code_words

if TYPE_CHECKING:
    from headwater.schemas.columns import TableDef
    from headwater.storage.tables import LanceStore

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
PROJECT = "/p/one"


def minutes(number: float) -> datetime:
    """Return the time so many minutes after the start."""
    return AT + timedelta(minutes=number)


class MemoryRows:
    """Writes rows into the tables of a folder; each call is one commit."""

    def __init__(self, lance: LanceStore) -> None:
        """Make all tables."""
        self._tables = {definition.name: lance.open(definition) for definition in MEMORY_TABLES}

    def member(
        self,
        name: str,
        minute: float = 0.0,
        *,
        kind: Kind = Kind.PROMPT,
        recency: float = 1.0,
        overlap: float | None = 1.0,
        hours: float = 24.0,
        **more: Any,
    ) -> None:
        """Add `evt_<name>` to the working set, added when it happened, to stay so many hours."""
        row = {
            "id": f"wse_{name}",
            "event_id": f"evt_{name}",
            "project": PROJECT,
            "session_id": "s1",
            "thread_id": "thr_a",
            "kind": kind.value,
            "at": minutes(minute),
            "added_at": minutes(minute),
            "relevance_score": combine(recency, overlap, KIND_VALUE[kind]),
            "recency": recency,
            "overlap": overlap,
            "kind_value": KIND_VALUE[kind],
            "topics": ["webhook retry"],
            "files": ["app/worker.py"],
            "entities": ["MAX_RETRIES"],
            "expires_at": minutes(minute + hours * 60),
            "left_at": None,
            "left_reason": None,
        }
        self._put(WORKING_SET, row | more)

    def memory(self, name: str, summary: str, minute: float = 0.0, **more: Any) -> None:
        """Add `mem_<name>`, its last event so many minutes after the start."""
        row = {
            "memory_id": f"mem_{name}",
            "project": PROJECT,
            "thread_id": "thr_a",
            "summary": summary,
            "code": code_words(summary),
            "cjk": cjk_runs(summary),
            "content_hash": content_hash(summary),
            "topics": ["webhook retry"],
            "source_events": [f"evt_{name}"],
            "confidence": 0.8,
            "created_at": minutes(minute + 1),
            "first_at": minutes(minute),
            "last_at": minutes(minute),
            "closed_by": "idle",
            "count": 1,
            "superseded_by": None,
        }
        self._put(MEMORIES, row | more)

    def reversal(self, name: str, old: str, new: str, minute: float = 0.0, **more: Any) -> None:
        """Say that `mem_<new>` reverses `mem_<old>`."""
        row = {
            "id": f"rev_{name}",
            "project": PROJECT,
            "old_memory": f"mem_{old}",
            "new_memory": f"mem_{new}",
            "old_event": f"evt_{old}",
            "new_event": f"evt_{new}",
            "shared": ["retry"],
            "strength": 0.9,
            "at": minutes(minute),
        }
        self._put(REVERSALS, row | more)

    def turn(self, name: str, score: float, minute: float = 0.0, **more: Any) -> None:
        """Add a turn to the continuity log."""
        row = {
            "log_id": f"log_{name}",
            "project": PROJECT,
            "session_id": "s1",
            "thread_id": "thr_a",
            "turn_event_id": f"evt_{name}",
            "from_context_id": "ctx_a",
            "to_context_id": "ctx_b",
            "continuity_score": score,
            "topics_score": score,
            "files_score": None,
            "time_score": 1.0,
            "entities_score": None,
            "transition_type": "seamless",
            "score_type": "topic_shift",
            "created_at": minutes(minute),
        }
        self._put(CONTINUITY_LOG, row | more)

    def session(self, name: str, summary: str, minute: float = 0.0, **more: Any) -> None:
        """Add the summary of a session that ended so many minutes after the start."""
        row = {
            "id": f"ses_{name}",
            "project": PROJECT,
            "agent": "claude-code",
            "session_id": name,
            "prev_session_id": None,
            "summary": summary,
            "code": code_words(summary),
            "cjk": cjk_runs(summary),
            "content_hash": content_hash(summary),
            "topics": ["webhook retry"],
            "first_at": minutes(minute - 30),
            "last_at": minutes(minute),
            "prompts": 3,
            "events": 9,
            "ended_by": "session_end",
        }
        self._put(SESSIONS, row | more)

    def threaded(self, event_id: str, thread_id: str, minute: float = 0.0, **more: Any) -> None:
        """Say that an event, so many minutes after the start, belongs to a thread."""
        row = {"event_id": event_id, "project": PROJECT, "thread_id": thread_id, "at": minutes(minute)}
        self._put(EVENT_THREADS, row | more)

    def _put(self, definition: TableDef, row: dict[str, Any]) -> None:
        self._tables[definition.name].upsert(pa.Table.from_pylist([row], schema=definition.arrow()))
