"""How long a search, a timeline and whole texts take at 10,000 and 100,000 events of one project, warm.

The stories' events again and again, each copy with times, sessions, numbers and vectors of its own (those of the first,
a little turned), so that no two texts are the same. The stories' questions are asked one after the other, each once, so
that no answer comes from the cache; then the same ones again, which it answers. One query is encoded for each search.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from common import arguments, percentile, write_result
from questions import rows_of

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.query.retriever import ProgressiveRetriever
from headwater.query.stores import Stores
from headwater.schemas.answers import Scope
from headwater.schemas.columns import EVENTS, event_from_row, events_to_arrow
from headwater.schemas.events import ItemKind
from headwater.schemas.ids import content_hash, digest
from headwater.storage.embedder import load
from headwater.storage.home import Home
from headwater.storage.models import resolve
from headwater.storage.tables import LanceStore
from headwater.storage.vectors import VectorSet, VectorStore
from headwater.surface.console import Progress
from headwater.surface.importers.ingest import append_paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.schemas.events import Event
    from headwater.storage.embedder import Encoder

SIZES = (10_000, 100_000)
PROJECT = "/bench"
TURN = 0.3  # of a vector's length: how far a copy's vector lies from the first one's
BATCH = 5_000
WARM = 10
BARS_MS = {"layer1": 100, "layer2": 50, "layer3": 50}


def story_events(data: Path, folder: Path) -> list[Event]:
    """Return the events of all stories, as the ingest flow makes them."""
    home = Home.open(folder / "stories")
    append_paths(home, sorted(data.glob("stories/*/events.jsonl*")), None, Progress("reading"))
    run_ingest(home, IngestOptions(embedding_version=None, until_idle=True))
    rows = LanceStore(home.lance).open(EVENTS).scan([column.name for column in EVENTS.columns])
    return [replace(event_from_row(row), project=PROJECT) for row in rows.iter_rows(named=True)]


def copy_of(event: Event, number: int) -> Event:
    """Return the same event of another fortnight: its own id, session and numbers."""

    def other(match: re.Match[str]) -> str:
        return str((int(match[0][:9]) + 7 * number) % 10 ** len(match[0][:9]))

    text = re.sub(r"\d+", other, event.content) + ("" if number == 0 else f" ({number})")
    return replace(
        event,
        id="evt_" + digest(event.id, str(number)),
        session_id=f"{number}-{event.session_id}",
        turn_id=None if event.turn_id is None else f"{number}-{event.turn_id}",
        parent_id=None if event.parent_id is None else "evt_" + digest(event.parent_id, str(number)),
        at=event.at + timedelta(days=14 * number),
        content=text,
        content_hash=content_hash(text),
    )


def fill(home: Home, events: list[Event], encoder: Encoder, count: int) -> None:
    """Write `count` events with one vector each."""
    first = encoder.encode_documents([event.content[:800] or event.kind.value for event in events])
    rng = np.random.default_rng(7)
    table, vectors = LanceStore(home.lance).open(EVENTS), VectorStore(home)
    todo = [(n, at) for n in range(-(-count // len(events))) for at in range(len(events))][:count]
    for start in range(0, len(todo), BATCH):
        part = [(copy_of(events[at], n), at) for n, at in todo[start : start + BATCH]]
        table.add(events_to_arrow([event for event, _ in part]))
        noise = rng.standard_normal((len(part), first.shape[1])).astype(np.float32)
        noise *= TURN / np.linalg.norm(noise, axis=1, keepdims=True)
        turned = first[[at for _, at in part]] + noise
        turned /= np.linalg.norm(turned, axis=1, keepdims=True)
        sets = [
            VectorSet(
                event.id, event.content_hash, event.project, event.session_id, event.agent, event.kind.value,
                event.at, (event.content[:800],), turned[n : n + 1],
            )
            for n, (event, _) in enumerate(part)
        ]  # fmt: skip
        vectors.put(ItemKind.ENTRY.value, encoder.version, sets, datetime.now(UTC))
    now = datetime.now(UTC)
    table.maintain(now, force=True)
    vectors.maintain(encoder.version, now, force=True)
    home.change_current(embedding_version=encoder.version)


def timed(call: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    """Return milliseconds and the value."""
    start_s = time.perf_counter()
    value = call(*args)
    return (time.perf_counter() - start_s) * 1000, value


def ask(home: Home, encoder: Encoder, questions: list[str]) -> dict[str, Any]:
    """Return the figures of one home."""
    retriever = ProgressiveRetriever(Stores.open(home), encoder, home.config())
    scope = Scope(PROJECT)
    for text in questions[:WARM]:
        ids = [one.id for one in retriever.search_index(text, scope)]
        retriever.get_timeline(ids[:3], scope)
        retriever.get_details(ids[:3], scope)
    spent: dict[str, list[float]] = {name: [] for name in (*BARS_MS, "again")}
    for text in questions[WARM:]:
        layer1_ms, items = timed(retriever.search_index, text, scope)
        ids = [one.id for one in items][:3]
        spent["layer1"].append(layer1_ms)
        if ids:
            spent["layer2"].append(timed(retriever.get_timeline, ids, scope)[0])
            spent["layer3"].append(timed(retriever.get_details, ids, scope)[0])
        spent["again"].append(timed(retriever.search_index, text, scope)[0])
    return {
        name: {"p50_ms": round(percentile(ms, 0.5), 1), "p95_ms": round(percentile(ms, 0.95), 1)}
        for name, ms in spent.items()
    }


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    questions = [
        row["question"]
        for path in sorted(args.data.glob("stories/*/questions.jsonl*"))
        for row in rows_of(path)
    ]
    result: dict[str, Any] = {"questions": len(questions) - WARM}
    with tempfile.TemporaryDirectory() as folder:
        events = story_events(args.data, Path(folder))
        for size in SIZES:
            home = Home.open(Path(folder) / str(size))
            encoder = load(resolve("minilm", home))
            fill(home, events, encoder, size)
            result[str(size)] = ask(home, encoder, questions)
            if not args.json:
                print(json.dumps({size: result[str(size)]}), flush=True)
    write_result("recall", {**result, "p95_bars_ms": BARS_MS}, as_json=args.json)


if __name__ == "__main__":
    main()
