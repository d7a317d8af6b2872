"""Lance tables: one folder of them, and what we do with one.

lancedb takes 1-3 s to import, so nothing here imports it before a table is opened. Facts that shape this module, all
measured with lancedb 0.40: without a primary key, concurrent upserts of the same new keys leave duplicate rows without
an error; with one, an upsert that goes through an index on the key does so again, hence `use_index(False)`; a batch
that holds a key twice leaves two rows, hence `last_wins`.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import polars as pl
import pyarrow as pa

from headwater.schemas import limits
from headwater.schemas.errors import DamagedError, HeadwaterError, InputError, StoreError
from headwater.schemas.text import clean_text
from headwater.storage import table_damage, table_maintenance, table_reads
from headwater.storage.mending import set_aside
from headwater.storage.panics import panics_as_errors
from headwater.storage.table_damage import MISSING_FILE, map_error, says
from headwater.storage.table_reads import TableView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from headwater.schemas.columns import TableDef
    from headwater.storage.table_maintenance import Maintenance

T = TypeVar("T")

_PRIMARY_KEY = b"lance-schema:unenforced-primary-key"
_CONFLICT = ("commit conflict", "preempted by concurrent", "too many concurrent writers")


def quote(value: str) -> str:
    """Return the text as an SQL string literal for a Lance filter; whatever it holds, it stays one literal."""
    return "'" + clean_text(value).replace("'", "''") + "'"


def last_wins(rows: pa.Table, key: str) -> pa.Table:
    """Return the rows with each key once, its last row, in the order of those. Raises InputError for a null key."""
    keys = rows.column(key).to_pylist()
    if None in keys:
        raise InputError(
            f"column {key}", "wanted a key in every row, got null", "give each row its id before writing it"
        )
    last = {value: n for n, value in enumerate(keys)}
    return rows if len(last) == len(keys) else rows.take(pa.array(sorted(last.values()), pa.int64()))


class LanceStore:
    """A folder of Lance tables. Making one touches nothing; safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        """Remember the folder."""
        self.folder = folder
        self._db: Any = None
        self._session: Any = None
        self._lock = threading.Lock()

    def open(self, definition: TableDef, name: str | None = None, *, create: bool = True) -> LanceTable:
        """Return the table of that definition, named like it unless `name` is given.

        With `create` it is made when missing, with its primary key and text indexes. Without, nothing is written: a
        table that does not exist reads as empty until somebody makes it. Idempotent. Raises StoreError, and
        DamagedError when the table that is there lacks columns of the definition.
        """
        table = LanceTable(self, definition, definition.name if name is None else name)
        if create:
            table.create()
        return table

    def names(self) -> list[str]:
        """Return the names of all tables, sorted."""
        return sorted(path.stem for path in self.folder.glob("*.lance") if path.is_dir())

    def drop(self, name: str) -> None:
        """Delete a table with all its versions; nothing when there is none. Raises StoreError."""
        if name in self.names():
            try:
                with panics_as_errors():
                    self.connection().drop_table(name, ignore_missing=True)
            except Exception as error:
                raise map_error(error, f"table {name}") from error

    def connection(self) -> Any:
        """Return the lancedb connection, made at the first use; reads through it see the newest commits."""
        with self._lock:
            if self._db is None:
                import lancedb

                session = lancedb.Session(
                    index_cache_size_bytes=limits.INDEX_CACHE_BYTES,
                    metadata_cache_size_bytes=limits.METADATA_CACHE_BYTES,
                )
                self._db = lancedb.connect(
                    str(self.folder), read_consistency_interval=timedelta(0), session=session
                )
            return self._db

    def session(self) -> Any:
        """Return what all reads of the folder's tables share: open indexes and manifests, in bounds."""
        with self._lock:
            if self._session is None:
                self._session = table_reads.new_session()
            return self._session

    def forget(self) -> None:
        """Let go of all that is remembered of files: a table was put in the place of another."""
        with self._lock:
            self._db = self._session = None


