"""Consolidated memories: search by words and meaning, the newest, and what was reversed by what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from headwater.query import fusion
from headwater.query.scope import both, one_of, time_literal, where
from headwater.query.search import exact_shares, exact_words
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.errors import InputError
from headwater.schemas.events import ItemKind
from headwater.schemas.memory_columns import MEMORIES, REVERSALS
from headwater.schemas.text import cjk_runs, clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from headwater.query.stores import QueryEncoder, Stores

_COLUMNS = tuple(column.name for column in MEMORIES.columns if column.name != "cjk")
_REVERSAL = tuple(column.name for column in REVERSALS.columns)


@dataclass(frozen=True, slots=True)
class Memory:
    """A consolidated memory; `score` in [0, 1] is that of a search, None when nothing was searched."""

    id: str
    project: str
    thread_id: str
    summary: str
    content_hash: str
    topics: tuple[str, ...]
    source_events: tuple[str, ...]
    confidence: float
    count: int
    superseded_by: str | None
    created_at: datetime
    first_at: datetime
    last_at: datetime
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Reversal:
    """Two memories of which the newer says otherwise, and the prompts in which it was said."""

    id: str
    old_memory: str
    new_memory: str
    old_event: str
    new_event: str
    shared: tuple[str, ...]
    strength: float
    at: datetime


class ConsolidatedStore:
    """Reads memories. There is no `create`: the ingest flow alone makes them, under ids derived from their window.

    A memory that anybody else wrote would be gone after the next rebuild of its project.
    """

    def __init__(self, stores: Stores, encoder: QueryEncoder | None = None) -> None:
        """Remember where to read; without an encoder, search is by words alone."""
        self._stores = stores
        self._encoder = encoder
        self._table = stores.table(MEMORIES)
        self._reversals = stores.table(REVERSALS)

    def search(self, query: str, scope: Scope, top_k: int = limits.MEMORIES_TOP_K) -> list[Memory]:
        """Return the memories that match best, best first; one that was superseded stands below what superseded it.

        Of the scope, project and time hold: a memory is of no session, agent or file. What superseded a match is among
        the results, matching or not: it is what holds now. No text raises; an empty one finds nothing. Raises
        InputError for a `top_k` outside 1 to TOP_K_MAX.
        """
        _check(top_k)
        text = clean_text(query[: limits.QUERY_CHARS]).strip()
        if not text:
            return []
        inside = where(scope.in_time(), time="last_at")
        exact = exact_words(text)
        words = self._by_words(text, inside, with_code=bool(exact))
        vectors = self._stores.nearest(
            ItemKind.MEMORY, text, self._encoder, where(scope.in_time()), limits.CANDIDATES
        )
        text_arm = fusion.fuse_text([fusion.bm25_arm(arm) for arm in words])
        fused = fusion.fuse(text_arm, fusion.vector_arm(vectors, limits.CANDIDATES))
        if fused.is_empty():
            return []
        rows = self._by_ids(fused.get_column("id").to_list(), inside)
        if exact and not rows.is_empty():
            fused = fusion.prefer_exact(fused, exact_shares(rows, exact))
        heads = rows.select("id", pl.col("last_at").alias("at"))
        ranked = fusion.ranked(fused.join(heads, on="id", how="inner"))
        scores = dict(ranked.select("id", "score").iter_rows())
        known = {row["id"]: row for row in rows.iter_rows(named=True)}
        best = [_memory(known[id_], round(score, 4)) for id_, score in scores.items()]
        return self._newest_of_each(best[: top_k + limits.MEMORIES_TOP_K], inside)[:top_k]

    def recent(self, scope: Scope, limit: int = limits.MEMORIES_TOP_K) -> list[Memory]:
        """Return the memories whose last event is newest, newest first. Raises InputError like `search`."""
        _check(limit)
        return self.newest(scope, limit)

    def newest(self, scope: Scope, limit: int) -> list[Memory]:
        """Return the same, however many."""
        heads = self._table.scan(["memory_id", "last_at"], where(scope.of_project()))
        newest = heads.sort(["last_at", "memory_id"], descending=[True, False]).head(limit)
        if newest.height == heads.height:  # one read of all is faster than one by ids
            rows = self._table.scan(list(_COLUMNS), where(scope.of_project())).rename({"memory_id": "id"})
        else:
            ids = newest.get_column("memory_id").to_list()
            rows = self._table.by_ids(ids, list(_COLUMNS), "memory_id").rename({"memory_id": "id"})
        ordered = self._stores.renamed(rows).sort(["last_at", "id"], descending=[True, False])
        return [_memory(row) for row in ordered.iter_rows(named=True)]

    def made_since(self, then: datetime) -> list[Memory]:
        """Return the memories of all projects that were made since a time, the newest first."""
        found = self._table.scan(list(_COLUMNS), f"created_at >= {time_literal(then)}")
        ordered = found.rename({"memory_id": "id"}).sort(["created_at", "id"], descending=[True, False])
        return [_memory(row) for row in ordered.iter_rows(named=True)]

    def get(self, ids: Sequence[str], scope: Scope) -> list[Memory]:
        """Return those of the memories that are there and inside the scope, in the order asked."""
        if not ids:
            return []
        rows = self._by_ids(ids, where(scope.of_project()))
        known = {row["id"]: _memory(row) for row in rows.iter_rows(named=True)}
        return [known[id_] for id_ in dict.fromkeys(ids) if id_ in known]

    def count(self, scope: Scope) -> int:
        """Return how many memories there are."""
        return self._table.count(where(scope.of_project()))

    def last_at(self, scope: Scope) -> datetime | None:
        """Return when the newest memory was made, None when there is none."""
        rows = self._table.scan(["created_at"], where(scope.of_project()))
        newest: datetime | None = rows.get_column("created_at").max() if rows.height else None  # type: ignore[assignment]
        return newest

    def reversals(self, ids: Iterable[str], scope: Scope) -> list[Reversal]:
        """Return what of these memories was reversed, or reverses, in order of time."""
        wanted = sorted(set(ids))
        if not wanted:
            return []
        touched = f"({one_of('old_memory', wanted)} OR {one_of('new_memory', wanted)})"
        rows = self._reversals.scan(list(_REVERSAL), both(where(scope.of_project()), touched))
        return [
            Reversal(
                row["id"], row["old_memory"], row["new_memory"], row["old_event"], row["new_event"],
                tuple(row["shared"] or ()), row["strength"], row["at"],
            )
            for row in rows.sort("at", "id").iter_rows(named=True)
        ]  # fmt: skip

    def _by_words(self, text: str, inside: str | None, *, with_code: bool) -> list[pl.DataFrame]:
        parts = {"summary": text, "code": text if with_code else "", "cjk": cjk_runs(text)}
        found = [
            self._table.match(parts[column], column, inside, limits.CANDIDATES, ["memory_id"])
            for column, _ in MEMORIES.text
            if parts[column]
        ]
        return [arm.rename({"memory_id": "id"}) for arm in found]

    def _by_ids(self, ids: Sequence[str], inside: str | None) -> pl.DataFrame:
        """Return rows with their key as `id`; the scope is looked at again, for vectors may be older than rows."""
        wanted = list(dict.fromkeys(ids))[: limits.IDS_PER_FILTER]
        found = self._table.scan(list(_COLUMNS), both(inside, one_of("memory_id", wanted)))
        return self._stores.renamed(found).rename({"memory_id": "id"})

    def _newest_of_each(self, hits: list[Memory], inside: str | None) -> list[Memory]:
        """Put before each superseded memory the one that holds now, which is looked up when it was not found."""
        known = {hit.id: hit for hit in hits}
        missing = [hit.superseded_by for hit in hits if hit.superseded_by and hit.superseded_by not in known]
        for _ in range(limits.MEMORIES_TOP_K):  # a chain of reversals is short
            wanted = [id_ for id_ in dict.fromkeys(missing) if id_ not in known]
            if not wanted:
                break
            found = [_memory(row) for row in self._by_ids(wanted, inside).iter_rows(named=True)]
            known |= {memory.id: memory for memory in found}
            missing = [memory.superseded_by for memory in found if memory.superseded_by]
        ordered: dict[str, Memory] = {}
        for hit in hits:
            for id_ in reversed(_chain(hit, known)):
                # what was looked up for a match is as near as that match
                ordered.setdefault(id_, _with_score(known[id_], hit.score))
        return list(ordered.values())


def _chain(hit: Memory, known: Mapping[str, Memory]) -> list[str]:
    """Return the ids from a memory to what holds now, as far as they are known; never round a circle."""
    chain = [hit.id]
    while (
        (next_id := known[chain[-1]].superseded_by) is not None and next_id in known and next_id not in chain
    ):
        chain.append(next_id)
    return chain


def _with_score(memory: Memory, score: float | None) -> Memory:
    return memory if memory.score is not None else replace(memory, score=score)


def _check(count: int) -> None:
    if not 1 <= count <= limits.TOP_K_MAX:
        raise InputError(
            "top_k", f"wanted 1 to {limits.TOP_K_MAX}, got {count}", "ask for fewer, or narrow the search"
        )


def _memory(row: dict[str, Any], score: float | None = None) -> Memory:
    return Memory(
        id=row["id"],
        project=row["project"],
        thread_id=row["thread_id"],
        summary=row["summary"],
        content_hash=row["content_hash"],
        topics=tuple(row["topics"] or ()),
        source_events=tuple(row["source_events"] or ()),
        confidence=row["confidence"],
        count=row["count"],
        superseded_by=row["superseded_by"],
        created_at=row["created_at"],
        first_at=row["first_at"],
        last_at=row["last_at"],
        score=score,
    )
