"""The text of an answer in one style: for a terminal, as Markdown, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headwater.query import format as terminal
from headwater.query import markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headwater.schemas.answers import Detail, IndexItem, SearchAnswer, SearchMeta, TimelineItem

Style = Literal["terminal", "markdown", "json"]


@dataclass(frozen=True, slots=True)
class ContextFormatter:
    """Formats answers in one style. The same answer gives the same text, but for the zone that times are shown in."""

    style: Style = "terminal"

    def answer(self, answer: SearchAnswer) -> str:
        """Return a whole answer: index, timeline, details, what was left out, the next step, and its size."""
        meta = answer.meta
        if self.style == "json":
            return json.dumps(terminal.answer_json(answer), ensure_ascii=False)
        parts = []
        if answer.index or self.style == "markdown":
            parts.append(self.index(answer.index, meta.min_score, meta.total_matches))
        elif not (answer.timeline or answer.details or meta.left_out or meta.left_out_more):
            return "Nothing found."
        if meta.hint:
            parts.append(f"*{meta.hint}*" if self.style == "markdown" else meta.hint)
        if answer.timeline is not None:
            title = "Timeline\n" if self.style == "terminal" else ""
            parts.append(title + self.timeline(answer.timeline))
        if answer.details is not None:
            parts.append(self.details(answer.details))
        if left := left_out_line(meta):
            parts.append(left)
        parts.append(_foot(answer))
        return "\n\n".join(parts)

    def index(self, items: Sequence[IndexItem], min_score: float = 0.0, matches: int | None = None) -> str:
        """Return layer 1."""
        if self.style == "json":
            return json.dumps([terminal.index_json(item) for item in items], ensure_ascii=False)
        if self.style == "markdown":
            return markdown.index_markdown(items, len(items) if matches is None else matches, min_score)
        return terminal.index_text(items, min_score)

    def timeline(self, items: Sequence[TimelineItem]) -> str:
        """Return layer 2."""
        if self.style == "json":
            return json.dumps([terminal.timeline_json(item) for item in items], ensure_ascii=False)
        is_markdown = self.style == "markdown"
        return markdown.timeline_markdown(items) if is_markdown else terminal.timeline_text(items)

    def details(self, items: Iterable[Detail]) -> str:
        """Return layer 3."""
        if self.style == "json":
            return json.dumps([terminal.detail_json(item) for item in items], ensure_ascii=False)
        is_markdown = self.style == "markdown"
        return markdown.details_markdown(items) if is_markdown else terminal.details_text(items)


def left_out_line(meta: SearchMeta) -> str:
    """Return what found no room, "" when all did."""
    if not meta.left_out and not meta.left_out_more:
        return ""
    if not meta.left_out:
        return f"Left out, for want of room: {meta.left_out_more}"
    more = f" and {meta.left_out_more} more" if meta.left_out_more else ""
    return "\n".join(terminal.wrap(f"Left out, for want of room: {', '.join(meta.left_out)}{more}", ""))


def _foot(answer: SearchAnswer) -> str:
    meta = answer.meta
    matches = "match" if meta.total_matches == 1 else "matches"
    why = f", {meta.expansion_reason}" if answer.timeline or answer.details else ""
    return f"{len(answer.index)} of {meta.total_matches} {matches}, about {meta.estimated_tokens} tokens{why}"
