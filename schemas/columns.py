"""Table columns, defined once: Arrow, Lance and polars read them from here, and so does `docs/tables.md`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.schemas.clock import from_ns, to_ns
from headwater.schemas.events import Event, FileOp, FileRef, Kind, Part, ToolCall
from headwater.schemas.text import cjk_runs, clean_text, code_words

if TYPE_CHECKING:
    from collections.abc import Iterable

TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its Arrow type, whether it may be null, and what it means (with its unit)."""

    name: str
    dtype: pa.DataType
    meaning: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class TableDef:
    """One table: `key` is its primary key, the first column; `scalar` are indexed for filters, `text` for words."""

    name: str
    columns: tuple[Column, ...]
    key: str = "id"
    scalar: tuple[tuple[str, str], ...] = ()  # (column, "BTREE" | "BITMAP")
    text: tuple[tuple[str, str], ...] = ()  # (column, tokenizer)

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema, columns in order."""
        return pa.schema([pa.field(c.name, c.dtype, nullable=c.nullable) for c in self.columns])


_FILES = pa.list_(pa.struct([pa.field("path", pa.string()), pa.field("op", pa.string())]))
_TOOL = pa.struct(
    [
        pa.field("name", pa.string()),
        pa.field("use_id", pa.string()),
        pa.field("ok", pa.bool_()),
        pa.field("error", pa.string()),
        pa.field("duration_ms", pa.int64()),
    ]
)

EVENTS = TableDef(
    "events",
    (
        Column("id", pa.string(), "derived id, evt_ and 12 characters", nullable=False),
        Column("agent", pa.string(), "which agent: claude-code, codex", nullable=False),
        Column("host", pa.string(), "machine name"),
        Column("session_id", pa.string(), "the agent's session", nullable=False),
        Column("prev_session_id", pa.string(), "the session that this one goes on from"),
        Column("turn_id", pa.string(), "the prompt's id, shared by its tools and response"),
        Column("agent_id", pa.string(), "the sub-agent, null on the main thread"),
        Column("project", pa.string(), "work tree root, or the folder", nullable=False),
        Column("cwd", pa.string(), "folder at that moment"),
        Column("at", TIME, "when, UTC", nullable=False),
        Column("at_source", pa.string(), "who told the time: hook, transcript, received, synthetic"),
        Column(
            "seq", pa.int64(), "position in its source, bytes; breaks ties of equal times", nullable=False
        ),
        Column(
            "kind",
            pa.string(),
            "prompt, response, tool, insight, session_start, session_end, compact, note",
            nullable=False,
        ),
        Column("role", pa.string(), "raw event name, with source, reason or trigger"),
        Column("content", pa.string(), "text, redacted and clipped; indexed as prose", nullable=False),
        Column("code", pa.string(), "identifiers and paths of the text; indexed as code"),
        Column("cjk", pa.string(), "runs of Hangul, Kana and Han; indexed as 2-3-grams"),
        Column("content_length", pa.int64(), "characters before clipping"),
        Column("content_hash", pa.string(), "64 bits of SHA-256 of content, hex"),
        Column("tool", _TOOL, "the call: ok is null while open or unknown"),
        Column("files", _FILES, "files touched, relative to the project"),
        Column("entities", pa.list_(pa.string()), "named things in the text"),
        Column("topics", pa.list_(pa.string()), "key phrases of the text"),
        Column("parent_id", pa.string(), "the prompt of a tool or response"),
        Column(
            "parts", pa.int32(), "bit set of deliveries merged: 1 announced, 2 hook, 4 transcript, 8 its call"
        ),
        Column("meta", pa.string(), "JSON object: model, mode, what else came along"),
    ),
    scalar=(("id", "BTREE"), ("session_id", "BTREE"), ("project", "BITMAP"), ("kind", "BITMAP")),
    text=(("content", "icu/split"), ("code", "code"), ("cjk", "ngram")),
)


def vectors_def(dim: int) -> TableDef:
    """Return the definition of a vector table for `dim` numbers a vector; one table per item kind and version."""
    return TableDef(
        "vectors",
        (
            Column("id", pa.string(), "kind:item#chunk", nullable=False),
            Column(
                "vector",
                pa.list_(pa.float32(), dim),
                "unit length, so that dot product is cosine",
                nullable=False,
            ),
            Column("content", pa.string(), "the chunk's text"),
            Column("item_kind", pa.string(), "entry, session_summary, memory, task_title", nullable=False),
            Column("item_id", pa.string(), "the item", nullable=False),
            Column("chunk_n", pa.int32(), "number of the chunk from 0", nullable=False),
            Column("content_hash", pa.string(), "of the item's text when it was embedded", nullable=False),
            Column("embedding_version", pa.string(), "slug-dim-hash", nullable=False),
            Column("project", pa.string(), "for filters before top-k", nullable=False),
            Column("session_id", pa.string(), "for filters before top-k"),
            Column("agent", pa.string(), "for filters before top-k"),
            Column("kind", pa.string(), "event kind, for filters before top-k"),
            Column("at", TIME, "when the item happened, UTC", nullable=False),
            Column("indexed_at", TIME, "when the vector was written, UTC", nullable=False),
        ),
        scalar=(("item_id", "BTREE"), ("session_id", "BTREE"), ("project", "BITMAP"), ("kind", "BITMAP")),
    )


def events_to_arrow(events: Iterable[Event]) -> pa.Table:
    """Return events as rows of `EVENTS`, in the given order."""
    return pa.Table.from_pylist([event_to_row(event) for event in events], schema=EVENTS.arrow())


def event_to_row(event: Event) -> dict[str, Any]:
    """Return one event as a row of `EVENTS`."""
    return {**_fields(event), "code": code_words(event.content), "cjk": cjk_runs(event.content)}


def event_to_plain(event: Event) -> dict[str, Any]:
    """Return one event as plain data for a snapshot, its time in nanoseconds."""
    return {**_fields(event), "at": to_ns(event.at)}


def event_from_plain(data: dict[str, Any]) -> Event:
    """Return the event of plain data; the inverse of `event_to_plain`."""
    return event_from_row({**data, "at": from_ns(data["at"])})


def _fields(event: Event) -> dict[str, Any]:
    tool = event.tool
    return {
        "id": event.id,
        "agent": event.agent,
        "host": event.host,
        "session_id": event.session_id,
        "prev_session_id": event.prev_session_id,
        "turn_id": event.turn_id,
        "agent_id": event.agent_id,
        "project": event.project,
        "cwd": event.cwd,
        "at": event.at,
        "at_source": event.at_source,
        "seq": event.seq,
        "kind": event.kind.value,
        "role": event.role,
        "content": event.content,
        "content_length": event.content_length,
        "content_hash": event.content_hash,
        "tool": None
        if tool is None
        else {
            "name": tool.name,
            "use_id": tool.use_id,
            "ok": tool.ok,
            "error": tool.error,
            "duration_ms": tool.duration_ms,
        },
        "files": [{"path": ref.path, "op": ref.op.value} for ref in event.files],
        "entities": list(event.entities),
        "topics": list(event.topics),
        "parent_id": event.parent_id,
        "parts": int(event.parts),
        "meta": clean_text(json.dumps(event.meta, ensure_ascii=False, sort_keys=True))
        if event.meta
        else None,
    }


def event_from_row(row: dict[str, Any]) -> Event:
    """Return the event of one row of `EVENTS`; the inverse of `event_to_row`."""
    tool = row["tool"]
    return Event(
        id=row["id"],
        agent=row["agent"],
        host=row["host"] or "",
        session_id=row["session_id"],
        prev_session_id=row["prev_session_id"],
        turn_id=row["turn_id"],
        agent_id=row["agent_id"],
        project=row["project"],
        cwd=row["cwd"],
        at=row["at"],
        at_source=row["at_source"] or "hook",
        seq=row["seq"],
        kind=Kind(row["kind"]),
        role=row["role"],
        content=row["content"],
        content_length=row["content_length"] or 0,
        content_hash=row["content_hash"] or "",
        tool=None if tool is None or tool["name"] is None else ToolCall(**tool),
        files=tuple(FileRef(ref["path"], FileOp(ref["op"])) for ref in row["files"] or ()),
        entities=tuple(row["entities"] or ()),
        topics=tuple(row["topics"] or ()),
        parent_id=row["parent_id"],
        parts=Part(row["parts"] or 0),
        meta=json.loads(row["meta"]) if row["meta"] else {},
    )
