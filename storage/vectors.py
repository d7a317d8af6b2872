"""Vector tables: one per item kind and embedding version, each item with one whole set of chunks."""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from headwater.schemas import limits
from headwater.schemas.columns import vectors_def
from headwater.schemas.errors import InputError, StoreError
from headwater.schemas.events import ItemKind
from headwater.schemas.ids import vector_id
from headwater.storage.faults import fault_point
from headwater.storage.locks import wait_for_lock
from headwater.storage.models import dim_of_version, version_slug
from headwater.storage.tables import LanceStore, LanceTable, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headwater.storage.home import Home

_FOUND = ("item_id", "chunk_n")
_KEYS = ("item_kind", "item_id", "content_hash")
_CHUNKS_ASKED = (
    2  # rows asked for per wanted item at first: most items have one chunk; more are asked for when too few
)


def table_name(item_kind: str, version: str) -> str:
    """Return `<item_kind>_vectors_<version>`, of letters, digits and underscores only."""
    return f"{item_kind}_vectors_{version_slug(version)}"


def lock_name(version: str) -> str:
    """Return the name of the lock file in `run/` that the one writer of a version holds."""
    return f"vectors-{version_slug(version)}.lock"


@dataclass(frozen=True, slots=True)
class VectorSet:
    """All vectors of one item: `vectors[n]`, float32 of unit length, is that of the text `chunks[n]`.

    `content_hash` is of the item's text that was embedded; `at` is when the item happened, aware UTC.
    """

    item_id: str
    content_hash: str
    project: str
    session_id: str | None
    agent: str | None
    kind: str | None
    at: datetime
    chunks: tuple[str, ...]
    vectors: npt.NDArray[np.float32]


