"""The working set: the events of a project that are active, now or at any time past."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.query.scope import both, time_literal, where
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.memory_columns import WORKING_SET
from headwater.schemas.relevance import combine, recency_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from headwater.query.stores import Stores
    from headwater.schemas.config import WorkingSetConfig

_COLUMNS = tuple(column.name for column in WORKING_SET.columns)


@dataclass(frozen=True, slots=True)
class Member:
    """An active event; `relevance` in [0, 1] is that of the time asked for."""

    event_id: str
    project: str
    session_id: str
    thread_id: str
    kind: str
    at: datetime
    added_at: datetime
    expires_at: datetime
    relevance: float
    topics: tuple[str, ...]
    files: tuple[str, ...]
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Active events, most relevant first, equal ones by newer; what they are about, most important first."""

    members: tuple[Member, ...]
    topics: tuple[str, ...]
    files: tuple[str, ...]
    entities: tuple[str, ...]
    last_activity: datetime | None


class WorkingSetStore:
    """Reads the working set; the ingest flow alone writes it, each event of a project once, by its own id."""

    def __init__(self, stores: Stores, config: WorkingSetConfig) -> None:
        """Remember where to read, how many at most, and from which relevance on."""
        self._stores = stores
        self._table = stores.table(WORKING_SET)
        self._config = config

    def get(self, scope: Scope, now: datetime) -> WorkingSet:
        """Return what is active now: not expired, not left, relevant enough with the recency of now."""
        inside = f"left_at IS NULL AND expires_at > {time_literal(now)}"
        return self._best(self._rows(scope, inside), now)

    def at(self, scope: Scope, then: datetime) -> WorkingSet:
        """Return what was active at a time: there already, not left and not expired then.

        A row keeps its last expiry, so an event whose stay was prolonged later counts as active in between.
        """
        moment = time_literal(then)
        inside = f"added_at <= {moment} AND expires_at > {moment} AND (left_at IS NULL OR left_at > {moment})"
        return self._best(self._rows(scope, inside), then)

    def as_of_last_event(self, scope: Scope) -> WorkingSet:
        """Return what was active when the project's last turn was decided: the same as long as no event comes.

        Relevance is the stored one and no time passes, so nothing moves while nothing happens.
        """
        rows = self._rows(scope, "left_at IS NULL")
        last = max((row["added_at"] for row in rows), default=None)
        live = [row for row in rows if last is not None and row["expires_at"] > last]
        return self._chosen([_member(row, row["relevance_score"]) for row in live])

    def _rows(self, scope: Scope, inside: str) -> list[dict[str, Any]]:
        own = where(scope.of_project())
        return self._stores.renamed(self._table.scan(list(_COLUMNS), both(own, inside))).to_dicts()

    def _best(self, rows: Iterable[dict[str, Any]], now: datetime) -> WorkingSet:
        members = [_member(row, score_at(row, now)) for row in rows]
        return self._chosen([one for one in members if one.relevance >= self._config.min_relevance_score])

    def _chosen(self, members: list[Member]) -> WorkingSet:
        """Return the best of the members; equal in relevance and time, they stand in the order of their ids."""
        members.sort(key=lambda one: one.event_id)
        members.sort(key=lambda one: (one.relevance, one.added_at), reverse=True)
        kept = tuple(members[: self._config.max_events])
        return WorkingSet(
            kept,
            _heaviest(kept, "topics"),
            _heaviest(kept, "files"),
            _heaviest(kept, "entities"),
            max((one.at for one in kept), default=None),
        )


def score_at(row: dict[str, Any], now: datetime) -> float:
    """Return the relevance of a row of the table at a time: its stored parts with the recency of that time."""
    return combine(recency_at(row["at"], now), row["overlap"], row["kind_value"])


def _member(row: dict[str, Any], relevance: float) -> Member:
    return Member(
        event_id=row["event_id"],
        project=row["project"],
        session_id=row["session_id"],
        thread_id=row["thread_id"],
        kind=row["kind"],
        at=row["at"],
        added_at=row["added_at"],
        expires_at=row["expires_at"],
        relevance=relevance,
        topics=tuple(row["topics"] or ()),
        files=tuple(row["files"] or ()),
        entities=tuple(row["entities"] or ()),
    )


def _heaviest(members: Sequence[Member], group: str) -> tuple[str, ...]:
    """Return what the members name, by the relevance of those that name it, equal ones in order of appearance."""
    weights: Counter[str] = Counter()
    for member in members:
        for name in dict.fromkeys(getattr(member, group)):
            weights[name] += round(member.relevance * 1_000_000)
    return tuple(name for name, _ in weights.most_common(limits.ACTIVE_ITEMS))
