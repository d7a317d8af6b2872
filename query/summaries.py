"""Memories and session summaries beside events, as kind `insight`: found, placed in the index and in a timeline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from headwater.query import fusion
from headwater.query.memories import ConsolidatedStore
from headwater.query.scope import both, one_of, where
from headwater.query.search import exact_words
from headwater.query.summary import summary
from headwater.schemas import limits
from headwater.schemas.answers import IndexItem, Scope
from headwater.schemas.events import ItemKind, Kind
from headwater.schemas.memory_columns import MEMORIES, SESSIONS
from headwater.schemas.text import cjk_runs, clean_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from headwater.query.search import Found
    from headwater.query.stores import QueryEncoder, Stores

MEMORY_PREFIX = "mem_"
SESSION_PREFIX = "ses_"
_SESSION_COLUMNS = ("id", "agent", "session_id", "project", "summary", "topics", "last_at")
_MEMORY_COLUMNS = (
    "memory_id", "thread_id", "project", "summary", "topics", "source_events", "last_at", "superseded_by",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Summary:
    """A memory or the summary of a session; `at` is that of its last event. A memory is of no session ("")."""

    id: str
    content: str
    at: datetime
    project: str
    session_id: str = ""
    agent: str = ""
    thread_id: str = ""
    source_events: tuple[str, ...] = ()
    superseded_by: str | None = None


def is_summary(item_id: str) -> bool:
    """Return whether an id is one of a memory or of a session's summary, by its prefix."""
    return item_id.startswith((MEMORY_PREFIX, SESSION_PREFIX))


def with_summaries(
    stores: Stores, found: Found, query: str, scope: Scope, top_k: int, *, encoder: QueryEncoder | None
) -> Found:
    """Return what a search of events found with memories and session summaries in their places, `top_k` at most.

    The score of a summary is relative to its like, so it is taken as a share of the best event's: a summary that
    matches as well as summaries can stands beside that event, never above it. Without any event it stands for itself,
    and then the scores are not mapped. What was superseded stands below what superseded it.
    """
    if scope.file is not None or (scope.kinds and Kind.INSIGHT.value not in scope.kinds):
        return found
    text = clean_text(query[: limits.QUERY_CHARS]).strip()
    hits = [*_memories(stores, text, scope, top_k, encoder), *_sessions(stores, text, scope, top_k, encoder)]
    if not hits:
        return found
    top = found.items[0].score if found.items else 1.0
    placed = [_index_item(one, text, round(score * top, 4)) for one, score in hits]
    items = sorted([*found.items, *placed], key=lambda item: -item.score)[:top_k]  # stable: events first
    return replace(
        found,
        items=tuple(_superseded_last(items)),
        total_matches=found.total_matches + len(hits),
        contents={**found.contents, **{one.id: one.content for one, _ in hits}},
        score_is_mapped=found.score_is_mapped and bool(found.items),
    )


def get_summaries(stores: Stores, ids: Sequence[str], scope: Scope) -> dict[str, Summary]:
    """Return those of the memories and session summaries that are there and inside the scope, by id."""
    if scope.file is not None or (scope.kinds and Kind.INSIGHT.value not in scope.kinds):
        return {}
    found: dict[str, Summary] = {}
    memories = [one for one in ids if one.startswith(MEMORY_PREFIX)]
    if memories and scope.session_id is None and scope.agent is None:
        inside = both(one_of("memory_id", memories), _memory_where(scope))
        rows = stores.renamed(stores.table(MEMORIES).scan(list(_MEMORY_COLUMNS), inside))
        found |= {row["memory_id"]: _of_memory(row) for row in rows.iter_rows(named=True)}
    sessions = [one for one in ids if one.startswith(SESSION_PREFIX)]
    if sessions:
        inside = both(one_of("id", sessions), _session_where(scope))
        rows = stores.renamed(stores.table(SESSIONS).scan(list(_SESSION_COLUMNS), inside))
        found |= {row["id"]: _of_session(row) for row in rows.iter_rows(named=True)}
    return found


def summaries_between(stores: Stores, scope: Scope) -> list[Summary]:
    """Return the memories and session summaries of a scope, by the time of their last event."""
    if scope.file is not None or (scope.kinds and Kind.INSIGHT.value not in scope.kinds):
        return []
    sessions = stores.renamed(stores.table(SESSIONS).scan(list(_SESSION_COLUMNS), _session_where(scope)))
    found = [_of_session(row) for row in sessions.iter_rows(named=True)]
    if scope.session_id is None and scope.agent is None:
        rows = stores.renamed(stores.table(MEMORIES).scan(list(_MEMORY_COLUMNS), _memory_where(scope)))
        found += [_of_memory(row) for row in rows.iter_rows(named=True)]
    return sorted(found, key=lambda one: (one.at, one.id))


