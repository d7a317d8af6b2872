"""Answers as Markdown: the layouts that agents are given, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.schemas.clock import local
from headwater.schemas.events import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headwater.schemas.answers import Detail, IndexItem, TimelineItem

_SAYS = {
    Kind.PROMPT.value: "User",
    Kind.RESPONSE.value: "Assistant",
    Kind.TOOL.value: "Tool",
    Kind.INSIGHT.value: "Memory",
}


def index_markdown(items: Sequence[IndexItem], matches: int, min_score: float = 0.0) -> str:
    """Return layer 1: a table of id, summary and score; rows below `min_score` are marked weak."""
    word = "match" if matches == 1 else "matches"
    lines = [f"## Related Memories ({matches} {word})", ""]
    if items:
        lines += ["| ID | Summary | Score |", "|----|---------|-------|"]
        lines += [_row(item, min_score) for item in items]
    return "\n".join(lines).rstrip()


def timeline_markdown(items: Sequence[TimelineItem]) -> str:
    """Return layer 2: a heading per session and day that names the targets, a line per item."""
    groups: dict[tuple[str, str], list[TimelineItem]] = {}
    for item in items:
        groups.setdefault((item.session_id, f"{local(item.at):%Y-%m-%d}"), []).append(item)
    parts = ["## Related Memories with Timeline"]
    for (_, day), inside in groups.items():
        targets = ", ".join(item.id for item in inside if item.is_target)
        heading = f"### Context around {targets} ({day})" if targets else f"### Context ({day})"
        parts.append("\n".join([heading, "", *(_timeline_line(item) for item in inside)]))
    return "\n\n".join(parts)


def details_markdown(items: Iterable[Detail]) -> str:
    """Return layer 3: each item whole, with its files and tools, and what it belongs to."""
    return "\n\n---\n\n".join(_detail(item) for item in items)


def _row(item: IndexItem, min_score: float) -> str:
    weak = " weak" if item.score < min_score else ""
    return f"| {_cell(item.name)} | {_cell(_noted(item))} | {item.score:.2f}{weak} |"


def _noted(item: IndexItem) -> str:
    text = item.summary
    if item.folded:
        text += f" (+{item.folded} alike)"
    return f"{text} (superseded by {item.superseded_by})" if item.superseded_by else text


def _timeline_line(item: TimelineItem) -> str:
    says = _SAYS.get(item.kind, item.kind.replace("_", " ").capitalize())
    time = f"{local(item.at):%H:%M}"
    if item.is_target:
        return f'{time} - **[{item.id}]** {says}: "{item.preview}"'
    return f'{time} - {says}: "{item.preview}" ({item.id})'


def _detail(item: Detail) -> str:
    known = item.metadata
    session = f"**Session**: {item.session_id} | " if item.session_id else ""
    lines = [
        f"## Memory Detail: {item.id}",
        "",
        f"{session}**Date**: {local(item.at):%Y-%m-%d %H:%M}",
        "",
        "### Content",
        item.content or "(no text)",
    ]
    facts = (
        ("Related Files", known.files),
        ("Tools Used", known.tools),
        ("Parent", (item.relations.parent_id,) if item.relations.parent_id else ()),
        ("Children", item.relations.child_ids),
        ("Related", item.relations.related_ids),
    )
    told = [f"**{name}**: {', '.join(values)}" for name, values in facts if values]
    return "\n".join([*lines, *(["", *told] if told else [])])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
