"""The writing steps of memory: rows of a project's threads, sessions, working set, memories and log into their tables.

Rows have derived ids, so that writing them again after a crash changes nothing: what the table has is merged, what it
does not have is added, which costs the same however large the table is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.flows.memory_rows import ITEM_KINDS, summary_requests
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.memory_columns import MEMORY_TABLES
from headwater.storage.faults import fault_point
from headwater.storage.tables import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headwater.flows.moments import TableChange
    from headwater.schemas.clock import Clock
    from headwater.schemas.columns import TableDef
    from headwater.schemas.jobs import JobRequest
    from headwater.storage.outbox import VectorOutbox
    from headwater.storage.tables import LanceStore, LanceTable


def open_tables(store: LanceStore) -> tuple[dict[str, LanceTable], bool]:
    """Return table name -> table of everything that memory is made of, and whether any was missing or damaged.

    Such a table is made anew, empty.
    """
    before = _folders(store)
    tables = {definition.name: store.open(definition) for definition in MEMORY_TABLES}
    return tables, _folders(store) != before


def _known(table: LanceTable, key: str, rows: Mapping[str, object]) -> set[str]:
    """Return those of the keys that the table has; for many keys its whole column is one cheap read."""
    if len(rows) <= limits.IDS_PER_FILTER:
        found = table.by_ids(list(rows), [key], key).get_column(key)
    else:
        found = table.scan([key]).get_column(key)
        found = found.filter(
            found.is_in(list(rows))
        )  # so that no text is made of those that nobody asked for
    return set(found.to_list())


def _folders(store: LanceStore) -> dict[str, int]:
    """Return table name -> number of its folder: another one when it was moved aside and made anew."""
    paths = [store.folder / f"{definition.name}.lance" for definition in MEMORY_TABLES]
    return {path.name: path.stat().st_ino for path in paths if path.exists()}


class MemoryWriter:
    """Writes what the steps of memory made. The only writer of these tables."""

    def __init__(
        self,
        tables: dict[str, LanceTable],
        outbox: VectorOutbox,
        embedding_version: str | Callable[[], str | None] | None,
        *,
        clock: Clock = clock_module.SYSTEM,
    ) -> None:
        """`embedding_version` None: no model can be used now; the missing jobs are found when one can.

        As a function it is asked each time: the version may be switched while the flow runs.
        """
        self._tables = tables
        self._outbox = outbox
        self._version = embedding_version
        self._clock = clock

    def write(self, changes: Sequence[tuple[str, TableChange]]) -> None:
        """Write changes in their order. Durable when it returns; idempotent."""
        self.write_summaries(changes)

    def write_summaries(self, changes: Sequence[tuple[str, TableChange]]) -> list[JobRequest]:
        """Write changes in their order and return the vector jobs of the summaries among them."""
        requests: list[JobRequest] = []
        for run in _runs([change for _, change in changes]):
            definition = self._tables[run[0].table].definition
            rows = {row[definition.key]: row for change in run for row in change.rows}
            gone = [key for change in run for key in change.gone]
            self._store(self._tables[run[0].table], rows)
            self._delete(self._tables[run[0].table], gone)
            version = self._version() if callable(self._version) else self._version
            if version is not None:
                requests += summary_requests(definition, rows.values(), version)
        for name in {change.table for _, change in changes}:
            self._tables[name].maintain(self._clock.now())
        return requests

    def enqueue(self, requests: Sequence[JobRequest]) -> None:
        """Ask for vectors of summaries. Durable when it returns."""
        self._outbox.enqueue_batch(requests)
        fault_point("memory.enqueued")

    def _store(self, table: LanceTable, rows: dict[str, dict[str, Any]]) -> None:
        if not rows:
            return
        key = table.definition.key
        known = _known(table, key, rows)
        table.add(_arrow(table.definition, [row for id_, row in rows.items() if id_ not in known]))
        fault_point("memory.added")
        table.upsert(_arrow(table.definition, [row for id_, row in rows.items() if id_ in known]))
        fault_point("memory.upserted")

    def _delete(self, table: LanceTable, gone: Sequence[str]) -> None:
        """Delete rows, their jobs first: a run killed in between finds the rows again, and would not find the jobs."""
        if not gone:
            return
        kind = ITEM_KINDS.get(table.name)
        if kind is not None:
            self._outbox.remove(kind, gone)
        key = table.definition.key
        for start in range(0, len(gone), limits.IDS_PER_FILTER):
            ids = ", ".join(map(quote, gone[start : start + limits.IDS_PER_FILTER]))
            table.delete(f"{key} IN ({ids})")
        fault_point("memory.deleted")


def _arrow(definition: TableDef, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=definition.arrow())


def _runs(changes: Sequence[TableChange]) -> list[list[TableChange]]:
    """Return changes in runs of one table that can be written at once: a row after its deletion begins a new one."""
    runs: dict[str, list[list[TableChange]]] = {}
    for change in changes:
        found = runs.setdefault(change.table, [[]])
        if any(one.gone for one in found[-1]):
            found.append([])
        found[-1].append(change)
    return [run for found in runs.values() for run in found]
