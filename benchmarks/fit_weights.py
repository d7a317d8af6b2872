"""Fit what each column of the evidence counts: `python benchmarks/fit_weights.py --model M [--model M …] [--set S …]`.

Prints weights for `query/ranking.py: Weights`; it writes no file, for what they change is to be looked at first. On the
tune parts of the sets, with each model: first the weights of a softmax over the candidates of each question that make
its gold most likely; then steps of one weight at a time, taken when the figures themselves get better. A row with all
identifiers of the query stays before all others throughout; repeats are not folded and nothing is superseded here.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import retrieval_sets as sets
import torch
from common import DATA, ROOT
from retrieval import SETS, with_ids
from retrieval_home import CACHE, prepared

from headwater.query import scripts
from headwater.query.candidates import candidates
from headwater.query.evidence import evidence
from headwater.query.ranking import Weights
from headwater.query.search import exact_shares, exact_words
from headwater.query.stores import Stores
from headwater.schemas.answers import Scope
from headwater.storage.embedder import load
from headwater.storage.home import Home
from headwater.storage.models import resolve

if TYPE_CHECKING:
    import numpy.typing as npt

    from headwater.storage.embedder import Encoder

    Vector = npt.NDArray[np.float64]

COLUMNS = tuple(one.name for one in fields(Weights))
EXACT = 100.0  # of the share of exact words: above all else
PENALTY = 0.01  # on squared weights of columns of equal spread: some hundred questions, twenty columns
PARTS = {  # of a set: what its figure is, and how much that counts
    "stories": {"hit@5": 1.0, "ndcg@10": 0.5, "hit@1": 0.1},
    "own": {"hit@5": 1.2, "ndcg@10": 0.4, "hit@1": 0.2},
    "locomo": {"recall@10": 1.0, "ndcg@10": 0.5},
    "beam": {"recall@10": 2.5, "ndcg@10": 0.5},
    "devmembench": {"recall@10": 1.0, "ndcg@10": 0.2},
}
OTHER_MODEL = 0.7  # of what a set counts with the first model
STEPS = (0.5, -0.5, 1 / 6, -1 / 6)  # of a weight, or of LEAST_STEP where it is less
LEAST_STEP = 0.3
ROUNDS = 3
_LEAST_GAIN = 1e-4


@dataclass(frozen=True)
class Cases:
    """Candidates of a set's questions: evidence by row, which question each is of, share of exact words, gold or not.

    `golds`: how many events are gold, by question. Rows of a question are newest first.
    """

    name: str
    counts: float
    x: Vector
    question: npt.NDArray[np.int64]
    share: Vector
    is_gold: npt.NDArray[np.bool_]
    golds: Vector


def gathered(name: str, encoder: Encoder, counts: float) -> Cases:
    """Return the candidates of the tune part of a set."""
    frames: list[pl.DataFrame] = []
    golds: list[float] = []
    for found in _parts(name):
        home = prepared(found, encoder)
        stores = Stores.open(home)
        reads_all = scripts.reads_all(encoder.version)
        for one in with_ids(found, home):
            if one.part != "tune" or not one.gold:
                continue
            near = candidates(stores, one.text, Scope(project=one.project, kinds=one.kinds), encoder)
            if near is None:
                continue
            exact = exact_words(one.text)
            rows = near.rows.filter(pl.Series(near.inside))
            told = evidence(near, one.text, reads_all=reads_all, is_exact=bool(exact))
            shares = exact_shares(rows, exact) if exact else rows.select("id", share=pl.lit(0.0))
            frames.append(
                told.join(shares, on="id")
                .join(rows.select("id", "at"), on="id")
                .sort(["at", "id"], descending=[True, False])
                .select(*COLUMNS, "share", nth=pl.lit(len(golds)), gold=pl.col("id").is_in(list(one.gold)))
            )
            golds.append(float(len(one.gold)))
    frame = pl.concat(frames)
    return Cases(
        name,
        counts,
        frame.select(COLUMNS).to_numpy().astype(float),
        frame.get_column("nth").to_numpy().astype(np.int64),
        frame.get_column("share").to_numpy().astype(float),
        frame.get_column("gold").to_numpy().astype(bool),
        np.array(golds),
    )


def _parts(name: str) -> list[sets.DataSet]:
    benchmarks = DATA / "benchmarks"
    if name == "own":
        return sets.own(ROOT / "benchmarks" / "own", DATA)
    if name == "locomo":
        return [sets.locomo(benchmarks / "locomo" / "locomo_tune3.json.gz")]
    if name == "beam":
        return [sets.beam(benchmarks / "beam")]
    if name == "devmembench":
        return [sets.devmembench(benchmarks / "devmembench")]
    return [sets.stories(DATA / "stories")]


def likeliest(parts: list[Cases]) -> Vector:
    """Return the weights that make gold most likely: half for any of a question's gold, half for all of it."""
    offsets = np.cumsum([0, *(len(one.golds) for one in parts)])
    question = torch.tensor(
        np.concatenate([one.question + start for one, start in zip(parts, offsets[:-1], strict=True)])
    )
    x = torch.tensor(np.vstack([one.x for one in parts]))
    exact = torch.tensor(EXACT * np.concatenate([one.share for one in parts]))
    gold = torch.tensor(np.concatenate([one.is_gold for one in parts]))
    many = int(offsets[-1])
    there = torch.zeros(many, dtype=x.dtype).scatter_add(0, question, gold.to(x.dtype))
    each = torch.tensor(
        np.concatenate([np.full(len(one.golds), one.counts / len(one.golds)) for one in parts])
    )
    each = torch.where(there > 0, each, 0.0)
    each = each / each.sum()
    spread = x.std(0) + 1e-9
    weights = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    steps = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def total(strength: torch.Tensor) -> torch.Tensor:
        top = torch.full((many,), -1e18, dtype=x.dtype).scatter_reduce(0, question, strength, "amax")
        summed = torch.zeros(many, dtype=x.dtype).scatter_add(
            0, question, torch.exp(strength - top[question])
        )
        return top + torch.log(summed)

    def loss() -> torch.Tensor:
        steps.zero_grad()
        strength = (x / spread) @ weights + exact
        any_gold = total(torch.where(gold, strength, -1e9))
        mean_gold = torch.zeros(many, dtype=x.dtype).scatter_add(
            0, question, torch.where(gold, strength, 0.0)
        )
        mean_gold = mean_gold / there.clamp(min=1)
        missed = (total(strength) - (any_gold + mean_gold) / 2) * each
        value: torch.Tensor = torch.where(there > 0, missed, 0.0).sum() + PENALTY * (weights**2).sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    steps.step(loss)  # type: ignore[no-untyped-call]
    found: Vector = (weights.detach() / spread).numpy()
    return found


