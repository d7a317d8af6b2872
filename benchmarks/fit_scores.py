"""Fit what scores say: `python benchmarks/fit_scores.py --model M [--model M …]` writes `query/calibration.json`.

For each embedding version and for words alone: a logistic regression of "the first result is right" on the features of
`headwater.query.confidence` over the tune parts of stories, LoCoMo, BEAM and our own set, questions without an answer
among them; then the strengths at which 50, 73 and 83 % of the first results at or above it are right get the scores
0.7, 0.85 and 0.92, which promise 50, 70 and 80 %. The file is written anew with what was fitted; versions of other
models stay.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import retrieval_sets as sets
from common import DATA, ROOT
from retrieval import with_ids
from retrieval_home import CACHE, prepared

from headwater.query import confidence, ranking
from headwater.query.candidates import candidates
from headwater.query.search import rank, reversed_by
from headwater.query.stores import Stores
from headwater.schemas.answers import Scope
from headwater.storage.embedder import load
from headwater.storage.home import Home
from headwater.storage.models import resolve

if TYPE_CHECKING:
    import numpy.typing as npt

    from headwater.storage.embedder import Encoder

    Vector = npt.NDArray[np.float64]

FILE = ROOT / "query" / "calibration.json"
POINTS = (
    (0.5, 0.7),
    (0.73, 0.85),
    (0.83, 0.92),
)  # precision from here on, score: 3 above what is promised of new ones
_PENALTY = 0.3  # on squared weights: some hundred questions, a dozen features
_ROUNDS = 50
_FOLDS = 10
_LEAST = 8  # first results that a precision is told of


@dataclass(frozen=True)
class Case:
    """One question: the features of its answer, whether the first result is right, and whether there is an answer."""

    set: str
    part: str
    features: Vector
    right: bool
    has_answer: bool


def tune_sets(data: Path) -> list[sets.DataSet]:
    """Return the sets whose tune parts are fitted on."""
    return [
        sets.stories(data / "stories"),
        sets.locomo(data / "benchmarks" / "locomo" / "locomo_tune3.json.gz"),
        sets.beam(data / "benchmarks" / "beam"),
        *sets.own(ROOT / "benchmarks" / "own", data),
    ]


def cases(found: sets.DataSet, encoder: Encoder, *, with_vectors: bool) -> list[Case]:
    """Return the questions of a set as cases; those that find nothing at all are left out."""
    home = prepared(found, encoder)
    stores = Stores.open(home)
    done = []
    for one in with_ids(found, home):
        scope = Scope(project=one.project, kinds=one.kinds)
        near = candidates(stores, one.text, scope, encoder if with_vectors else None)
        if near is None:
            continue
        rows = rank(stores, near, one.text)
        first = ranking.newest_first(rows.get_column("id").to_list(), reversed_by(stores, near, scope))[0]
        right = first in one.gold
        done.append(Case(found.name, one.part, confidence.features(rows), right, bool(one.gold)))
    return done


def fit(rows: list[Case]) -> dict[str, Any]:
    """Return weights, bias and points of the map, with the figures they stand on.

    The points are those of strengths that each case gets from weights fitted without it: with its own it looks surer
    than a new question would.
    """
    x = np.column_stack([np.stack([one.features for one in rows]), np.ones(len(rows))])
    y = np.array([float(one.right) for one in rows])
    weights = _weights(x, y)
    fold = np.arange(len(rows)) % _FOLDS
    strength = np.zeros(len(rows))
    for number in range(_FOLDS):
        strength[fold == number] = x[fold == number] @ _weights(x[fold != number], y[fold != number])
    points = [[float(strength.min()) - 1.0, 0.0]]
    for precision, score in POINTS:
        at = max(_strength_at(strength, y, precision), points[-1][0] + 0.01)
        points.append([at, score])
    points.append([max(float(strength.max()), points[-1][0]) + 0.5, 1.0])
    return {
        "weights": [round(float(one), 4) for one in weights[:-1]],
        "bias": round(float(weights[-1]), 4),
        "points": [[round(at, 4), score] for at, score in points],
        "fitted_on": len(rows),
        "right_first": round(float(y.mean()), 4),
    }


def _weights(x: Vector, y: Vector) -> Vector:
    """Return the weights of a logistic regression, the last column's, which is 1, without a penalty."""
    penalty = _PENALTY * np.diag([*np.ones(x.shape[1] - 1), 0.0])
    weights = np.zeros(x.shape[1])
    for _ in range(_ROUNDS):  # Newton's steps; the problem is convex
        p = 1 / (1 + np.exp(-(x @ weights)))
        slope = x.T @ (y - p) - penalty @ weights
        curve = (x * (p * (1 - p))[:, None]).T @ x + penalty
        weights += np.linalg.solve(curve, slope)
    return weights


def _strength_at(strength: Vector, right: Vector, precision: float) -> float:
    """Return the least strength from which on so many are right; above all when it is nowhere."""
    order = np.argsort(-strength)
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    enough = [n for n in range(_LEAST - 1, len(order)) if share[n] >= precision]
    return float(strength[order][enough[-1]]) if enough else float(strength.max()) + 0.1


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    versions = dict(confidence.calibration())
    for number, model in enumerate(args.model):
        encoder = load(resolve(model, Home.open(CACHE / "models-home")))
        for name, with_vectors in ((encoder.version, True), (confidence.WORDS_ALONE, False)):
            if with_vectors or number == 0:
                found = [
                    one
                    for data_set in tune_sets(args.data)
                    for one in cases(data_set, encoder, with_vectors=with_vectors)
                    if one.part == "tune"
                ]
                versions[name] = fit(found)
    write(versions)


def write(versions: dict[str, Any]) -> None:
    """Write the file that `headwater.query.confidence` reads."""
    head = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "features": list(confidence.FEATURES)}
    FILE.write_text(json.dumps({**head, "versions": versions}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
