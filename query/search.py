"""Layer 1: the index. Candidates by words and by meaning, fused, one line each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from headwater.query import confidence, ranking, scripts
from headwater.query.candidates import HEAD, candidates
from headwater.query.evidence import evidence
from headwater.query.scope import where
from headwater.query.short_ids import shortened
from headwater.query.summary import summary
from headwater.schemas import limits
from headwater.schemas.answers import IndexItem, Scope
from headwater.schemas.errors import InputError
from headwater.schemas.memory_columns import REVERSALS
from headwater.schemas.text import clean_text, code_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headwater.query.candidates import Candidates
    from headwater.query.ranking import Weights
    from headwater.query.stores import QueryEncoder, Stores

# well-known, and/or, e.g, dates and times of day: not code
_NO_CODE = re.compile(
    r"[A-Za-z]+(?:[-/][A-Za-z]+)+|[A-Za-z](?:\.[A-Za-z])+|20\d\d[-/.]\d\d?[-/.]\d\d?|\d\d?[:/]\d\d(?::\d\d)?"
)


@dataclass(frozen=True, slots=True)
class Found:
    """The best items of a search, best first, how many candidates there were, and the texts of the items by id.

    Scores that are not mapped to precision (`score_is_mapped`) expand nothing by themselves. `by_words`: id -> how well
    an item matches by words alone, against the best, in [0, 1].
    """

    items: tuple[IndexItem, ...]
    total_matches: int
    contents: Mapping[str, str] = field(default_factory=dict)
    score_is_mapped: bool = True
    by_words: Mapping[str, float] = field(default_factory=dict)


def search_index(
    stores: Stores, query: str, scope: Scope, top_k: int, encoder: QueryEncoder | None = None
) -> list[IndexItem]:
    """Return the `top_k` best items of a scope, best first; see `find`."""
    return list(find(stores, query, scope, top_k, encoder).items)


def find(
    stores: Stores,
    query: str,
    scope: Scope,
    top_k: int,
    encoder: QueryEncoder | None = None,
    *,
    weights: Weights = ranking.ALL,
    shortens: bool = True,
) -> Found:
    """Return the `top_k` best items of a scope, best first, equal scores by newer.

    The scope's filter comes before the choice of the best. Works with words alone (no encoder, no vectors, or an
    encoder of another version) and with vectors alone (no word in common). Rows that repeat a better one are counted
    in its `folded`; before what was reversed comes what reversed it. Scores are in [0, 1] and fall; see `confidence`
    for what they say. No text raises; an empty one finds nothing. Raises InputError for a `top_k` outside 1 to
    TOP_K_MAX. `weights` are for measuring; `shortens`: items have their ids' short beginnings, which not all need.
    """
    if not 1 <= top_k <= limits.TOP_K_MAX:
        raise InputError(
            "top_k", f"wanted 1 to {limits.TOP_K_MAX}, got {top_k}", "ask for fewer, or narrow the search"
        )
    text = clean_text(query[: limits.QUERY_CHARS]).strip()
    found = candidates(stores, text, scope, encoder) if text else None
    if found is None:
        return Found((), 0)
    ranked = rank(stores, found, text, weights)
    version = stores.embedding_version if encoder is not None and stores.can_compare(encoder) else None
    scored = confidence.scored(ranked, version)
    newer = reversed_by(stores, found, scope)
    best = put_in_order(scored.rows, newer).head(top_k)
    items = _items(stores.renamed(best), text, scored.rows.height, newer, is_mapped=scored.is_mapped)
    if not shortens:
        return items
    alike = found.known.alike(best.get_column("id"))
    short = shortened(best.get_column("id").to_list(), alike)
    named = (replace(one, short=short[one.id]) for one in items.items)
    return replace(items, items=tuple(named))


def put_in_order(rows: pl.DataFrame, newer: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Return rows (best first, with `score`) with what supersedes a row before it; the scores stay where they were."""
    if not newer:
        return rows
    ids = ranking.newest_first(rows.get_column("id").to_list(), newer)
    place = pl.DataFrame({"id": ids, "rank": range(len(ids))}, schema={"id": pl.String, "rank": pl.Int64})
    scores = rows.get_column("score").sort(descending=True)
    return rows.join(place, on="id").sort("rank").with_columns(scores)


