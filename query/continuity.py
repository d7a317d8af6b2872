"""Continuity of a project as the log tells it: the score of the last hour, the last transition, the rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headwater.query.scope import both, time_literal, where
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.continuity import mean_score
from headwater.schemas.memory_columns import CONTINUITY_LOG

if TYPE_CHECKING:
    from datetime import datetime

    from headwater.query.stores import Stores
    from headwater.schemas.config import ContinuitySection

_COLUMNS = tuple(column.name for column in CONTINUITY_LOG.columns)


@dataclass(frozen=True, slots=True)
class LogRow:
    """One turn against what went on before it; a part is None when it was left out."""

    id: str
    project: str
    from_context: str
    to_context: str
    score: float
    topics: float | None
    files: float | None
    time: float
    entities: float | None
    type: str
    score_type: str
    at: datetime


@dataclass(frozen=True, slots=True)
class CurrentContinuity:
    """The mean score of the last hour (None: unknown), and the type of the last transition of all (None: none yet)."""

    score: float | None
    type: str | None
    at: datetime | None


class ContinuityManager:
    """Reads the continuity log; the ingest flow alone writes it, a row for each turn."""

    def __init__(self, stores: Stores, config: ContinuitySection) -> None:
        """Remember where to read, and what counts without a log."""
        self._stores = stores
        self._table = stores.table(CONTINUITY_LOG)
        self._config = config

    def current(self, scope: Scope, now: datetime) -> CurrentContinuity:
        """Return the score of the hour before a time, and the last transition up to it."""
        return self._up_to(scope, now)

    def as_of_last_event(self, scope: Scope) -> CurrentContinuity:
        """Return the same for the time of the last turn: it stays what it is as long as no event comes."""
        return self._up_to(scope, None)

    def since(self, scope: Scope, then: datetime | None = None) -> list[LogRow]:
        """Return the log from a time on, newest first, at most CONTINUITY_ROWS."""
        inside = None if then is None else f"created_at >= {time_literal(then)}"
        return self._rows(scope, inside, limits.CONTINUITY_ROWS)

    def _up_to(self, scope: Scope, now: datetime | None) -> CurrentContinuity:
        """Return the score of the hour before a time (None: the last turn), and the last transition up to it."""
        inside = None if now is None else f"created_at <= {time_literal(now)}"
        times = self._table.scan(["created_at"], both(where(scope.of_project()), inside))
        last: datetime | None = times.get_column("created_at").max() if times.height else None  # type: ignore[assignment]
        if last is None:
            return self._of_hour([], None)
        start = min(last, (now or last) - timedelta(seconds=limits.CONTINUITY_WINDOW_S))
        rows = self._rows(scope, both(inside, f"created_at >= {time_literal(start)}"), None)
        return self._of_hour(rows, now or last)

    def _of_hour(self, rows: list[LogRow], now: datetime | None) -> CurrentContinuity:
        start = None if now is None else now - timedelta(seconds=limits.CONTINUITY_WINDOW_S)
        score = mean_score(row.score for row in rows if start is not None and row.at > start)
        score = self._config.score_without_log if score is None else score
        last = rows[0] if rows else None
        return CurrentContinuity(score, last.type if last else None, last.at if last else None)

    def _rows(self, scope: Scope, inside: str | None, most: int | None) -> list[LogRow]:
        found = self._stores.renamed(
            self._table.scan(list(_COLUMNS), both(where(scope.of_project()), inside))
        )
        ordered = found.sort(["created_at", "log_id"], descending=[True, False])
        return [_row(row) for row in (ordered if most is None else ordered.head(most)).iter_rows(named=True)]


def _row(row: dict[str, Any]) -> LogRow:
    return LogRow(
        id=row["log_id"],
        project=row["project"],
        from_context=row["from_context_id"],
        to_context=row["to_context_id"],
        score=row["continuity_score"],
        topics=row["topics_score"],
        files=row["files_score"],
        time=row["time_score"],
        entities=row["entities_score"],
        type=row["transition_type"],
        score_type=row["score_type"],
        at=row["created_at"],
    )
