"""Care of a Lance table: indexes, compaction, clean-up.

Measured at 50,000 rows: an unindexed row costs every full-text query 45 us; a delta index over 500 rows takes 0.1 s
whatever the table's size, a merge of all deltas 2 s and more as it grows; 200 small fragments make a look-up by id ten
times slower, 1,000 fifty times; compaction of 200 takes 0.3-1 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.schemas import clock, limits
from headwater.storage.faults import fault_point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.schemas.columns import TableDef

# no stemming and no stop words: both are for English alone, and code is full of stop words
_TOKENIZERS: dict[str, dict[str, Any]] = {
    "icu/split": {"base_tokenizer": "icu/split", "ascii_folding": True},
    "code": {
        "base_tokenizer": "code",
        "split_identifiers": True,
        "split_on_numerics": True,
        "preserve_original": True,
        "ascii_folding": False,
    },
    "ngram": {
        "base_tokenizer": "ngram",
        "min_ngram_length": 2,
        "max_ngram_length": 3,
        "ascii_folding": False,
    },
}
_CONFLICT = "commit conflict"
_VECTOR_INDEX = "vector_idx"


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What one round of care did. `conflicts` counts steps that a writer overtook: they are tried again next time."""

    indexed: bool = False
    merged: bool = False
    compacted: bool = False
    created: tuple[str, ...] = ()
    versions_removed: int = 0
    bytes_removed: int = 0
    conflicts: int = 0


@dataclass(slots=True)
class State:
    """What care remembers between two rounds; lost at a restart without harm."""

    version: int = -1
    fragments_left: int = 0
    cleaned_at: datetime | None = None
    cleaned_version: int = 0


def text_index(column: str) -> str:
    """Return the name of a column's full-text index."""
    return f"{column}_fts"


def scalar_index(column: str) -> str:
    """Return the name of a column's scalar index."""
    return f"{column}_idx"


def create_text_indexes(table: Any, definition: TableDef) -> None:
    """Make the full-text indexes that are missing. Idempotent.

    An empty table can have them: rows to come are found at once, and covered later.
    """
    if not definition.text:
        return
    present = {index.name for index in table.list_indices()}
    for column, tokenizer in definition.text:
        if text_index(column) not in present:
            table.to_lance().create_scalar_index(
                column,
                "INVERTED",
                name=text_index(column),
                stem=False,
                remove_stop_words=False,
                lower_case=True,
                with_position=False,
                max_token_length=limits.TOKEN_CHARS,
                **_TOKENIZERS[tokenizer],
            )


def maintain(
    table: Any, session: Any, definition: TableDef, state: State, now: datetime, *, force: bool
) -> Maintenance:
    """Do what is due, everything with `force`; Lance's exceptions pass through, but for commit conflicts.

    In order: scalar indexes from SCALAR_INDEX_ROWS; IVF_SQ from VECTOR_INDEX_ROWS; a delta index from FTS_DELTA_ROWS
    uncovered rows; one merge from FTS_MERGE_DELTAS deltas; compaction from COMPACT_COMMITS new fragments; removal of
    versions older than VERSION_KEEP_S, looked for every CLEAN_EVERY_S; after VERSIONS_MAX commits at once, and then of
    all older than VERSION_KEEP_BUSY_S, so that files stay bounded however busy the writer is.

    `session`: what is open of indexes. A delta looks at all deltas before it, which takes twice as long when each has
    to be opened anew.
    """
    done = _Round(table, session)
    if force or table.version != state.version:
        rows = table.count_rows()
        done.create_missing(definition, rows, force=force)
        fault_point("table.maintained")
        done.index(force=force)
        fragments = _fragment_count(table)
        if rows and (fragments - state.fragments_left >= limits.COMPACT_COMMITS or (force and fragments > 1)):
            done.compact()
            state.fragments_left = _fragment_count(table)
        state.version = table.version
    busy = table.version - state.cleaned_version >= limits.VERSIONS_MAX
    if state.cleaned_at is None and not (force or busy or done.has_old(limits.VERSION_KEEP_S)):
        state.cleaned_at = now
    due = state.cleaned_at is None or (now - state.cleaned_at).total_seconds() >= limits.CLEAN_EVERY_S
    if force or due or busy:
        done.clean(limits.VERSION_KEEP_BUSY_S if busy else limits.VERSION_KEEP_S)
        state.cleaned_at, state.cleaned_version = now, table.version
    return done.report()


def joined(fragments: Sequence[tuple[int, int, int]], rows_min: int) -> list[list[int]]:
    """Return the groups of neighbouring fragments (id, rows, deleted rows) that are to become one each.

    Those with `rows_min` live rows stay, unless over DELETED_SHARE_MAX of their rows are deleted. No group has twice
    `rows_min` live rows, but for one fragment alone.
    """
    groups: list[list[int]] = []
    group: list[int] = []
    size = 0
    for id_, rows, deleted in fragments:
        live, is_worn = rows - deleted, deleted > limits.DELETED_SHARE_MAX * rows
        if live >= rows_min:
            groups += [group, [id_] if is_worn else []]
            group, size = [], 0
            continue
        group.append(id_)
        size += live
        if size >= rows_min:
            groups.append(group)
            group, size = [], 0
    groups.append(group)
    worn = {id_ for id_, rows, deleted in fragments if deleted > limits.DELETED_SHARE_MAX * rows}
    return [one for one in groups if len(one) > 1 or worn.intersection(one)]


