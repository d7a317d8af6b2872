"""Expansion rules: which results of a search are shown with their timeline or whole, and why. Frames in, no reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from headwater.schemas.answers import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headwater.query.asked import Days
    from headwater.schemas.answers import IndexItem
    from headwater.schemas.config import AutoExpandConfig

WINNER = 0.85  # a first result from here on is shown whole when no other comes near it, and so is what was asked for
RIVAL = 0.8  # three from here on are as good as each other: what surrounds them tells them apart
RIVALS = 3
SUGGESTED = 0.75  # from here on a result is worth a hint

HINT = 'Use "show {id}" to see details'
HINT_MANY = 'Multiple matches found. Use "show {id}" for specific details'

_SCHEMA: dict[str, Any] = {
    "id": pl.String,
    "score": pl.Float64,
    "at": pl.Datetime("us", "UTC"),
    "is_mapped": pl.Boolean,
}


@dataclass(frozen=True, slots=True)
class Decision:
    """What to show beside the index: ids whose timeline, ids that are shown whole, best first, and why.

    `days`: the timeline is that of these days, whose results are its targets; there may be none.
    """

    reason: str
    timeline: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    days: Days | None = None


def score_frame(items: Iterable[IndexItem], *, is_mapped: bool) -> pl.DataFrame:
    """Return `id, score, at, is_mapped` of a search's rows, in their order.

    `is_mapped` is about rows of events; the score of a summary (a memory, a session) is never mapped: it only places
    the summary among the events, so it neither wins by it nor stands in an event's way.
    """
    rows = [(item.id, item.score, item.at, is_mapped and item.id.startswith("evt_")) for item in items]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def decide(rows: pl.DataFrame, config: AutoExpandConfig, min_score: float) -> Decision:
    """Return what the scores alone say of `rows` (see `score_frame`), best first.

    Rows below `min_score` count as not found, rows whose score is not mapped expand nothing. In this order: exactly one
    row from the high threshold on; a clear winner; three that are as good as each other; a first one from the high
    threshold on; one that is worth a hint; nothing.
    """
    found = rows.filter(pl.col("score") >= min_score)
    if found.is_empty():
        return Decision(Reason.NO_RESULTS if rows.is_empty() else Reason.LOW_CONFIDENCE)
    sure = found.filter("is_mapped")
    most = config.max_auto_expand_count
    if sure.is_empty() or not most:
        return Decision(_without(found))
    first, *others = sure.get_column("score").to_list()
    top = tuple(sure.get_column("id").head(1).to_list())
    is_high = first >= config.high_confidence_threshold
    if is_high and not others:
        return Decision(Reason.HIGH_CONFIDENCE_SINGLE, top, top)
    if others and first >= WINNER and _gap(first, others[0]) >= config.score_gap_threshold:
        return Decision(Reason.CLEAR_WINNER, top, top)
    rivals = sure.filter(pl.col("score") >= RIVAL)
    if rivals.height >= RIVALS:
        ids = tuple(sure.get_column("id").head(min(RIVALS, most)).to_list())
        return Decision(Reason.AMBIGUOUS_MULTIPLE_HIGH, ids)
    if is_high:
        return Decision(Reason.HIGH_CONFIDENCE, top, top)
    return Decision(_without(found))


def on_request(rows: pl.DataFrame, most: int, min_score: float) -> Decision:
    """Return what a person who asks for detail is shown whole: the first result, and others that are as sure."""
    found = rows.filter(pl.col("score") >= min_score)
    if found.is_empty():
        return Decision(Reason.NO_RESULTS if rows.is_empty() else Reason.LOW_CONFIDENCE)
    sure = pl.col("is_mapped") & (pl.col("score") >= WINNER)
    kept = found.with_row_index("place").filter((pl.col("place") == 0) | sure).head(max(most, 1))
    ids = tuple(kept.get_column("id").to_list())
    return Decision(Reason.USER_REQUEST, ids[:1], ids)


def on_days(rows: pl.DataFrame, days: Days, decided: Decision, most: int) -> Decision:
    """Return the timeline of some days, with the results that fall into them; whole is what was decided, if it does."""
    inside = rows.filter((pl.col("at") >= days.since) & (pl.col("at") < days.until))
    ids: list[str] = inside.get_column("id").to_list()
    whole = tuple(one for one in decided.details if one in ids)
    return Decision(Reason.TEMPORAL_PROXIMITY, tuple(ids[: max(most, 1)]), whole, days)


def suggested(rows: pl.DataFrame, decision: Decision, config: AutoExpandConfig) -> tuple[str, ...]:
    """Return the ids that are worth a hint: from SUGGESTED to the high threshold, and not expanded."""
    expanded = [*decision.details, *decision.timeline]
    worth = pl.col("score").is_between(SUGGESTED, config.high_confidence_threshold, closed="left")
    ids = rows.filter(worth & ~pl.col("id").is_in(expanded)).get_column("id").to_list()
    return tuple(ids)


def hint(decision: Decision, shown: Sequence[str], expanded: int) -> str:
    """Return the next step, "" when there is none: after an index alone, and after several that are as good."""
    if decision.reason == Reason.AMBIGUOUS_MULTIPLE_HIGH:
        return HINT_MANY.format(id="ID")
    return HINT.format(id="ID") if shown and not expanded else ""


def _without(found: pl.DataFrame) -> str:
    best = found.get_column("score").max()
    return Reason.SUGGESTED if isinstance(best, float) and best >= SUGGESTED else Reason.LOW_CONFIDENCE


def _gap(first: float, second: float) -> float:
    return round(first - second, 6)  # 0.95 - 0.85 is a little less than 0.1
