"""Columns of the tables that memory is made of: threads, sessions, working set, memories and the continuity log.

All of it is derived from the events of one project at a time, and each row says which project that is. What a person
did with a row (how often it was read) is not derived and lies in `usage.sqlite`.
"""

from __future__ import annotations

import pyarrow as pa

from headwater.schemas.columns import TIME, Column, TableDef

_TEXTS = pa.list_(pa.string())
_PROJECT = Column("project", pa.string(), "work tree root, or the folder", nullable=False)
_CODE = Column("code", pa.string(), "identifiers and paths of the summary; indexed as code")
_CJK = Column("cjk", pa.string(), "runs of Hangul, Kana and Han of the summary; indexed as 2-3-grams")
_WORDS = (("summary", "icu/split"), ("code", "code"), ("cjk", "ngram"))

THREADS = TableDef(
    "threads",
    (
        Column("thread_id", pa.string(), "derived id, thr_ and 12 characters", nullable=False),
        _PROJECT,
        Column("title", pa.string(), "start of its first prompt that says something", nullable=False),
        Column("topics", _TEXTS, "what most of its turns name"),
        Column("files", _TEXTS, "files that its turns touched, newest first"),
        Column("first_at", TIME, "its first turn, UTC", nullable=False),
        Column("last_at", TIME, "its last event, UTC", nullable=False),
        Column("turns", pa.int64(), "how many turns", nullable=False),
        Column("events", pa.int64(), "how many events", nullable=False),
    ),
    key="thread_id",
    scalar=(("project", "BITMAP"),),
)

EVENT_THREADS = TableDef(
    "event_threads",
    (
        Column("event_id", pa.string(), "the event", nullable=False),
        _PROJECT,
        Column("thread_id", pa.string(), "the one thread that it belongs to", nullable=False),
        Column("at", TIME, "when it happened, UTC", nullable=False),
    ),
    key="event_id",
    scalar=(("event_id", "BTREE"), ("thread_id", "BTREE"), ("project", "BITMAP")),
)

SESSIONS = TableDef(
    "sessions",
    (
        Column("id", pa.string(), "derived id, ses_ and 12 characters", nullable=False),
        _PROJECT,
        Column("agent", pa.string(), "which agent", nullable=False),
        Column("session_id", pa.string(), "the agent's session", nullable=False),
        Column("prev_session_id", pa.string(), "the session that this one goes on from"),
        Column(
            "summary",
            pa.string(),
            "what was asked, found, changed, left open; one row a session",
            nullable=False,
        ),
        _CODE,
        _CJK,
        Column("content_hash", pa.string(), "64 bits of SHA-256 of summary, hex", nullable=False),
        Column("topics", _TEXTS, "what most of its prompts and answers name"),
        Column("first_at", TIME, "its first event, UTC", nullable=False),
        Column("last_at", TIME, "its last event, UTC", nullable=False),
        Column("prompts", pa.int64(), "how many prompts", nullable=False),
        Column("events", pa.int64(), "how many events", nullable=False),
        Column("ended_by", pa.string(), "session_end, or idle: silent for long", nullable=False),
    ),
    scalar=(("project", "BITMAP"), ("session_id", "BTREE")),
    text=_WORDS,
)

WORKING_SET = TableDef(
    "working_set",
    (
        Column("id", pa.string(), "derived id, wse_ and 12 characters", nullable=False),
        Column("event_id", pa.string(), "the event", nullable=False),
        _PROJECT,
        Column("session_id", pa.string(), "the agent's session", nullable=False),
        Column("thread_id", pa.string(), "its thread", nullable=False),
        Column("kind", pa.string(), "event kind", nullable=False),
        Column("at", TIME, "when the event happened, UTC", nullable=False),
        Column("added_at", TIME, "when its turn was decided, UTC", nullable=False),
        Column(
            "relevance_score",
            pa.float64(),
            "in [0, 1], as of the project's last event; reads apply the present",
            nullable=False,
        ),
        Column("recency", pa.float64(), "part of relevance, in [0, 1]", nullable=False),
        Column("overlap", pa.float64(), "part of relevance, in [0, 1]; null: nothing to compare"),
        Column("kind_value", pa.float64(), "part of relevance, in [0, 1]", nullable=False),
        Column("topics", _TEXTS, "key phrases of the event"),
        Column("files", _TEXTS, "files of the event"),
        Column("entities", _TEXTS, "named things of the event"),
        Column(
            "expires_at", TIME, "24 hours after its thread or files were last touched, UTC", nullable=False
        ),
        Column("left_at", TIME, "when it left, UTC; null: it is in"),
        Column("left_reason", pa.string(), "expired, consolidated, crowded"),
    ),
    scalar=(("project", "BITMAP"),),
)