def rank(stores: Stores, found: Candidates, text: str, weights: Weights = ranking.ALL) -> pl.DataFrame:
    """Return the rows of candidates that may be answers with their evidence and `raw`, best first, repeats folded."""
    exact = exact_words(text)
    reads_all = stores.embedding_version is not None and scripts.reads_all(stores.embedding_version)
    rows = found.rows.filter(pl.Series(found.inside))
    shares = exact_shares(rows, exact) if exact else None
    blended = ranking.blend(evidence(found, text, reads_all=reads_all, is_exact=bool(exact)), shares, weights)
    told = blended.join(rows.select(*HEAD), on="id", how="inner")
    return ranking.folded(ranking.best_first(told))


def reversed_by(stores: Stores, found: Candidates, scope: Scope) -> dict[str, list[str]]:
    """Return id -> ids of the messages of the turn that reverses the turn it is of, for the candidates.

    Its calls stand in for them where no message of it is a candidate.
    """
    if stores.lance is None:
        return {}
    pairs = stores.table(REVERSALS).scan(["old_event", "new_event"], where(scope.of_project()))
    if pairs.is_empty():
        return {}
    turns = found.known.order.filter(pl.col("turn_id").is_not_null()).select(
        "id", "session_id", "turn_id", is_message=pl.col("place") == pl.col("place").floor()
    )
    among = turns.join(found.rows.select("id"), on="id", how="semi")
    sides = {}
    for side in ("old_event", "new_event"):
        own = pairs.with_row_index("pair").rename({side: "id"}).select("pair", "id").join(turns, on="id")
        both_ids = own.select("pair", "session_id", "turn_id").join(among, on=["session_id", "turn_id"])
        sides[side] = both_ids.select("pair", "is_message", side=pl.col("id"))
    later = sides["new_event"].filter(pl.col("is_message") | ~pl.col("is_message").any().over("pair"))
    joined = sides["old_event"].select("pair", old="side").join(later.select("pair", new="side"), on="pair")
    newer: dict[str, list[str]] = {}
    for old, new in (
        joined.filter(pl.col("old") != pl.col("new"))
        .sort("pair", "old", "new")
        .select("old", "new")
        .iter_rows()
    ):
        newer.setdefault(old, []).append(new)
    return newer


def exact_words(query: str) -> list[str]:
    """Return the identifiers and paths of a query, folded: what is typed exactly is looked for exactly."""
    words = (word for word in code_words(query).split() if not _NO_CODE.fullmatch(word))
    return list(dict.fromkeys(word.casefold() for word in words))[: limits.EXACT_WORDS]


def exact_shares(rows: pl.DataFrame, exact: Sequence[str]) -> pl.DataFrame:
    """Return `id` and the `share` of the exact words that stand in the row's identifiers and paths, whole."""
    patterns = [(word, re.compile(rf"(?<![\w$]){re.escape(word)}(?![\w$])")) for word in exact]
    shares = []
    for code in rows.get_column("code").to_list():
        folded = (code or "").casefold()
        hits = sum(1 for word, pattern in patterns if word in folded and pattern.search(folded))
        shares.append(hits / len(patterns))
    return pl.DataFrame({"id": rows.get_column("id"), "share": pl.Series(shares, dtype=pl.Float64)})


def _items(
    best: pl.DataFrame, text: str, total: int, newer: dict[str, list[str]], *, is_mapped: bool
) -> Found:
    items = tuple(
        IndexItem(
            id=row["id"],
            summary=summary(row["content"], text, label=label(row["kind"], row["tool"])),
            score=round(row["score"], 4),
            kind=row["kind"],
            at=row["at"],
            session_id=row["session_id"],
            project=row["project"],
            folded=row["folded"],
            superseded_by=next(iter(newer.get(row["id"], ())), None),
        )
        for row in best.iter_rows(named=True)
    )
    contents = dict(best.select("id", "content").iter_rows())
    return Found(items, total, contents, is_mapped, dict(best.select("id", "alone").iter_rows()))


def label(kind: str, tool: dict[str, object] | None) -> str:
    """Return what stands in for an event without text: `session start`, `tool Bash`."""
    name = "" if tool is None or not tool.get("name") else f" {tool['name']}"
    return kind.replace("_", " ") + name