def figures(one: Cases, weights: Vector) -> dict[str, float]:
    """Return hit@1, hit@5, recall@10 and NDCG@10 of a set, means over its questions."""
    many = len(one.golds)
    order = np.lexsort((-(one.x @ weights + EXACT * one.share), one.question))
    question, gold = one.question[order], one.is_gold[order]
    place = np.arange(len(question)) - np.searchsorted(question, np.arange(many))[question]

    def until(k: int) -> Vector:
        return np.bincount(question[(place < k) & gold], minlength=many).astype(float)

    among = (place < 10) & gold
    gain = np.bincount(question[among], 1 / np.log2(place[among] + 2), minlength=many)
    ideal = np.array([sum(1 / np.log2(n + 2) for n in range(min(10, int(count)))) for count in one.golds])
    return {
        "hit@1": float((until(1) > 0).mean()),
        "hit@5": float((until(5) > 0).mean()),
        "recall@10": float((until(10) / one.golds).mean()),
        "ndcg@10": float((gain / ideal).mean()),
    }


def worth(parts: list[Cases], weights: Vector) -> float:
    """Return the figures of all sets in one number."""
    total = 0.0
    for one in parts:
        found = figures(one, weights)
        total += one.counts * sum(share * found[name] for name, share in PARTS[one.name].items())
    return total


def stepped(parts: list[Cases], weights: Vector) -> Vector:
    """Return weights after ROUNDS of steps of one weight at a time, in a fixed order."""
    best = worth(parts, weights)
    size = np.maximum(np.abs(weights), LEAST_STEP)
    for number in range(ROUNDS):
        for column in np.random.default_rng(number).permutation(len(COLUMNS)):
            for step in STEPS:
                tried = weights.copy()
                tried[column] += step * size[column]
                if (value := worth(parts, tried)) > best + _LEAST_GAIN:
                    best, weights = value, tried
        print(f"round {number + 1}: {best:.4f}", flush=True)
    return weights


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--set", action="append", choices=SETS, help="default: all")
    args = parser.parse_args()
    torch.set_num_threads(1)
    parts = []
    for number, model in enumerate(args.model):
        encoder = load(resolve(model, Home.open(CACHE / "models-home")))
        for name in args.set or SETS:
            parts.append(gathered(name, encoder, OTHER_MODEL if number else 1.0))
            print(f"{name}, {model}: {len(parts[-1].golds)} questions", flush=True)
    now = np.array([getattr(Weights(), name) for name in COLUMNS])
    print(f"as they are: {worth(parts, now):.4f}", flush=True)
    found = stepped(parts, likeliest(parts))
    for one in parts:
        print(one.name, {name: round(value, 3) for name, value in figures(one, found).items()})
    for name, value in zip(COLUMNS, found.tolist(), strict=True):
        print(f"    {name}: float = {value:.1f}")


if __name__ == "__main__":
    main()