def _fragment_count(table: Any) -> int:
    return int(table.stats()["fragment_stats"]["num_fragments"])


class _Round:
    """One round of care and what it has done so far."""

    def __init__(self, table: Any, session: Any) -> None:
        self.table = table
        self._session = session
        self.indexed = False
        self.merged = False
        self.compacted = False
        self.created: list[str] = []
        self.removed: Any = None
        self.conflicts = 0

    def _dataset(self) -> Any:
        return self.table.to_lance(session=self._session)

    def create_missing(self, definition: TableDef, rows: int, *, force: bool) -> None:
        """Make scalar indexes (of a small table they are of no use) and, for many rows, the vector index."""
        if not rows or (rows < limits.SCALAR_INDEX_ROWS and not force):
            return
        present = {index.name for index in self.table.list_indices()}
        for column, index_type in definition.scalar:
            name = scalar_index(column)
            if name not in present and self._tried(
                lambda column=column, index_type=index_type, name=name: self._dataset().create_scalar_index(
                    column, index_type, name=name
                )
            ):
                self.created.append(name)
        has_vector = any(column.name == "vector" for column in definition.columns)
        wanted = has_vector and rows >= limits.VECTOR_INDEX_ROWS and _VECTOR_INDEX not in present
        if wanted and self._tried(self._create_vector_index):
            self.created.append(_VECTOR_INDEX)

    def _create_vector_index(self) -> None:
        from lancedb.index import IvfSq

        self.table.create_index("vector", config=IvfSq(distance_type="cosine"), name=_VECTOR_INDEX)

    def index(self, *, force: bool) -> None:
        """Cover new rows: by a delta, or by one merge of everything when there are too many deltas."""
        indexes = self.table.list_indices()
        uncovered = max((index.num_unindexed_rows or 0 for index in indexes), default=0)
        deltas = max((index.num_segments or 0 for index in indexes), default=0)
        if deltas >= limits.FTS_MERGE_DELTAS or (force and (deltas > 1 or uncovered)):
            self.merged = self._tried(lambda: self._optimize(deltas))
        elif uncovered >= limits.FTS_DELTA_ROWS:
            self.indexed = self._tried(lambda: self._optimize(0))

    def _optimize(self, merge: int) -> None:
        self._dataset().optimize.optimize_indices(num_indices_to_merge=merge)

    def compact(self) -> None:
        """Join small fragments; those of COMPACT_ROWS stay as they are, so the cost does not grow with the table.

        Each group is written alone: Lance 14 cannot write a batch of nullable structs across the border of two files,
        which it has to when it joins more than twice COMPACT_ROWS at once. All are one commit: with each, the indexes
        are written anew, which costs more than the rows do.
        """
        dataset = self._dataset()
        found = [(one.fragment_id, one.physical_rows, one.num_deletions) for one in dataset.get_fragments()]
        groups = joined(found, limits.COMPACT_ROWS)
        if groups:
            self.compacted = self._tried(lambda: _compact(dataset, [id_ for id_, *_ in found], groups))

    def has_old(self, keep_s: float) -> bool:
        """Return whether any version but the newest is older than `keep_s`: Lance would list all files to see that."""
        if self.table.version < limits.VERSIONS_YOUNG:
            return False
        made = sorted(path.stat().st_mtime for path in (Path(self._dataset().uri) / "_versions").iterdir())
        return bool(made) and len(made) > 1 and made[0] < clock.SYSTEM.now().timestamp() - keep_s

    def clean(self, keep_s: float) -> None:
        """Remove old versions, but no file that a reader of a version younger than `keep_s` may need."""
        keep = timedelta(seconds=keep_s)
        self.removed = self._dataset().cleanup_old_versions(
            older_than=keep, error_if_tagged_old_versions=False
        )

    def _tried(self, call: Any) -> bool:
        try:
            call()
        except (OSError, RuntimeError, ValueError) as error:
            if _CONFLICT not in str(error).lower():
                raise
            self.conflicts += 1
            return False
        return True

    def report(self) -> Maintenance:
        """Return what was done."""
        return Maintenance(
            indexed=self.indexed,
            merged=self.merged,
            compacted=self.compacted,
            created=tuple(self.created),
            versions_removed=0 if self.removed is None else int(self.removed.old_versions),
            bytes_removed=0 if self.removed is None else int(self.removed.bytes_removed),
            conflicts=self.conflicts,
        )


def _compact(dataset: Any, ids: Sequence[int], groups: Sequence[Sequence[int]]) -> None:
    from lance.optimize import Compaction

    rewritten: list[Any] = []
    for group in groups:
        others = [id_ for id_ in ids if id_ not in group]
        options: Any = {"target_rows_per_fragment": limits.COMPACT_ROWS, "excluded_fragment_ids": others}
        rewritten += [task.execute(dataset) for task in Compaction.plan(dataset, options).tasks]
    if rewritten:
        Compaction.commit(dataset, rewritten)
