"""Answers of a search, put together from texts: with rows, a timeline and whole items, before any budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headwater.query.summary import preview, summary
from headwater.schemas.answers import (
    Detail,
    DetailMetadata,
    IndexItem,
    Reason,
    Relations,
    SearchAnswer,
    SearchMeta,
    TimelineItem,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
KINDS = ("prompt", "response", "tool", "insight")


def answer_of(texts: Sequence[str], details: int = 3, session: str = "s1", files: int = 0) -> SearchAnswer:
    """Return an answer with a row and a place in the timeline per text, the first ones whole."""
    ids = [f"evt_{n:012}" for n in range(len(texts))]
    times = [AT + timedelta(minutes=n) for n in range(len(texts))]
    kinds = [KINDS[n % len(KINDS)] for n in range(len(texts))]
    rows = tuple(
        IndexItem(
            id_,
            summary(text, label="event"),
            max(0.0, 0.95 - n / 50),
            kind,
            at,
            session,
            "/p",
            short=f"evt_{n:04}",
        )
        for n, (id_, text, kind, at) in enumerate(zip(ids, texts, kinds, times, strict=True))
    )
    places = tuple(
        TimelineItem(id_, at, kind, preview(text, label="event"), n == len(texts) // 2, session)
        for n, (id_, text, kind, at) in enumerate(zip(ids, texts, kinds, times, strict=True))
    )
    known = DetailMetadata(
        1, has_code=False, files=tuple(f"src/module_{n}.py" for n in range(files)), tools=("Bash",)
    )
    whole = tuple(
        Detail(id_, text, kind, at, session, "/p", known, Relations(ids[0], tuple(ids[:5]), tuple(ids[:2])))
        for id_, text, kind, at in zip(ids[:details], texts, kinds, times, strict=False)
    )
    meta = SearchMeta(
        len(texts), len(whole), 0, Reason.CLEAR_WINNER, hint='Use "show ID" to see details', min_score=0.7
    )
    return SearchAnswer(rows, places or None, whole or None, meta)
