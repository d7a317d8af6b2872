"""How alike two embedding versions see the same things: the nearest neighbours of stored prompts in both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from headwater.schemas import limits
from headwater.schemas.events import ItemKind, Kind
from headwater.storage.tables import quote
from headwater.storage.vectors import VectorStore

if TYPE_CHECKING:
    from headwater.storage.home import Home


_OVERLAPS = {
    "item_id": pl.String(),
    "before": pl.List(pl.String()),
    "after": pl.List(pl.String()),
    "overlap": pl.Float64(),
    "same_first": pl.Boolean(),
}


@dataclass(frozen=True, slots=True)
class Probe:
    """What was compared, and the result. `overlap`: the mean share of neighbours that both versions name, in [0, 1].

    `same_first`: the share of prompts with the same nearest neighbour; both are None when there was nothing to compare.
    """

    prompts: int
    neighbours: int
    overlap: float | None
    same_first: float | None


def compare(
    home: Home,
    old: str,
    new: str,
    *,
    prompts: int = limits.PROBE_PROMPTS,
    neighbours: int = limits.PROBE_NEIGHBOURS,
) -> Probe:
    """Compare two versions over the newest stored prompts that have vectors of both; no model is needed."""
    found = overlaps(home, old, new, prompts=prompts, neighbours=neighbours)
    means = [found.get_column(name).cast(pl.Float64).mean() for name in ("overlap", "same_first")]
    overlap, same_first = (mean if isinstance(mean, float) else None for mean in means)
    return Probe(prompts=found.height, neighbours=neighbours, overlap=overlap, same_first=same_first)


def overlaps(
    home: Home,
    old: str,
    new: str,
    *,
    prompts: int = limits.PROBE_PROMPTS,
    neighbours: int = limits.PROBE_NEIGHBOURS,
) -> pl.DataFrame:
    """Return a row per prompt, newest first: item_id, `before` and `after` (its neighbours' ids), overlap, same_first.

    The neighbours are those of the same project; a prompt is not its own, and one without any is left out.
    """
    store = VectorStore(home)
    is_prompt = f"kind = {quote(Kind.PROMPT.value)}"
    of_both = store.heads(old, ItemKind.ENTRY, is_prompt).join(
        store.heads(new, ItemKind.ENTRY, is_prompt).select("item_id"), on="item_id"
    )
    asked = of_both.sort("at", "item_id", descending=[True, False]).head(prompts)
    ids = asked.get_column("item_id").to_list()
    vectors = {version: store.first_vectors(ItemKind.ENTRY, version, ids) for version in (old, new)}
    rows = []
    for item_id, project in asked.select("item_id", "project").iter_rows():
        inside = f"project = {quote(project)}"
        before, after = (
            _neighbours(store.nearest(version, vectors[version][item_id], inside, neighbours + 1), item_id)[
                :neighbours
            ]
            for version in (old, new)
        )
        if before and after:
            share = len(set(before) & set(after)) / max(len(before), len(after))
            rows.append((item_id, before, after, share, before[0] == after[0]))
    return pl.DataFrame(rows, _OVERLAPS, orient="row")


def _neighbours(found: pl.DataFrame, item_id: str) -> list[str]:
    return [one for one in found.get_column("item_id").to_list() if one != item_id]
