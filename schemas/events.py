"""Events: one thing that happened. Frozen values; how a payload becomes one is in `flows/`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import IntFlag, StrEnum
from typing import Any


class Kind(StrEnum):
    """What happened."""

    PROMPT = "prompt"
    RESPONSE = "response"
    TOOL = "tool"
    INSIGHT = "insight"
    SESSION_START = "session_start"
    SESSION_END = "session_end"
    COMPACT = "compact"
    NOTE = "note"


class ItemKind(StrEnum):
    """What gets a vector."""

    ENTRY = "entry"
    SESSION_SUMMARY = "session_summary"
    MEMORY = "memory"
    TASK_TITLE = "task_title"


class FileOp(StrEnum):
    """What was done to a file."""

    READ = "read"
    WRITE = "write"
    EDIT = "edit"
    DELETE = "delete"


class Part(IntFlag):
    """Which deliveries of a fact have been seen; the fields of an event merge by these, never by arrival.

    A second delivery of the same part is a duplicate, a delivery of a new part is merged.
    """

    NONE = 0
    HOOK_BEFORE = 1  # the call before it ran (PreToolUse, PreCompact)
    HOOK = 2  # the fact as the hook tells it
    TRANSCRIPT = 4  # the same fact in a transcript or rollout
    TRANSCRIPT_BEFORE = 8  # a call in a transcript, its result not yet seen


class Fate(StrEnum):
    """What became of one journal line; every line has exactly one."""

    EVENT = "event"
    DUPLICATE = "duplicate"
    MERGED = "merged"
    NOISE = "noise"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file that an event touched; the path is relative to the project when it lies inside it."""

    path: str
    op: FileOp


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call. `ok` is None while the call is open or when the agent does not say."""

    name: str
    use_id: str | None = None
    ok: bool | None = None
    error: str | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    `at` is aware UTC; `seq` is the position in its source (bytes), the tie-breaker among equal times; `content_length`
    is in characters before clipping; `parts` tells which deliveries have been merged into it. Sort order everywhere:
    (at, agent, session_id, seq, id).
    """

    id: str
    agent: str
    session_id: str
    project: str
    at: datetime
    kind: Kind
    content: str = ""
    host: str = ""
    prev_session_id: str | None = None
    turn_id: str | None = None
    agent_id: str | None = None
    cwd: str | None = None
    at_source: str = "hook"
    seq: int = 0
    role: str | None = None
    content_length: int = 0
    content_hash: str = ""
    tool: ToolCall | None = None
    files: tuple[FileRef, ...] = ()
    entities: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    parent_id: str | None = None
    parts: Part = Part.HOOK
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where a record stands in the journal: file name inside the journal folder, and byte offset."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class Source:
    """Where an imported record came from: the file it was read from, its offset (bytes) and its number there.

    `time` says who told the time when it was not the hook: "synthetic" for records that carry none.
    """

    file: str
    offset: int
    n: int
    time: str = ""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One journal line: what an agent sent, redacted and clipped, with when and where it was received."""

    position: Position
    id: str
    received_at_ns: int
    agent: str
    host: str
    project_dir: str
    project: str
    format: str
    source: Source | None
    payload: Any
    clipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A piece of journal that could not be used; data, not an exception."""

    position: Position
    reason: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Draft:
    """An event on its way: everything but the id of a fact that carries none.

    `occurrence` is None when `event.id` is final; else the id is derived from it and from the count of equal facts in
    `source_file` before this one. `delivery` tells a call's announcement from its result: each is counted apart.
    One journal line can hold several facts: `last` marks the last of them, with which the line gets its fate. `told`
    names the transcript line behind it, so that an importer need not bring it in again. `copy_of` and `copy_line`: the
    session, and the line of its log, that a fork copied this from.
    """

    position: Position
    event: Event
    source_file: str
    source_offset: int
    occurrence: str | None = None
    delivery: str = ""
    last: bool = True
    told: str = ""
    copy_of: str = ""
    copy_line: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A journal line without an event: noise, or quarantined with a reason."""

    position: Position
    fate: Fate
    reason: str
    excerpt: str = ""
