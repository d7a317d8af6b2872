"""Where the text of each item is read from: the one place that knows it, for embedding and for comparing.

A kind of item is a table with a key, a text and its hash, or, for titles of tasks, a part of an event's text. Another
kind comes in with one more entry of `SOURCES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from headwater.flows.event_writer import EMBEDDED_KINDS
from headwater.flows.task_titles import TASK_TOOLS, task_titles
from headwater.schemas.columns import EVENTS, TableDef
from headwater.schemas.events import ItemKind, Kind
from headwater.schemas.ids import content_hash, event_of_task_title
from headwater.schemas.memory_columns import MEMORIES, SESSIONS
from headwater.storage.tables import LanceStore, quote

if TYPE_CHECKING:
    from headwater.storage.home import Home
    from headwater.storage.tables import LanceTable

_LISTED = {"item_id": pl.String(), "content_hash": pl.String(), "at": pl.Datetime("us", "UTC")}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that gets vectors: its text, and what stands beside its vectors. `kind` is an event kind."""

    item_id: str
    content: str
    content_hash: str
    project: str
    at: datetime
    kind: str
    session_id: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class ItemSource:
    """Where items of one kind are: `where` lets their rows through, of those with a text `wanted` the ones to embed.

    `columns` are what `items` needs of a row to give its items; most rows are one.
    """

    table: TableDef
    columns: tuple[str, ...]
    items: Callable[[dict[str, Any]], list[Item]]
    where: str | None = None
    wanted: str | None = None
    row_id: Callable[[str], str] = str  # item id -> id of the row that holds it


def _item(row: dict[str, Any], item_id: str, text: tuple[str, str], at: datetime, kind: str) -> Item:
    """Return the item of a text and its hash; a memory is of no one session and of no one agent."""
    project, session_id, agent = row["project"], row.get("session_id"), row.get("agent")
    return Item(item_id, *text, project, at, kind, session_id, agent)


def _entry(row: dict[str, Any]) -> list[Item]:
    return [_item(row, row["id"], (row["content"], row["content_hash"]), row["at"], row["kind"])]


def _titles(row: dict[str, Any]) -> list[Item]:
    titles = task_titles(row["id"], (row["tool"] or {}).get("name"), row["content"])
    return [
        _item(row, item_id, (title, content_hash(title)), row["at"], row["kind"])
        for item_id, title in titles.items()
    ]


def _summary(key: str) -> Callable[[dict[str, Any]], list[Item]]:
    """Return what gives the item of a row with a summary, whose id stands in the column `key`."""

    def items(row: dict[str, Any]) -> list[Item]:
        text = (row["summary"], row["content_hash"])
        return [_item(row, row[key], text, row["last_at"], Kind.INSIGHT.value)]

    return items


_OF_EVENT = ("id", "content", "content_hash", "project", "session_id", "agent", "kind", "at")
_OF_SUMMARY = ("summary", "content_hash", "project", "last_at")
_KINDS = ", ".join(quote(kind.value) for kind in EMBEDDED_KINDS)
SOURCES: dict[ItemKind, ItemSource] = {
    ItemKind.ENTRY: ItemSource(EVENTS, _OF_EVENT, _entry, wanted=f"kind IN ({_KINDS})"),
    ItemKind.TASK_TITLE: ItemSource(
        EVENTS,
        (*_OF_EVENT, "tool"),
        _titles,
        where=f"tool.name IN ({', '.join(map(quote, TASK_TOOLS))})",
        row_id=event_of_task_title,
    ),
    ItemKind.MEMORY: ItemSource(MEMORIES, ("memory_id", *_OF_SUMMARY), _summary("memory_id")),
    ItemKind.SESSION_SUMMARY: ItemSource(
        SESSIONS, ("id", "session_id", "agent", *_OF_SUMMARY), _summary("id")
    ),
}


class Items:
    """The items of one generation of a home, read only. Tables that do not exist yet hold none."""

    def __init__(self, home: Home) -> None:
        """Open nothing; `home` says which generation."""
        self._store = LanceStore(home.lance)
        self._tables: dict[str, LanceTable] = {}

    def get(self, kind: ItemKind, item_ids: Sequence[str]) -> dict[str, Item]:
        """Return the items of one kind that are there, by id; what is not there is left out."""
        source = SOURCES[kind]
        wanted = set(item_ids)
        if not wanted:
            return {}
        row_ids = sorted({source.row_id(item_id) for item_id in wanted})
        rows = self._table(kind).by_ids(row_ids, list(source.columns), id_column=source.table.key)
        found = [item for row in rows.iter_rows(named=True) for item in source.items(row)]
        return {item.item_id: item for item in found if item.item_id in wanted}

    def wanted(self, kind: ItemKind) -> pl.DataFrame:
        """Return item_id, content_hash and at of the items of one kind that are to have vectors, in no order."""
        source = SOURCES[kind]
        if kind is ItemKind.TASK_TITLE:
            return self._listed(kind)
        text = "content" if source.table is EVENTS else "summary"
        at = "at" if source.table is EVENTS else "last_at"
        where = f"regexp_like({text}, '\\S')" + ("" if source.wanted is None else f" AND {source.wanted}")
        rows = self._table(kind).scan([source.table.key, "content_hash", at], where)
        return rows.rename({source.table.key: "item_id", at: "at"}, strict=False).select(list(_LISTED))

    def is_there(self, kind: ItemKind) -> bool:
        """Return whether the table of a kind is there; else it is not made yet, or about to be made again."""
        return self._table(kind).version > 0

    def _listed(self, kind: ItemKind) -> pl.DataFrame:
        """Return what `wanted` does for a kind whose items are parts of rows: few rows, each is read."""
        source = SOURCES[kind]
        rows = self._table(kind).scan(list(source.columns), source.where)
        found = [item for row in rows.iter_rows(named=True) for item in source.items(row)]
        return pl.DataFrame([(one.item_id, one.content_hash, one.at) for one in found], _LISTED, orient="row")

    def _table(self, kind: ItemKind) -> LanceTable:
        definition = SOURCES[kind].table
        if definition.name not in self._tables:
            self._tables[definition.name] = self._store.open(definition, create=False)
        return self._tables[definition.name]
