"""Answers as JSON-ready values, and as text for a terminal of 80 columns. Nothing is printed here."""

from __future__ import annotations

import textwrap
import unicodedata
from typing import TYPE_CHECKING, Any

from headwater.schemas.clock import iso, local

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headwater.schemas.answers import Detail, IndexItem, SearchAnswer, SearchMeta, TimelineItem

COLUMNS = 80
_INDENT = "    "
_WIDE = frozenset("WF")


def answer_json(answer: SearchAnswer) -> dict[str, Any]:
    """Return a search's answer; `timeline` and `details` are None where it was not expanded."""
    return {
        "index": [index_json(item) for item in answer.index],
        "timeline": None if answer.timeline is None else [timeline_json(item) for item in answer.timeline],
        "details": None if answer.details is None else [detail_json(item) for item in answer.details],
        "meta": meta_json(answer.meta),
    }


def index_json(item: IndexItem) -> dict[str, Any]:
    """Return a row of layer 1; times are ISO 8601 in UTC."""
    return {
        "id": item.id,
        "summary": item.summary,
        "score": item.score,
        "kind": item.kind,
        "at": iso(item.at),
        "session_id": item.session_id,
        "project": item.project,
        "folded": item.folded,
        "superseded_by": item.superseded_by,
    }


def timeline_json(item: TimelineItem) -> dict[str, Any]:
    """Return a row of layer 2; times are ISO 8601 in UTC."""
    return {
        "id": item.id,
        "at": iso(item.at),
        "kind": item.kind,
        "preview": item.preview,
        "is_target": item.is_target,
        "session_id": item.session_id,
    }


def detail_json(item: Detail) -> dict[str, Any]:
    """Return a row of layer 3; times are ISO 8601 in UTC."""
    return {
        "id": item.id,
        "content": item.content,
        "kind": item.kind,
        "at": iso(item.at),
        "session_id": item.session_id,
        "metadata": {
            "token_count": item.metadata.token_count,
            "has_code": item.metadata.has_code,
            "files": list(item.metadata.files),
            "tools": list(item.metadata.tools),
        },
        "relations": {
            "parent_id": item.relations.parent_id,
            "child_ids": list(item.relations.child_ids),
            "related_ids": list(item.relations.related_ids),
        },
    }


def meta_json(meta: SearchMeta) -> dict[str, Any]:
    """Return how an answer came about."""
    return {
        "total_matches": meta.total_matches,
        "expanded_count": meta.expanded_count,
        "estimated_tokens": meta.estimated_tokens,
        "expansion_reason": meta.expansion_reason,
        "suggested": list(meta.suggested),
        "hint": meta.hint,
        "left_out": list(meta.left_out),
        "left_out_more": meta.left_out_more,
    }


def index_text(items: Sequence[IndexItem], min_score: float = 0.0) -> str:
    """Return layer 1: two lines or three per item; the day is enough, a timeline has the time."""
    blocks = []
    for item in items:
        weak = " weak" if item.score < min_score else ""
        head = f"{item.name} {item.score:.2f} {local(item.at):%Y-%m-%d} {item.kind}{weak}"
        notes = [f"also {item.folded} times much the same"] if item.folded else []
        notes += [f"superseded by {item.superseded_by}"] if item.superseded_by else []
        blocks.append("\n".join([head, *wrap(item.summary, _INDENT), *(_INDENT + note for note in notes)]))
    return "\n".join(blocks)


def timeline_text(items: Sequence[TimelineItem]) -> str:
    """Return layer 2, targets marked by `>`, a heading per session when it changes."""
    lines: list[str] = []
    session = None
    for item in items:
        if item.session_id != session:
            session = item.session_id
            lines.append(f"Session {session}")
        mark = ">" if item.is_target else " "
        lines.append(f"{mark} {local(item.at):%Y-%m-%d %H:%M:%S}  {item.kind:<8}  {item.id}")
        lines.extend(wrap(item.preview, _INDENT))
    return "\n".join(lines)


def details_text(items: Iterable[Detail]) -> str:
    """Return layer 3: a heading per item, then its whole text as it is."""
    return "\n\n".join(_detail_text(item) for item in items)


def _detail_text(item: Detail) -> str:
    lines = [
        f"{item.id}  {item.kind}  {local(item.at):%Y-%m-%d %H:%M:%S}  about {item.metadata.token_count} tokens"
    ]
    facts = (
        ("session", item.session_id),
        ("project", item.project),
        ("files", ", ".join(item.metadata.files)),
        ("tools", ", ".join(item.metadata.tools)),
        ("parent", item.relations.parent_id or ""),
        ("children", ", ".join(item.relations.child_ids)),
        ("related", ", ".join(item.relations.related_ids)),
    )
    for name, value in facts:
        if value:
            lines.extend(
                textwrap.wrap(f"{name}: {value}", COLUMNS, subsequent_indent=_INDENT, break_on_hyphens=False)
            )
    return "\n".join([*lines, "", item.content or "(no text)"])


def width(text: str) -> int:
    """Return how many columns a text takes: wide characters two, combining ones none."""
    return sum(
        2 if unicodedata.east_asian_width(char) in _WIDE else int(not unicodedata.combining(char))
        for char in text
    )


def wrap(text: str, indent: str, columns: int = COLUMNS) -> list[str]:
    """Return the text as indented lines of at most `columns` columns, broken at spaces, else anywhere."""
    room = columns - len(indent)
    lines, line = [], ""
    for word in text.split():
        if line and width(line) + 1 + width(word) <= room:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        line = word
        while width(line) > room:
            end = _fitting(line, room)
            lines.append(line[:end])
            line = line[end:]
    return [indent + part for part in (*lines, line) if part]


def _fitting(text: str, room: int) -> int:
    taken = 0
    for place, char in enumerate(text):
        taken += width(char)
        if taken > room:
            return max(place, 1)
    return len(text)
