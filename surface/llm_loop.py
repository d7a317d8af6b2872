"""The server's thread that asks a language model for summaries of new memories, when the settings say so.

The extract stays what it is; the model's text stands beside it. What fails is logged, shown by `status` and `doctor`,
and tried again later: nothing waits for it.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from itertools import chain, repeat
from typing import TYPE_CHECKING

from headwater.query.memories import ConsolidatedStore
from headwater.query.stores import Stores
from headwater.schemas import clock, limits
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.events import Kind
from headwater.storage.llm import LlmClient
from headwater.storage.llm_texts import LlmTexts
from headwater.surface.cleaning import clean_text
from headwater.surface.workers import LOG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.query.memories import Memory
    from headwater.storage.home import Home

_SAID = (Kind.PROMPT.value, Kind.RESPONSE.value, Kind.INSIGHT.value)


class LlmLoop:
    """One thread; it ends with `stop`. While the settings say no it only looks at them."""

    def __init__(self, home: Home, stop: threading.Event) -> None:
        """Remember what to work on."""
        self._home = home
        self._stop = stop
        self._thread = threading.Thread(target=self._run, name="llm", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        texts = LlmTexts(self._home.llm_file)
        waits = _waits()
        try:
            while not self._stop.wait(limits.LLM_LOOK_S):
                try:
                    summarise_new(self._home, texts, self._stop)
                    waits = _waits()
                except HeadwaterError as error:
                    wait_s = next(waits)
                    LOG.warning("no summary in a model's words, tried again in %.0f s: %s", wait_s, error)
                    self._stop.wait(wait_s)
                except Exception:  # noqa: BLE001 - the server goes on without; it is logged
                    wait_s = next(waits)
                    LOG.exception("summaries stopped by a fault of ours, tried again in %.0f s", wait_s)
                    self._stop.wait(wait_s)
        finally:
            texts.close()


def summarise_new(home: Home, texts: LlmTexts, stop: threading.Event) -> int:
    """Ask for the summaries of at most LLM_PER_LOOK new memories that have none; return how many came.

    Does nothing unless `use_llm_summarization` is on. Raises ConfigError for settings that name no model, StoreError
    when the model did not answer: both are remembered for `status` and `doctor`.
    """
    config = home.config().endless.consolidation
    if not config.use_llm_summarization:
        return 0
    stores = Stores.open(home)
    count = 0
    try:
        client = LlmClient.of(config)
        for memory in _without(stores, texts):
            if stop.is_set():
                break
            said = client.summarise(_source(stores, memory), config.max_summary_chars)
            text, _ = clean_text(said)
            texts.put(memory.id, memory.content_hash, client.model, text, clock.SYSTEM.now())
            count += 1
    except HeadwaterError as error:
        texts.fail(str(error), clock.SYSTEM.now())
        raise
    return count


def _without(stores: Stores, texts: LlmTexts) -> list[Memory]:
    """Return new memories whose present summary has no text, the newest first."""
    since = clock.SYSTEM.now() - timedelta(seconds=limits.LLM_NEW_S)
    memories = ConsolidatedStore(stores).made_since(since)
    known = texts.get((memory.id, memory.content_hash) for memory in memories)
    return [memory for memory in memories if memory.id not in known][: limits.LLM_PER_LOOK]


def _source(stores: Stores, memory: Memory) -> str:
    """Return what was said in the events of a memory, in order, behind its extract."""
    rows = stores.events.by_ids(memory.source_events, ["id", "kind", "at", "content"])
    said = [
        f"{row['kind']}: {row['content'][: limits.PIECE_CHARS]}"
        for row in rows.sort("at", "id").iter_rows(named=True)
        if row["kind"] in _SAID and row["content"]
    ]
    return "\n\n".join([memory.summary, *said])


def _waits() -> Iterator[float]:
    return chain(limits.LLM_BACKOFF_S, repeat(limits.LLM_BACKOFF_S[-1]))
