"""Layer 1: the index. Candidates by words and by meaning, fused, one line each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from headwater.query import fusion
from headwater.query.scope import both, ids_where, one_of, where
from headwater.query.summary import summary
from headwater.schemas import limits
from headwater.schemas.answers import IndexItem, Scope
from headwater.schemas.columns import EVENTS
from headwater.schemas.errors import InputError
from headwater.schemas.events import ItemKind
from headwater.schemas.text import cjk_runs, clean_text, code_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.query.stores import QueryEncoder, Stores

_TEXT_COLUMNS = tuple(column for column, _ in EVENTS.text)
_HEAD = ("id", "at", "kind", "session_id", "project")
_HYPHENATED = re.compile(
    r"[A-Za-z]+(?:[-/][A-Za-z]+)+|[A-Za-z](?:\.[A-Za-z])+"
)  # well-known, and/or, e.g: not code


@dataclass(frozen=True, slots=True)
class Found:
    """The best items of a search, best first, how many candidates there were, and the texts of the items by id.

    Scores that are not mapped to precision (`score_is_mapped`) expand nothing by themselves.
    """

    items: tuple[IndexItem, ...]
    total_matches: int
    contents: Mapping[str, str] = field(default_factory=dict)
    score_is_mapped: bool = True


def search_index(
    stores: Stores, query: str, scope: Scope, top_k: int, encoder: QueryEncoder | None = None
) -> list[IndexItem]:
    """Return the `top_k` best items of a scope, best first; see `find`."""
    return list(find(stores, query, scope, top_k, encoder).items)


def find(stores: Stores, query: str, scope: Scope, top_k: int, encoder: QueryEncoder | None = None) -> Found:
    """Return the `top_k` best items of a scope, best first, equal scores by newer.

    The scope's filter comes before the choice of the best. Works with words alone (no encoder, no vectors, or an
    encoder of another version) and with vectors alone (no word in common). No text raises; an empty one finds nothing.
    Raises InputError for a `top_k` outside 1 to TOP_K_MAX.
    """
    if not 1 <= top_k <= limits.TOP_K_MAX:
        raise InputError(
            "top_k", f"wanted 1 to {limits.TOP_K_MAX}, got {top_k}", "ask for fewer, or narrow the search"
        )
    text = clean_text(query[: limits.QUERY_CHARS]).strip()
    if not text:
        return Found((), 0)
    exact = exact_words(text)
    words = _by_words(stores, text, scope, with_code=bool(exact))
    vectors = _by_meaning(stores, text, scope, encoder)
    rows = _heads(stores, words, vectors, scope, with_code=bool(exact))
    if rows.is_empty():
        return Found((), 0)
    text_arm = fusion.fuse_text([fusion.bm25_arm(arm) for arm in words])
    fused = fusion.fuse(text_arm, fusion.vector_arm(vectors, limits.CANDIDATES))
    if exact:
        fused = fusion.prefer_exact(fused, exact_shares(rows, exact))
    best = fusion.ranked(fused.join(rows, on="id", how="inner"))
    return _items(stores, best.head(top_k), text, best.height)


def exact_words(query: str) -> list[str]:
    """Return the identifiers and paths of a query, folded: what is typed exactly is looked for exactly."""
    words = (word for word in code_words(query).split() if not _HYPHENATED.fullmatch(word))
    return list(dict.fromkeys(word.casefold() for word in words))[: limits.EXACT_WORDS]


def _by_words(stores: Stores, text: str, scope: Scope, *, with_code: bool) -> list[pl.DataFrame]:
    """Return the candidates of each text column, with their heads."""
    columns = [*_HEAD, "code"] if with_code else list(_HEAD)
    inside = where(scope)
    parts = {"content": text, "code": text, "cjk": cjk_runs(text)}
    return [
        stores.events.match(parts[column], column, inside, limits.CANDIDATES, columns)
        for column in _TEXT_COLUMNS
        if parts[column]
    ]


def _by_meaning(stores: Stores, text: str, scope: Scope, encoder: QueryEncoder | None) -> pl.DataFrame:
    """Return `id` and `_distance` of the nearest events; of one embedding version only."""
    nothing = pl.DataFrame(schema={"id": pl.String, "_distance": pl.Float64})
    version = stores.embedding_version
    if stores.vectors is None or encoder is None or version is None or not stores.can_compare(encoder):
        return nothing
    inside = where(scope, files=False)
    if scope.file is not None:  # vectors do not know files: the newest events that touch it stand in for it
        touching = (
            stores.events.scan(["id", "at"], where(scope))
            .sort("at", descending=True)
            .head(limits.IDS_PER_FILTER)
        )
        if touching.is_empty():
            return nothing
        inside = both(inside, one_of("item_id", touching.get_column("id").to_list()))
    found = stores.vectors.nearest(version, encoder.encode_query(text), inside, limits.CANDIDATES)
    if found.is_empty():
        return nothing
    entries = found.filter(pl.col("item_kind") == ItemKind.ENTRY.value)
    return entries.select(pl.col("item_id").alias("id"), pl.col("_distance").cast(pl.Float64))


def _heads(
    stores: Stores, words: Sequence[pl.DataFrame], vectors: pl.DataFrame, scope: Scope, *, with_code: bool
) -> pl.DataFrame:
    """Return one row per candidate that is really there and inside the scope."""
    columns = [*_HEAD, "code"] if with_code else list(_HEAD)
    known = [arm.select(columns) for arm in words if not arm.is_empty()]
    seen = {item for arm in known for item in arm.get_column("id").to_list()}
    missing = [item for item in vectors.get_column("id").to_list() if item not in seen]
    if missing:
        known.append(stores.events.scan(columns, ids_where(missing, scope)))
    return pl.concat(known).unique("id") if known else pl.DataFrame()


def exact_shares(rows: pl.DataFrame, exact: Sequence[str]) -> pl.DataFrame:
    """Return `id` and the `share` of the exact words that stand in the row's identifiers and paths, whole."""
    patterns = [(word, re.compile(rf"(?<![\w$]){re.escape(word)}(?![\w$])")) for word in exact]
    shares = []
    for code in rows.get_column("code").to_list():
        folded = (code or "").casefold()
        hits = sum(1 for word, pattern in patterns if word in folded and pattern.search(folded))
        shares.append(hits / len(patterns))
    return pl.DataFrame({"id": rows.get_column("id"), "share": pl.Series(shares, dtype=pl.Float64)})


def _items(stores: Stores, best: pl.DataFrame, text: str, total: int) -> Found:
    texts = stores.events.by_ids(best.get_column("id").to_list(), ["id", "content", "tool"])
    rows = {row["id"]: row for row in texts.iter_rows(named=True)}
    items = tuple(
        IndexItem(
            id=row["id"],
            summary=summary(
                rows[row["id"]]["content"], text, label=label(row["kind"], rows[row["id"]]["tool"])
            ),
            score=round(row["score"], 4),
            kind=row["kind"],
            at=row["at"],
            session_id=row["session_id"],
            project=row["project"],
        )
        for row in best.iter_rows(named=True)
        if row["id"] in rows  # forgotten between the two reads
    )
    return Found(items, total, {id_: row["content"] for id_, row in rows.items()})


def label(kind: str, tool: dict[str, object] | None) -> str:
    """Return what stands in for an event without text: `session start`, `tool Bash`."""
    name = "" if tool is None or not tool.get("name") else f" {tool['name']}"
    return kind.replace("_", " ") + name