MEMORIES = TableDef(
    "memories",
    (
        Column("memory_id", pa.string(), "derived id, mem_ and 12 characters", nullable=False),
        _PROJECT,
        Column("thread_id", pa.string(), "the thread whose window it is", nullable=False),
        Column(
            "summary", pa.string(), "what was asked, found, changed, left open; extractive", nullable=False
        ),
        _CODE,
        _CJK,
        Column("content_hash", pa.string(), "64 bits of SHA-256 of summary, hex", nullable=False),
        Column("topics", _TEXTS, "what most of its prompts and answers name"),
        Column("source_events", _TEXTS, "the events that it is made of, each in this memory alone"),
        Column("confidence", pa.float64(), "in [0, 1]: number, closeness in time, coherence", nullable=False),
        Column("created_at", TIME, "when its window was closed, UTC", nullable=False),
        Column("first_at", TIME, "its first event, UTC", nullable=False),
        Column("last_at", TIME, "its last event, UTC", nullable=False),
        Column(
            "closed_by", pa.string(), "count, interval, idle, break, session_end, by_hand", nullable=False
        ),
        Column("count", pa.int64(), "how often the same was consolidated", nullable=False),
        Column("superseded_by", pa.string(), "the memory that says otherwise now"),
    ),
    key="memory_id",
    scalar=(("project", "BITMAP"),),
    text=_WORDS,
)

REVERSALS = TableDef(
    "reversals",
    (
        Column("id", pa.string(), "derived id, rev_ and 12 characters", nullable=False),
        _PROJECT,
        Column("old_memory", pa.string(), "the memory that holds what was said first", nullable=False),
        Column(
            "new_memory", pa.string(), "the one that holds what holds now; may be the same", nullable=False
        ),
        Column("old_event", pa.string(), "prompt of the turn that was reversed", nullable=False),
        Column("new_event", pa.string(), "prompt of the turn that reverses it", nullable=False),
        Column("shared", _TEXTS, "what both are about"),
        Column("strength", pa.float64(), "how sure; see flows/statements.py", nullable=False),
        Column("at", TIME, "when the newer memory was made, UTC", nullable=False),
    ),
    scalar=(("project", "BITMAP"),),
)

CONTINUITY_LOG = TableDef(
    "continuity_log",
    (
        Column("log_id", pa.string(), "derived id, log_ and 12 characters", nullable=False),
        _PROJECT,
        Column("session_id", pa.string(), "session of the turn", nullable=False),
        Column("thread_id", pa.string(), "thread of the turn", nullable=False),
        Column("turn_event_id", pa.string(), "first event of the turn", nullable=False),
        Column("from_context_id", pa.string(), "what went on before", nullable=False),
        Column("to_context_id", pa.string(), "what goes on with this turn", nullable=False),
        Column("continuity_score", pa.float64(), "in [0, 1]", nullable=False),
        Column("topics_score", pa.float64(), "part of the score; null: left out"),
        Column("files_score", pa.float64(), "part of the score; null: left out"),
        Column("time_score", pa.float64(), "part of the score", nullable=False),
        Column("entities_score", pa.float64(), "part of the score; null: left out"),
        Column(
            "transition_type",
            pa.string(),
            "seamless, topic_shift or break: by thread and pause",
            nullable=False,
        ),
        Column("score_type", pa.string(), "the same by the score alone", nullable=False),
        Column("created_at", TIME, "when the turn began, UTC", nullable=False),
    ),
    key="log_id",
    scalar=(("project", "BITMAP"),),
)

MEMORY_TABLES = (
    THREADS,
    EVENT_THREADS,
    SESSIONS,
    WORKING_SET,
    MEMORIES,
    REVERSALS,
    CONTINUITY_LOG,
)