def thread_memories(stores: Stores, threads: Sequence[str], scope: Scope) -> pl.DataFrame:
    """Return `id, thread_id, at` of the memories of some threads."""
    inside = both(one_of("thread_id", threads), where(scope.of_project()))
    rows = stores.table(MEMORIES).scan(["memory_id", "thread_id", "last_at"], inside)
    return rows.rename({"memory_id": "id", "last_at": "at"})


def _memory_where(scope: Scope) -> str | None:
    return where(scope.in_time(), time="last_at")


def _session_where(scope: Scope) -> str | None:
    return where(replace(scope, kinds=(), file=None), time="last_at")


def _memories(
    stores: Stores, text: str, scope: Scope, top_k: int, encoder: QueryEncoder | None
) -> list[tuple[Summary, float]]:
    if scope.session_id is not None or scope.agent is not None:
        return []
    found = ConsolidatedStore(stores, encoder).search(text, scope, top_k)
    return [
        (
            Summary(
                one.id, one.summary, one.last_at, one.project, thread_id=one.thread_id,
                source_events=one.source_events, superseded_by=one.superseded_by,
            ),
            one.score or 0.0,
        )
        for one in found
    ]  # fmt: skip


def _sessions(
    stores: Stores, text: str, scope: Scope, top_k: int, encoder: QueryEncoder | None
) -> list[tuple[Summary, float]]:
    """Return the sessions whose summaries match best, with their scores."""
    table, inside = stores.table(SESSIONS), _session_where(scope)
    parts = {"summary": text, "code": text if exact_words(text) else "", "cjk": cjk_runs(text)}
    words = [
        table.match(parts[column], column, inside, limits.CANDIDATES, ["id"])
        for column, _ in SESSIONS.text
        if parts[column]
    ]
    text_arm = fusion.fuse_text([fusion.bm25_arm(arm) for arm in words])
    beside = where(replace(scope, kinds=(), file=None))
    near = stores.nearest(ItemKind.SESSION_SUMMARY, text, encoder, beside, limits.CANDIDATES)
    vectors = fusion.vector_arm(near, limits.CANDIDATES)
    fused = fusion.fuse(text_arm, vectors)
    if fused.is_empty():
        return []
    ids = fused.get_column("id").to_list()[: limits.IDS_PER_FILTER]
    rows = stores.renamed(table.scan(list(_SESSION_COLUMNS), both(inside, one_of("id", ids))))
    known = {row["id"]: row for row in rows.iter_rows(named=True)}
    ranked = fusion.ranked(fused.join(rows.select("id", pl.col("last_at").alias("at")), on="id", how="inner"))
    best = ranked.head(top_k).select("id", "score").iter_rows()
    return [(_of_session(known[id_]), score) for id_, score in best]


def _index_item(one: Summary, query: str, score: float) -> IndexItem:
    return IndexItem(
        id=one.id,
        summary=summary(one.content, query, label="session" if one.session_id else "memory"),
        score=score,
        kind=Kind.INSIGHT.value,
        at=one.at,
        session_id=one.session_id,
        project=one.project,
        superseded_by=one.superseded_by,
    )


def _superseded_last(items: Sequence[IndexItem]) -> list[IndexItem]:
    """Return the rows with each that was superseded right after what superseded it, when that is among them."""
    places = {item.id: n for n, item in enumerate(items)}

    def place(item: IndexItem) -> tuple[int, int]:
        newer = places.get(item.superseded_by or "", -1)
        return max(places[item.id], newer), int(newer > places[item.id])

    return sorted(items, key=place)


def _of_memory(row: dict[str, Any]) -> Summary:
    return Summary(
        row["memory_id"], row["summary"], row["last_at"], row["project"], thread_id=row["thread_id"],
        source_events=tuple(row["source_events"] or ()), superseded_by=row["superseded_by"],
    )  # fmt: skip


def _of_session(row: dict[str, Any]) -> Summary:
    return Summary(row["id"], row["summary"], row["last_at"], row["project"], row["session_id"], row["agent"])
