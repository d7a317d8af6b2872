"""The ingest flow asks for vectors of the version that is current, also when that is switched while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from journal_lines import append, payload

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.flows.memory_writer import MemoryWriter
from headwater.flows.moments import TableChange
from headwater.schemas.clock import SYSTEM, UTC_MIN, now_ns
from headwater.schemas.memory_columns import MEMORIES
from headwater.storage.home import Home
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore

OLD, NEW = "old-4-0123456789ab", "new-4-0123456789ab"


def wait(done: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end_s = SYSTEM.monotonic_s() + 60
    while not done():
        assert SYSTEM.monotonic_s() < end_s
        SYSTEM.sleep(0.02)


def tell(home: Home, text: str) -> None:
    """Append a prompt to the journal."""
    told = payload("UserPromptSubmit", prompt=text, prompt_id=text)
    append(home.journal, {"received_at_ns": now_ns(), "payload": told})


def test_a_running_flow_follows_a_switch(tmp_path: Path) -> None:
    """What comes in before gets a job of the old version, what comes after one of the new one, without a restart."""
    home, stop = Home.open(tmp_path / "h"), threading.Event()
    flow = threading.Thread(target=run_ingest, args=(home, IngestOptions(embedding_version=OLD, stop=stop)))
    with closing(VectorOutbox(home.outbox_file)) as outbox:
        flow.start()
        try:
            tell(home, "one")
            wait(lambda: outbox.counts(OLD).pending == 1)
            home.change_current(embedding_version=NEW)
            tell(home, "two")
            wait(lambda: outbox.counts(NEW).pending == 1)
            assert outbox.counts(OLD).pending == 1  # none was asked for twice
        finally:
            stop.set()
            flow.join(60)


def test_memories_follow_it_as_well(tmp_path: Path) -> None:
    """Summaries are asked for in the version that is current when they are written."""
    current = [OLD]
    home = Home.open(tmp_path / "h")
    table = LanceStore(home.lance).open(MEMORIES)
    with closing(VectorOutbox(home.outbox_file)) as outbox:
        writer = MemoryWriter({MEMORIES.name: table}, outbox, lambda: current[0])
        for version in (OLD, NEW):
            current[0] = version
            least: dict[Any, Any] = {pa.string(): "x", pa.int64(): 0, pa.float64(): 0.0}
            row = {
                one.name: None if one.nullable else least.get(one.dtype, UTC_MIN) for one in MEMORIES.columns
            }
            change = TableChange(MEMORIES.name, (row | {"memory_id": f"mem_{version}"},))
            requests = writer.write_summaries([("p", change)])
            assert [one.embedding_version for one in requests] == [version]
