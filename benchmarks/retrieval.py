"""How well search finds: `python benchmarks/retrieval.py SET PATH [--model M] [--json]`.

SET is locomo, beam, devmembench, stories or own.

Each question goes through `headwater.query.search.find` on a home with the set's events and vectors, one project for
each conversation, story or recorded project; `bm25` and `dense` are the same code with one arm. Figures are shares in
[0, 1], means over the questions that have gold; the interval is a seeded bootstrap's. `tune` and `apart` are the parts
that weights were chosen on and not; the last line is one JSON object, which is written to
`benchmarks/results/retrieval_SET_MODEL.json` as well.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import retrieval_sets as sets
from common import DATA, RESULTS, percentile
from questions import questions as story_questions
from retrieval_home import CACHE, prepared
from retrieval_metrics import auc, mean_with_interval, means, turn_figures
from retrieval_sets import Question

from headwater.query import expansion, ranking
from headwater.query.budget import estimate_tokens
from headwater.query.format import index_text
from headwater.query.search import find
from headwater.query.stores import Stores
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.columns import EVENTS
from headwater.schemas.config import Config
from headwater.schemas.ids import digest
from headwater.storage.embedder import load
from headwater.storage.home import Home
from headwater.storage.models import resolve
from headwater.storage.tables import LanceStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headwater.query.ranking import Weights
    from headwater.query.search import Found
    from headwater.schemas.answers import IndexItem
    from headwater.storage.embedder import Encoder

SETS = ("locomo", "beam", "devmembench", "stories", "own")
NO_ANSWER = frozenset({"none", "no_answer", "abstention"})
_ID_CHARS = 16  # of an id as the product derives it
_AGAIN = 60  # questions of the second round, whose seconds are told


@dataclass(frozen=True)
class Answered:
    """A question, the ids found, best first, their sessions, the first score and what the answer costs.

    `is_expanded`: the rules show the first result whole. `tokens_to_gold`: of the index, and of the whole texts, up to
    and with the first of the ten that is gold; None when none of them is.
    """

    question: Question
    ranked: tuple[str, ...]
    sessions: tuple[str, ...]
    top: float
    is_expanded: bool
    index_tokens: int
    text_tokens: int
    wall_s: float
    tokens_to_gold: tuple[int, int] | None = None


def load_set(name: str, path: Path) -> list[sets.DataSet]:
    """Return a set by name; one home for each part."""
    if name == "own":
        return sets.own(path, DATA)
    makers: dict[str, Callable[[Path], sets.DataSet]] = {
        "locomo": sets.locomo,
        "beam": sets.beam,
        "devmembench": sets.devmembench,
        "stories": sets.stories,
    }
    return [makers[name](path)]


def with_ids(found: sets.DataSet, home: Home) -> list[Question]:
    """Return the questions with gold as event ids: stories name theirs by session and call."""
    if not found.rows:
        return found.questions
    names = ["id", "session_id", "project"]
    events = LanceStore(home.lance).open(EVENTS, create=False).scan(names)
    session_of = dict(events.select("id", "session_id").iter_rows())
    project_of = dict(events.select("id", "project").iter_rows())
    asked: list[Question] = []
    known: dict[str, list[str]] = defaultdict(list)  # block -> the projects of its gold
    golds: list[list[str]] = []
    for row in found.rows:
        gold = row.get("gold") or []
        if gold and isinstance(gold[0], dict):
            resolved = story_questions(home, [row])
            gold = sorted(resolved[0].gold) if resolved else []
        there = [id_ for id_ in gold if id_ in project_of]
        if gold and not there:
            raise SystemExit(f"{row['id']}: none of its gold events is in the home")
        golds.append(there)
        known[row["block"]] += [project_of[id_] for id_ in there]
    for row, there in zip(found.rows, golds, strict=True):
        projects = known[row["block"]]
        asked.append(
            Question(
                row["id"],
                row["question"],
                None if found.name.startswith("own-") else max(sorted(set(projects)), key=projects.count),
                frozenset(there),
                frozenset(session_of[id_] for id_ in there),
                row["kind"],
                row.get("language") or row.get("lang") or "en",
                block=row["block"],
                part=row["part"],
            )
        )
    return asked


def ask(
    stores: Stores,
    asked: Iterable[Question],
    encoder: Encoder | None,
    top_k: int,
    weights: Weights = ranking.ALL,
) -> list[Answered]:
    """Return what each question found."""
    done = []
    for one in asked:
        scope = Scope(project=one.project, kinds=one.kinds)
        start_s = time.perf_counter()
        found = find(stores, one.text, scope, top_k, encoder, weights=weights)
        done.append(_answered(one, found, time.perf_counter() - start_s))
    return done


def _answered(one: Question, found: Found, wall_s: float) -> Answered:
    first = found.items[:10]
    settings = Config().progressive_disclosure
    rows = expansion.score_frame(first, is_mapped=found.score_is_mapped)
    decision = expansion.decide(rows, settings.auto_expand, settings.layer1.min_score)
    sessions = dict.fromkeys(item.session_id for item in found.items)
    texts = [found.contents.get(item.id, "") for item in first]
    rank = next((n for n, item in enumerate(first, 1) if item.id in one.gold), 0)
    return Answered(
        one,
        tuple(item.id for item in found.items),
        tuple(sessions),
        found.items[0].score if found.items else 0.0,
        bool(decision.details),
        _index_tokens(first),
        _tokens(texts),
        wall_s,
        (_index_tokens(first[:rank]), _tokens(texts[:rank])) if rank else None,
    )


def _tokens(texts: Sequence[str]) -> int:
    """Return the tokens of texts one below the other: one counter for the index, the texts and the history."""
    return estimate_tokens("\n\n".join(texts))


def _index_tokens(items: Sequence[IndexItem]) -> int:
    """Return the tokens of rows as a terminal shows them; made-up ids count like those that the product derives."""
    made = (item.short if len(item.id) == _ID_CHARS else item.id[:4] + digest(item.id)[:4] for item in items)
    return estimate_tokens(
        index_text([replace(item, short=short) for item, short in zip(items, made, strict=True)])
    )


def figures(done: Sequence[Answered]) -> dict[str, Any]:
    """Return the figures of one group of questions."""
    gold = [one for one in done if one.question.gold]
    none = [one for one in done if not one.question.gold]
    if not gold:
        return {"n": 0, "n_no_answer": len(none)}
    turn = [turn_figures(one.ranked, one.question.gold) for one in gold]
    session = [turn_figures(one.sessions, one.question.sessions) for one in gold]
    result: dict[str, Any] = {"n": len(gold), "turn": means(turn), "session": means(session)}
    result["ci95"] = {
        "turn.recall@10": mean_with_interval([row["recall@10"] for row in turn]),
        "turn.hit@5": mean_with_interval([row["hit@5"] for row in turn]),
        "session.recall@5": mean_with_interval([row["recall@5"] for row in session]),
    }
    expanded = [one for one in gold if one.is_expanded]
    right = [one for one in expanded if one.ranked[0] in one.question.gold]
    result["expansion"] = {
        "n": len(expanded),
        "share": round(len(expanded) / len(gold), 4),
        "precision": round(len(right) / len(expanded), 4) if expanded else None,
        "n_no_answer": len(none),
        "no_answer_quiet": round(sum(not one.is_expanded for one in none) / len(none), 4) if none else None,
        "auc": auc([one.top for one in gold], [one.top for one in none]),
    }
    return result


def report(done: Sequence[Answered]) -> dict[str, Any]:
    """Return figures of all, by part, by block and part, by language and by kind."""
    keys: dict[str, Callable[[Answered], str]] = {
        "by_part": lambda one: one.question.part,
        "by_block": lambda one: f"{one.question.block}/{one.question.part}",
        "by_lang": lambda one: one.question.lang,
        "by_kind": lambda one: one.question.kind,
    }
    result = figures(done)
    for name, key in keys.items():
        groups: dict[str, list[Answered]] = defaultdict(list)
        for one in done:
            groups[key(one)].append(one)
        result[name] = {group: figures(rows) for group, rows in sorted(groups.items())}
    return result


def show(name: str, result: dict[str, Any]) -> None:
    """Print the figures as lines."""
    for group in ("", "by_part", "by_block", "by_lang", "by_kind"):
        for key, one in {"all": result}.items() if not group else result[group].items():
            if one["n"]:
                turn, session, expansion = one["turn"], one["session"], one["expansion"]
                print(
                    f"{name:6} {key:28} n={one['n']:4}  R@10 {turn['recall@10']:.3f}  NDCG {turn['ndcg@10']:.3f}  "
                    f"hit@1 {turn['hit@1']:.3f}  hit@5 {turn['hit@5']:.3f}  session R@5 {session['recall@5']:.3f} "
                    f"hit@5 {session['hit@5']:.3f}  expanded {expansion['share']:.2f} at {expansion['precision']}"
                )


def measure(
    found: sets.DataSet, encoder: Encoder
) -> tuple[dict[str, list[Answered]], list[float], list[int]]:
    """Return answers by arm, seconds of a second round of ten results each, and tokens of each project."""
    home = prepared(found, encoder)
    stores = Stores.open(home)
    asked = with_ids(found, home)
    arms = {
        "ours": ask(stores, asked, encoder, limits.TOP_K_MAX),
        "bm25": ask(stores, asked, None, limits.TOP_K_MAX, ranking.WORDS),
        "dense": ask(stores, asked, encoder, limits.TOP_K_MAX, ranking.MEANING),
    }
    again_s = [one.wall_s for one in ask(stores, asked[:_AGAIN], encoder, 10)]
    rows = LanceStore(home.lance).open(EVENTS, create=False).scan(["project", "content"])
    history: dict[str, list[str]] = defaultdict(list)
    for project, content in rows.iter_rows():
        history[project].append(content)
    return arms, again_s, [_tokens(texts) for texts in history.values()]


def token_figures(done: Sequence[Answered], history: Sequence[int]) -> dict[str, Any]:
    """Return what answers cost, all by the product's own estimate: means over questions, `history` over projects."""
    index = sum(one.index_tokens for one in done) / len(done)
    texts = sum(one.text_tokens for one in done) / len(done)
    whole = sum(history) / len(history)
    to_gold = [one.tokens_to_gold for one in done if one.tokens_to_gold is not None]
    return {
        "index_top10": round(index),
        "texts_top10": round(texts),
        "history": round(whole),
        "index_of_texts": round(index / texts, 3),
        "history_of_index": round(whole / index, 1),
        "n_to_gold": len(to_gold),
        "index_to_gold": round(sum(one for one, _ in to_gold) / max(1, len(to_gold))),
        "texts_to_gold": round(sum(one for _, one in to_gold) / max(1, len(to_gold))),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("path", type=Path)
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--json", action="store_true", help="print the last line only")
    args = parser.parse_args()
    encoder = load(resolve(args.model, Home.open(CACHE / "models-home")))
    arms: dict[str, list[Answered]] = defaultdict(list)
    again_s: list[float] = []
    history: list[int] = []
    for found in load_set(args.set, args.path):
        one_arms, one_s, one_history = measure(found, encoder)
        for name, rows in one_arms.items():
            arms[name] += rows
        again_s += one_s
        history += one_history
    done = arms["ours"]
    reports = {name: report(rows) for name, rows in arms.items()}
    result = {
        "set": args.set,
        "model": args.model,
        **reports,
        "tokens": token_figures(done, history),
        "latency_ms": {
            "first_p50": round(1000 * median(one.wall_s for one in done), 1),
            "p50": round(1000 * median(again_s), 1),
            "p95": round(1000 * percentile(again_s, 0.95), 1),
        },
    }
    if not args.json:
        for name, one in reports.items():
            show(name, one)
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"retrieval_{args.set}_{args.model}.json"
    file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
