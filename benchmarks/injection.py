"""What agents would have been told in recorded stories, session by session, and how much of it was used.

For each start of a session and each prompt, in order of time, the context of that moment is composed as the hook would
get it, with what the session was told before left out; then each thing told is compared with the turn that followed, by
the rule of `headwater status`. The recorded agents were told nothing: what a turn shares with what was told is what it
would have needed. `--show N` prints every N-th context of each mode in full.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from common import write_result

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.query.context import Ask, Composed, ContextComposer
from headwater.query.feedback import judged, tallies
from headwater.query.project_cache import ProjectCache
from headwater.query.stores import Stores
from headwater.storage.home import Home
from headwater.storage.usage import ToldItem
from headwater.surface.console import Progress
from headwater.surface.importers.ingest import append_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.schemas.config import Config

_COLUMNS = ["id", "agent", "session_id", "project", "kind", "at", "content", "role"]


def asks(stores: Stores, config: Config, mode: str) -> Iterator[tuple[dict[str, Any], Ask, Composed]]:
    """Yield each start and prompt with what was asked for it and what is told."""
    events = stores.events.scan(_COLUMNS)
    rows = events.filter(pl.col("kind").is_in(["prompt", "session_start"])).sort("at", "id")
    composer = ContextComposer(ProjectCache(stores), config, mode)
    known: dict[str, set[str]] = {}
    for row in rows.iter_rows(named=True):
        session, is_start = f"{row['agent']}:{row['session_id']}", row["kind"] == "session_start"
        if is_start and "resume" not in (row["role"] or ""):
            known.pop(session, None)
        before = known.setdefault(session, set())
        ask = Ask(
            row["project"],
            None if is_start else row["content"],
            session=row["session_id"],
            known=frozenset(before),
            at=row["at"] - timedelta(seconds=1),
        )
        told = composer.compose(ask, config.retrieval.max_tokens)
        before.update(told.keys)
        yield row, ask, told


def play(stores: Stores, config: Config, mode: str, show: int) -> dict[str, Any]:
    """Return the figures of one mode; print every `show`-th context that tells something."""
    items: list[ToldItem] = []
    spoke = asked = tokens = 0
    for row, ask, told in asks(stores, config, mode):
        asked += 1
        spoke += bool(told.keys)
        tokens += told.tokens
        session, is_start = f"{row['agent']}:{row['session_id']}", ask.prompt is None
        items += [
            ToldItem(session, row["id"], key, row["project"], row["at"], is_start, told.scores[key])
            for key in told.keys
        ]
        if told.text and show and spoke % show == 0:
            what = "session starts" if is_start else f"prompt: {' '.join(row['content'].split())}"
            print(f"=== {mode}, {row['project']}, {row['at']:%Y-%m-%d %H:%M}, {what}\n{told.text}\n")
    done: list[ToldItem] = []
    left = items
    while found := judged(stores, left):
        done += found
        names = {(one.session, one.ask, one.item) for one in found}
        left = [one for one in left if (one.session, one.ask, one.item) not in names]
    used = sum(bool(one.used) for one in done)
    kinds = tallies([*done, *left])
    return {
        "asked": asked,
        "spoke": spoke,
        "mean_tokens": round(tokens / spoke, 1) if spoke else None,
        "told": len(items),
        "judged": len(done),
        "used": used,
        "used_share": round(used / len(done), 3) if done else None,
        "kinds": {
            name: {"told": one.told, "used": one.used, "share": round(one.share, 3) if one.judged else None}
            for name, one in kinds.items()
            if one.share is not None
        },
    }


def main() -> None:
    """Play the stories in both modes and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stories", type=Path, nargs="+", help="folders with an events.jsonl")
    parser.add_argument("--show", type=int, default=0, help="print every so many-th context of each mode")
    parser.add_argument("--json", action="store_true", help="print the figures as one line of JSON only")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home.open(Path(folder) / "home")
        files = [path for story in args.stories for path in sorted(story.glob("events.jsonl*"))]
        append_paths(home, files, None, Progress("reading"))
        run_ingest(home, IngestOptions(embedding_version=None, until_idle=True))
        stores = Stores.open(home)
        result = {
            mode: play(stores, home.config(), mode, 0 if args.json else args.show)
            for mode in ("endless", "session")
        }
    write_result("injection", result, as_json=args.json)


if __name__ == "__main__":
    main()