class LanceTable:
    """One table. Safe to share between threads of one process; other processes open their own.

    Writes are one commit each and survive the death of the process when they return (a power cut may lose the newest,
    which the journal gives back). Each call sees the newest commit of any process. A file that clean-up took from under
    a call is looked for once more in the newest version. Lance's own errors come out as StoreError (try again),
    DamagedError (rebuild) or InputError (a filter or column that means nothing).
    """

    def __init__(self, store: LanceStore, definition: TableDef, name: str) -> None:
        """Remember what to open; `LanceStore.open` is the way in."""
        self.definition = definition
        self.name = name
        self._store = store
        self._folder = store.folder / f"{name}.lance"
        self._handle: Any = None
        self._inode = 0
        self._state = table_maintenance.State()
        self._maintaining = threading.Lock()
        self._empties: dict[tuple[str | None, ...], pl.DataFrame] = {}

    # --- writing ---

    def create(self) -> None:
        """Make the table with primary key and text indexes, or complete one whose maker died. Idempotent.

        For its one writer: a table whose rows cannot be read is moved aside first, with a line in the log, and the new
        one is empty; indexes that cannot be read are made again.
        """
        self._mend()
        if self._open() is None:
            self._guard(self._make)
        handle = self._require()
        missing = [c.name for c in self.definition.columns if c.name not in handle.schema.names]
        if missing:
            raise DamagedError(
                self._where(),
                f"wanted columns {', '.join(missing)}, found none",
                "run: headwater down, move this table's folder away, then: headwater up, which makes it again",
            )
        self._guard(lambda: table_maintenance.create_text_indexes(self._require(), self.definition))

    def add(self, rows: pa.Table) -> None:
        """Append rows whose keys are known to be new: one commit, none for no rows. Not idempotent."""
        if rows.num_rows:
            self._write(lambda table: table.add(rows), tries=1)

    def upsert(self, rows: pa.Table) -> None:
        """Insert or replace rows by primary key, a key's last row wins: one commit, none for no rows. Idempotent."""
        batch = last_wins(rows, self.definition.key)
        if batch.num_rows:
            self._write(lambda table: _merge(table, self.definition.key, batch))

    def delete(self, where: str) -> None:
        """Delete the rows of a filter: one commit. Idempotent; nothing when the table does not exist."""
        if self._open() is not None:
            self._write(lambda table: table.delete(where))

    # --- reading ---

    def count(self, where: str | None = None) -> int:
        """Return how many rows there are, or how many a filter lets through."""
        return self._read(lambda table: int(table.count_rows(where)), 0)

    def scan(
        self, columns: Sequence[str], where: str | None = None, limit: int | None = None
    ) -> pl.DataFrame:
        """Return rows in no particular order; filter and columns are pushed into Lance."""
        return self._read(lambda _: self._view().scan(columns, where, limit), self._empty(columns))

    def by_ids(
        self, ids: Sequence[str], columns: Sequence[str] | None = None, id_column: str = "id"
    ) -> pl.DataFrame:
        """Return the rows whose `id_column` is one of the ids, in no particular order; unknown ids give none."""
        names = [c.name for c in self.definition.columns] if columns is None else list(columns)
        wanted = list(dict.fromkeys(ids))
        parts = [
            self.scan(
                names, f"{id_column} IN ({', '.join(map(quote, wanted[n : n + limits.IDS_PER_FILTER]))})"
            )
            for n in range(0, len(wanted), limits.IDS_PER_FILTER)
        ]
        return pl.concat(parts) if parts else self._empty(names)

    def match(
        self, text: str, column: str, where: str | None, limit: int, columns: Sequence[str]
    ) -> pl.DataFrame:
        """Return the `limit` best rows by BM25 of any word of the text in one column, best first, with `_score`.

        The filter comes before the choice of the best. Rows that no index covers yet are found as well. Never raises
        for any text; one without words gives no rows.
        """
        words = clean_text(text[: limits.QUERY_CHARS]).strip()
        empty = self._empty(columns, "_score")
        if not words:
            return empty

        def run(_: Any) -> pl.DataFrame:
            found = self._view().match(words, column, where, limit, columns)
            return empty if found is None else found

        return self._read(run, empty)

    def nearest(self, vector: Any, where: str | None, limit: int, columns: Sequence[str]) -> pl.DataFrame:
        """Return the `limit` rows whose `vector` is nearest by cosine, nearest first, with `_distance` in [0, 2].

        The filter comes before the choice of the nearest. Exact below VECTOR_INDEX_ROWS rows.
        """
        return self._read(
            lambda _: self._view().nearest(vector, where, limit, columns), self._empty(columns, "_distance")
        )

    def view(self, call: Callable[[TableView], T]) -> T | None:
        """Return what `call` reads of the newest version, in one view of it; None when the table does not exist.

        It is called once more, with a newer view, when a file was taken from under it.
        """
        return self._read(lambda _: call(self._view()), None)

    @property
    def version(self) -> int:
        """The number of the newest commit; 0 when the table does not exist."""
        return self._read(lambda table: int(table.version), 0)

    def why_damaged(self) -> str | None:
        """Return what is wrong with the table as far as one can see from outside; None when nothing is."""
        return table_damage.look(self._open, self._folder)

    # --- care ---

    def maintain(self, now: datetime, *, force: bool = False) -> Maintenance:
        """Do the care that is due, all of it with `force`: see `table_maintenance.maintain`.

        Cheap when nothing is due (about 2 ms), else 0.1 s to some seconds: call it beside the writes, not between them.
        A second call at the same time returns at once. Raises DamagedError when somebody could not read the table:
        `create`, at the writer's next start, looks and mends.
        """
        table = self._open()
        if table is not None and table_damage.is_suspect(self._folder):
            raise DamagedError(self._where(), "a reader found it damaged", table_damage.FIX)
        if table is None or not self._maintaining.acquire(blocking=False):
            return table_maintenance.Maintenance()
        try:
            return self._guard(
                lambda: table_maintenance.maintain(
                    self._require(), self._store.session(), self.definition, self._state, now, force=force
                )
            )
        finally:
            self._maintaining.release()

    # --- inside ---

    def _mend(self) -> None:
        """Move the table aside when its rows cannot be read, drop its indexes when those cannot."""
        doubted = table_damage.is_suspect(self._folder)
        try:
            table = self._open(again=doubted)
            look = table_damage.broken_data
            why = self._guard(lambda: None if table is None else look(table, self._folder, deep=doubted))
        except DamagedError as error:
            if not table_damage.has_handles():
                raise
            table, why = None, error.problem
        if why is not None:
            set_aside(self._folder, why)
            self._handle = None
            self._store.forget()
        elif table is not None and (
            doubted or self._guard(lambda: table_damage.broken_indexes(table, self._folder))
        ):
            self._guard(lambda: table_damage.drop_indexes(table, self._where()))
        if doubted:
            self._guard(lambda: table_damage.clear(self._folder))

    def _view(self) -> TableView:
        return TableView(self._folder, self._store.session())

    def _where(self) -> str:
        return f"table {self.name} in {self._store.folder}"

    def _empty(self, columns: Sequence[str], score: str | None = None) -> pl.DataFrame:
        key = (*columns, score)
        if key not in self._empties:  # made once: it takes as long as a small read
            schema = self.definition.arrow()
            frame = _frame(pa.schema([schema.field(name) for name in columns]).empty_table())
            frame = frame if score is None else frame.with_columns(pl.Series(score, [], pl.Float32))
            self._empties[key] = frame
        return self._empties[key]

    def _make(self) -> None:
        schema = self.definition.arrow()
        key = schema.get_field_index(self.definition.key)
        # set with the table's first version: a process that dies here cannot leave a table without its key
        schema = schema.set(key, schema.field(key).with_metadata({_PRIMARY_KEY: b"true"}))
        try:
            self._handle = self._store.connection().create_table(self.name, schema=schema)
        except (OSError, RuntimeError, ValueError) as error:
            if "exists" not in str(error).lower():
                raise
            self._handle = None  # another process was faster

    def _open(self, *, again: bool = False) -> Any:
        """Return the lancedb table, None when there is none yet; one put in its place meanwhile is opened anew."""
        try:
            inode = self._folder.stat().st_ino
        except FileNotFoundError:
            self._handle = None
            return None
        except OSError as error:
            raise map_error(error, self._where()) from error
        if self._handle is None or again or inode != self._inode:
            if again or (self._inode and inode != self._inode):
                self._store.forget()
            self._handle = None
            if any((self._folder / "_versions").glob("*.manifest")):
                try:
                    with panics_as_errors():
                        self._handle = self._store.connection().open_table(self.name)
                except Exception as error:
                    raise self._told(error) from error
                self._inode = inode
        return self._handle

    def _require(self) -> Any:
        table = self._open()
        if table is None:
            raise StoreError(self._where(), "wanted a table to write to, found none", "run: headwater up")
        return table

    def _guard(self, call: Callable[[], T]) -> T:
        try:
            with panics_as_errors():
                return call()
        except Exception as error:
            raise self._told(error) from error

    def _told(self, error: Exception) -> HeadwaterError:
        """Return what an exception means; damage is noted for the writer as well."""
        meant = map_error(error, self._where())
        if isinstance(meant, DamagedError):
            table_damage.suspect(self._folder)
        return meant

    def _read(self, call: Callable[[Any], T], empty: T) -> T:
        table = self._open()
        if table is None:
            return empty
        try:
            with panics_as_errors():
                return call(table)
        except HeadwaterError:  # of another table that is read inside a view
            raise
        except Exception as error:
            if not says(error, MISSING_FILE):
                raise self._told(error) from error
        table = self._open(again=True)
        return empty if table is None else self._guard(lambda: call(table))

    def _write(self, call: Callable[[Any], object], tries: int = limits.COMMIT_TRIES) -> None:
        for left in reversed(range(tries)):
            try:
                with panics_as_errors():
                    call(self._require())
            except Exception as error:
                if not left or not says(error, _CONFLICT):
                    raise self._told(error) from error
            else:
                return


def _merge(table: Any, key: str, rows: pa.Table) -> None:
    builder = table.merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
    builder.use_index(False).execute(rows)


def _frame(table: pa.Table) -> pl.DataFrame:
    return cast("pl.DataFrame", pl.from_arrow(table))
