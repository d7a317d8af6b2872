"""The questions of the stories, and how many of their gold events a search finds among its first five.

A question names its gold events by session and tool call, or by session, turn and hook; each is found in the events
table. Questions without an answer are left out. Recall is the mean share of a question's gold events that stand in the
first five.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.query.search import find
from headwater.query.stores import Stores
from headwater.schemas.answers import Scope
from headwater.schemas.columns import EVENTS
from headwater.schemas.events import ItemKind
from headwater.storage.tables import LanceStore, quote
from headwater.storage.vectors import VectorStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.storage.embedder import Encoder
    from headwater.storage.home import Home

TOP = 5
_KINDS = {"UserPromptSubmit": "prompt", "Stop": "response", "SubagentStop": "response"}


@dataclass(frozen=True)
class Question:
    """A question, the project it is asked in, and the ids of the events that answer it."""

    text: str
    project: str
    gold: frozenset[str]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines, plain or .gz."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def questions(home: Home, rows: Iterable[dict[str, Any]]) -> list[Question]:
    """Return the questions that have an answer among the events of a home."""
    names = ["id", "session_id", "turn_id", "kind", "tool", "project"]
    events = LanceStore(home.lance).open(EVENTS, create=False).scan(names)
    by_key: dict[tuple[str, ...], tuple[str, str]] = {}
    for row in events.iter_rows(named=True):
        use_id = (row["tool"] or {}).get("use_id")
        key = (row["session_id"], use_id) if use_id else (row["session_id"], row["turn_id"], row["kind"])
        by_key[key] = (row["id"], row["project"])
    found = []
    for row in rows:
        keys = [_key(one) for one in row.get("gold") or ()]
        known = [by_key[key] for key in keys if key in by_key]
        if known:
            found.append(Question(row["question"], known[0][1], frozenset(id_ for id_, _ in known)))
    return found


def _key(gold: dict[str, Any]) -> tuple[str, ...]:
    session = str(gold["session_id"])
    if gold.get("tool_use_id"):
        return (session, str(gold["tool_use_id"]))
    return (session, str(gold.get("prompt_id")), _KINDS.get(str(gold.get("hook_event_name")), ""))


def recall(home: Home, version: str, encoder: Encoder, asked: list[Question]) -> dict[str, float]:
    """Return recall@5 of the whole search and of the vectors alone, of one embedding version."""
    stores = Stores.open(home).of_version(version)
    store = VectorStore(home)
    both, meaning = [], []
    for one in asked:
        found = find(stores, one.text, Scope(project=one.project), TOP, encoder)
        both.append(len(one.gold & {item.id for item in found.items}) / min(len(one.gold), TOP))
        near = store.nearest(
            version,
            encoder.encode_query(one.text),
            f"project = {quote(one.project)} AND item_kind = {quote(ItemKind.ENTRY.value)}",
            TOP,
        )
        ids = set(near.get_column("item_id").to_list())
        meaning.append(len(one.gold & ids) / min(len(one.gold), TOP))
    return {"search": _mean(both), "vectors": _mean(meaning)}


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 3) if values else 0.0