class VectorStore:
    """All vector tables of a home. Making one touches nothing; safe to share between threads.

    One process at a time writes a version (see `lock_name`); any number read. Vectors of two versions never meet: each
    call names its version.
    """

    def __init__(self, home: Home) -> None:
        """Remember the folder."""
        self._home = home
        self._store = LanceStore(home.vectors)
        self._tables: dict[str, LanceTable] = {}
        self._made: set[str] = set()
        self._guard = threading.Lock()

    # --- writing ---

    def put(self, item_kind: str, version: str, sets: Sequence[VectorSet], now: datetime) -> None:
        """Replace the vector sets of items of one kind; a set without chunks leaves its item without vectors.

        Idempotent, durable when it returns. Writers are let in one after the other, whoever they are: each looks at
        what is there now, so that an item written by several at a time, through handles of any age, has one set. At
        every moment an item that had vectors and gets new ones has some, and all of one set: chunks that the new set
        no longer has go first, then one commit puts the new ones in the place of the others. Raises BusyError when
        another writer does not let go.
        """
        rows = vector_rows(item_kind, version, sets, now)
        lock = self._home.run / f"write-{lock_name(version)}"
        with wait_for_lock(lock, f"writing vectors of {version}", limits.WRITE_WAIT_S):
            self._put(item_kind, version, sets, rows)

    def _put(self, item_kind: str, version: str, sets: Sequence[VectorSet], rows: pa.Table) -> None:
        ids = rows.column("id").to_pylist()
        table = self._table(item_kind, version, create=bool(ids))
        held = (
            table.by_ids([one.item_id for one in sets], ["id"], id_column="item_id")
            .get_column("id")
            .to_list()
        )
        _delete(table, "id", sorted(set(held) - set(ids)))
        fault_point("embed.trimmed")
        if set(held) & set(ids):
            table.upsert(rows)
        elif ids:
            table.add(rows)  # the usual case; looking for each id costs more the larger the table is
        fault_point("embed.written")

    def delete_items(self, item_kind: str, item_ids: Sequence[str], version: str | None = None) -> None:
        """Delete the vectors of items, of one version or (None) of all. Idempotent."""
        for name in self._names(item_kind, version):
            _delete(self._open(name), "item_id", item_ids)

    def drop(self, version: str) -> None:
        """Delete all vectors of a version; nothing when there are none."""
        for kind in ItemKind:
            name = table_name(kind, version)
            with self._guard:
                self._tables.pop(name, None)
            self._store.drop(name)

    def maintain(self, version: str, now: datetime, *, force: bool = False) -> None:
        """Do the care that is due in each table of a version: see `LanceTable.maintain`."""
        for kind in ItemKind:
            self._table(kind, version).maintain(now, force=force)

    def mend(self, version: str) -> None:
        """Move aside those tables of a version that cannot be read: for its one writer, see `LanceTable.create`.

        Their items have no vectors then, and the comparison of items with vectors asks for them again.
        """
        for kind in ItemKind:
            if table_name(kind, version) in self._store.names():
                self._table(kind, version, create=True)

    def check_writable(self) -> None:
        """Raise StoreError when the disk takes nothing where the tables are; nothing is left there."""
        folder = self._store.folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(limits.DISK_PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(
                str(folder), f"cannot be written: {error}", "free disk space and check its permissions"
            ) from error

    # --- reading ---

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
        """Return the `limit` nearest items of a version, nearest first, each by its best chunk.

        `kinds`: of these item kinds; None: of all. `texts`: with the text of that chunk, which takes time.

        The filter comes before the choice of the nearest. Columns: item_kind, item_id, chunk_n, content (null without
        `texts`), _distance (cosine, 0 to 2).
        """
        found = [
            self._best_chunks(self._table(kind, version), vector, where, limit, texts=texts).with_columns(
                pl.lit(str(kind)).alias("item_kind")
            )
            for kind in kinds or ItemKind
        ]
        return pl.concat(found).sort("_distance", "item_kind", "item_id").head(limit)

    def item_ids(self, version: str) -> pl.DataFrame:
        """Return item_kind, item_id, content_hash of every vector set of a version, in no particular order."""
        found = [self._table(kind, version).scan(list(_KEYS)) for kind in ItemKind]
        return pl.concat(found).unique()

    def hashes(self, item_kind: str, version: str, item_ids: Sequence[str]) -> dict[str, str]:
        """Return item id -> content hash of those of the items that have a vector set."""
        table = self._table(item_kind, version)
        rows = table.by_ids(item_ids, ["item_id", "content_hash"], id_column="item_id")
        return dict(rows.iter_rows())

    def heads(self, version: str, item_kind: str, where: str) -> pl.DataFrame:
        """Return item_id, project and at of the items of one kind that have vectors of a version, by a filter."""
        return self._table(item_kind, version).scan(
            ["item_id", "project", "at"], f"chunk_n = 0 AND ({where})"
        )

    def first_vectors(
        self, item_kind: str, version: str, item_ids: Sequence[str]
    ) -> dict[str, npt.NDArray[np.float32]]:
        """Return item id -> vector of the first chunk, of those of the items that have one."""
        table = self._table(item_kind, version)
        rows = table.by_ids(item_ids, ["item_id", "chunk_n", "vector"], id_column="item_id")
        first = rows.filter(pl.col("chunk_n") == 0)
        vectors = first.get_column("vector").to_numpy()
        return dict(zip(first.get_column("item_id").to_list(), vectors, strict=True))

    def count_items(self, version: str, item_kind: str | None = None) -> int:
        """Return how many items have vectors, of one kind or of all; each set has exactly one first chunk."""
        kinds = [kind.value for kind in ItemKind] if item_kind is None else [item_kind]
        return sum(self._table(kind, version).count("chunk_n = 0") for kind in kinds)

    def tables(self, version: str) -> list[LanceTable]:
        """Return the tables of a version that exist, to be looked at."""
        names = [table_name(kind, version) for kind in ItemKind]
        return [self._open(name) for name in names if name in self._store.names()]

    def versions(self) -> dict[str, int]:
        """Return embedding version -> how many items have vectors of it, of every version that has any, sorted."""
        found = {
            row
            for name in self.names()
            for row in self._open(name).scan(["embedding_version"], limit=1).rows()
        }
        return {version: self.count_items(version) for (version,) in sorted(found)}

    def names(self) -> list[str]:
        """Return the names of the tables that exist, of all versions."""
        return self._store.names()

    # --- inside ---

    def _best_chunks(
        self, table: LanceTable, vector: Any, where: str | None, limit: int, *, texts: bool
    ) -> pl.DataFrame:
        """Return the nearest items of one table: more rows are asked for until there are enough different items."""
        asked = limit * _CHUNKS_ASKED
        while True:
            rows = table.nearest(vector, where, asked, [*_FOUND, *(["content"] if texts else [])])
            if not texts:
                rows = rows.with_columns(pl.lit(None, pl.String).alias("content"))
            best = rows.unique("item_id", keep="first", maintain_order=True)
            if best.height >= limit or rows.height < asked:
                return best.head(limit)
            asked *= 2

    def _table(self, item_kind: str, version: str, *, create: bool = False) -> LanceTable:
        name = table_name(item_kind, version)
        with self._guard:
            table = self._tables.get(name)
            if table is None:
                definition = vectors_def(dim_of_version(version))
                table = self._tables[name] = self._store.open(definition, name, create=False)
        if create and (name not in self._made or table.version == 0):
            table.create()
            self._made.add(name)
        return table

    def _names(self, item_kind: str, version: str | None) -> list[str]:
        if version is not None:
            return [table_name(item_kind, version)]
        return [name for name in self._store.names() if name.startswith(f"{item_kind}_vectors_")]

    def _open(self, name: str) -> LanceTable:
        dim = name.rsplit("_", 2)[1]
        return self._store.open(vectors_def(int(dim)), name, create=False)


def vector_rows(item_kind: str, version: str, sets: Sequence[VectorSet], now: datetime) -> pa.Table:
    """Return the rows of `vectors_def` of some sets, in order."""
    dim = dim_of_version(version)
    full = [one for one in sets if one.chunks]
    for one in full:
        if one.vectors.shape != (len(one.chunks), dim):
            raise InputError(
                f"vectors of {item_kind}:{one.item_id}",
                f"wanted {len(one.chunks)} of {dim} numbers, got shape {one.vectors.shape}",
                f"encode them with the model of version {version}",
            )
    flat = np.concatenate([one.vectors for one in full]) if full else np.empty((0, dim), np.float32)
    places = [(one, n) for one in full for n in range(len(one.chunks))]
    columns: dict[str, Any] = {
        "id": [vector_id(item_kind, one.item_id, n) for one, n in places],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel(), pa.float32()), dim),
        "content": [one.chunks[n] for one, n in places],
        "item_kind": [str(item_kind)] * len(places),
        "item_id": [one.item_id for one, _ in places],
        "chunk_n": [n for _, n in places],
        "content_hash": [one.content_hash for one, _ in places],
        "embedding_version": [version] * len(places),
        "project": [one.project for one, _ in places],
        "session_id": [one.session_id for one, _ in places],
        "agent": [one.agent for one, _ in places],
        "kind": [one.kind for one, _ in places],
        "at": [one.at for one, _ in places],
        "indexed_at": [now] * len(places),
    }
    return pa.table(columns, schema=vectors_def(dim).arrow())


def _delete(table: LanceTable, column: str, values: Sequence[str]) -> None:
    for n in range(0, len(values), limits.IDS_PER_FILTER):
        some = values[n : n + limits.IDS_PER_FILTER]
        table.delete(f"{column} IN ({', '.join(map(quote, some))})")
