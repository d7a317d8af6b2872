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
    """Compare two versions over the newest stored prompts that have vectors of both; no model is needed.

    The neighbours are those of the same project; a prompt is not its own.
    """
    store = VectorStore(home)
    of_both = store.heads(old, ItemKind.ENTRY, f"kind = {quote(Kind.PROMPT.value)}").join(
        store.heads(new, ItemKind.ENTRY, f"kind = {quote(Kind.PROMPT.value)}").select("item_id"), on="item_id"
    )
    asked = of_both.sort("at", "item_id", descending=[True, False]).head(prompts)
    ids = asked.get_column("item_id").to_list()
    vectors = {version: store.first_vectors(ItemKind.ENTRY, version, ids) for version in (old, new)}
    shares, firsts = [], []
    for item_id, project in asked.select("item_id", "project").iter_rows():
        inside = f"project = {quote(project)}"
        found = [
            _neighbours(store.nearest(version, vectors[version][item_id], inside, neighbours + 1), item_id)
            for version in (old, new)
        ]
        before, after = (ids[:neighbours] for ids in found)
        if before and after:
            shares.append(len(set(before) & set(after)) / max(len(before), len(after)))
            firsts.append(before[0] == after[0])
    count = len(shares)
    return Probe(
        prompts=count,
        neighbours=neighbours,
        overlap=sum(shares) / count if count else None,
        same_first=sum(firsts) / count if count else None,
    )


def _neighbours(found: pl.DataFrame, item_id: str) -> list[str]:
    return [one for one in found.get_column("item_id").to_list() if one != item_id]
