"""What a query reads: the tables that are current in a home, opened without writing anything."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from headwater.schemas.answers import Scope
from headwater.schemas.columns import EVENTS
from headwater.schemas.control import ControlState
from headwater.schemas.events import ItemKind
from headwater.storage.control import ControlJournal
from headwater.storage.tables import LanceStore, LanceTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.query.positions import Positions
    from headwater.schemas.columns import TableDef
    from headwater.storage.home import Current, Home


class VectorSource(Protocol):
    """Where vectors are: what a query needs of `headwater.storage.vectors.VectorStore`."""

    def nearest(
        self,
        version: str,
        vector: Any,
        where: str | None,
        limit: int,
        kinds: Sequence[str] | None = None,
        *,
        texts: bool = True,
    ) -> pl.DataFrame:
        """Return the nearest items of one embedding version, best chunk of each; of some item kinds or of all.

        Columns: item_kind, item_id, content (null without `texts`), _distance (cosine), and more.
        """
        ...


class QueryEncoder(Protocol):
    """What makes a vector of a query: what a query needs of an encoder."""

    @property
    def version(self) -> str:
        """The embedding version whose vectors it can be compared with."""
        ...

    def encode_query(self, text: str) -> Any:
        """Return a vector of unit length."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """One view of a home's tables: everything in it belongs to one generation and one embedding version.

    `decided` is what people decided, of which the moves of projects matter here: rows keep the name under which they
    were captured, and reads give them to the project that it was moved to.
    """

    home: Home | None
    current: Current | None
    events: LanceTable
    vectors: VectorSource | None
    embedding_version: str | None
    lance: LanceStore | None = None
    decided: ControlState = field(default_factory=ControlState, compare=False)
    decided_stamp: tuple[int, int, int] | None = field(default=None, compare=False)
    positions: dict[Scope, Positions] = field(default_factory=dict, compare=False, repr=False)
    _tables: dict[str, LanceTable] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def open(cls, home: Home) -> Stores:
        """Return what is current in the home; tables that do not exist yet read as empty. Raises HomeError."""
        from headwater.storage.vectors import VectorStore

        current = home.current()
        lance = LanceStore(home.root / "lance" / current.generation)
        events = lance.open(EVENTS, create=False)
        vectors: VectorSource = VectorStore(home)
        journal = ControlJournal(home)
        stamp = journal.stamp()  # before the read: what is kept may be newer than it says, not older
        decided = ControlState() if stamp is None else journal.state()
        return cls(home, current, events, vectors, current.embedding_version, lance, decided, stamp)

    def called(self, project: str) -> str:
        """Return what a project is called now, of any name that it had."""
        return self.decided.project(project)

    def scope(self, project: str | None) -> Scope:
        """Return the scope of a project by any of its names, with all that was captured under them; None: all."""
        if project is None:
            return Scope(None)
        now, *moved = self.decided.names(project)
        return Scope(now, moved=tuple(moved))

    def renamed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows with what their projects are called now in the column `project`."""
        moves = self.decided.moves
        return rows.with_columns(pl.col("project").replace(dict(moves))) if moves and rows.height else rows

    def table(self, definition: TableDef) -> LanceTable:
        """Return a table of the same generation; one that does not exist yet reads as empty."""
        if definition.name == EVENTS.name:
            return self.events
        found = self._tables.get(definition.name)
        if found is None:
            assert self.lance is not None, "stores without a folder have events alone"
            found = self._tables[definition.name] = self.lance.open(definition, create=False)
        return found

    def refreshed(self) -> Stores:
        """Return these stores, or new ones when something was switched or decided meanwhile."""
        if self.home is None:
            return self
        if self.home.current() == self.current and ControlJournal(self.home).stamp() == self.decided_stamp:
            return self
        return Stores.open(self.home)

    def of_version(self, embedding_version: str) -> Stores:
        """Return these stores with the vectors of one embedding version and of no other, current or not."""
        return replace(self, embedding_version=embedding_version)

    def can_compare(self, encoder: QueryEncoder | None) -> bool:
        """Return whether a query's vector from this encoder may be compared with the current vectors."""
        return self.vectors is not None and encoder is not None and encoder.version == self.embedding_version

    def nearest(
        self,
        kind: ItemKind,
        text: str,
        encoder: QueryEncoder | None,
        inside: str | None,
        limit: int,
        *,
        texts: bool = False,
    ) -> pl.DataFrame:
        """Return `id`, `_distance`, `content` of the items of a kind that are nearest to a text.

        `content` is the best chunk's, null unless `texts` are asked for.

        None of them without an encoder, without vectors, or when the encoder is of another embedding version.
        """
        nothing = pl.DataFrame(schema={"id": pl.String, "_distance": pl.Float64, "content": pl.String})
        version = self.embedding_version
        if self.vectors is None or encoder is None or version is None or not self.can_compare(encoder):
            return nothing
        found = self.vectors.nearest(
            version, encoder.encode_query(text), inside, limit, [kind.value], texts=texts
        )
        if found.is_empty():
            return nothing
        of_kind = found.filter(pl.col("item_kind") == kind.value)
        return of_kind.select(
            pl.col("item_id").alias("id"), pl.col("_distance").cast(pl.Float64), pl.col("content")
        )
