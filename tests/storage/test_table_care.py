from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.schemas import limits
from headwater.schemas.columns import EVENTS, events_to_arrow, vectors_def
from headwater.schemas.events import ToolCall
from headwater.storage import table_maintenance
from headwater.storage.tables import LanceStore

if TYPE_CHECKING:
    from headwater.storage.tables import LanceTable
from lance_rows import NOW, event, ids, rows


def vectors(*points: tuple[float, float], project: str = "p") -> pa.Table:
    """Rows of one chunk per point."""
    base = {"content": "", "item_kind": "entry", "chunk_n": 0, "content_hash": "", "embedding_version": "v"}
    return pa.Table.from_pylist(
        [
            {
                **base,
                "id": f"{project}{n}",
                "item_id": f"{n}",
                "vector": [x, y],
                "project": project,
                "at": NOW,
                "indexed_at": NOW,
            }
            for n, (x, y) in enumerate(points)
        ],
        schema=vectors_def(2).arrow(),
    )


class TestVectors:
    """Vector search."""

    def test_nearest_by_cosine_inside_the_filter(self, store: LanceStore) -> None:
        """The nearest rows of the scope come nearest first, with their cosine distance."""
        table = store.open(vectors_def(2), "v")
        query = np.array([1.0, 0.0], dtype=np.float32)
        assert table.nearest(query, None, 5, ["id"]).columns == ["id", "_distance"]
        table.add(vectors((1, 0), (1, 0.1), project="q"))
        table.add(vectors((0, 1), (1, 1)))
        found = table.nearest(query, "project = 'p'", 1, ["id", "item_id"])
        assert found.get_column("id").to_list() == ["p1"]
        assert found.get_column("_distance").to_list() == pytest.approx([1 - 2**-0.5], abs=1e-5)

    def test_vector_index_is_made_when_there_are_many_rows(
        self, store: LanceStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """From VECTOR_INDEX_ROWS rows an index answers, and rows written after it are found as well."""
        monkeypatch.setattr(limits, "VECTOR_INDEX_ROWS", 300)
        table = store.open(vectors_def(2), "v")
        angles = np.linspace(0, np.pi, 300)
        table.add(vectors(*zip(np.cos(angles).tolist(), np.sin(angles).tolist(), strict=True)))
        assert "vector_idx" in table.maintain(NOW).created
        table.add(vectors((-1.0, -0.2), project="new"))
        query = np.array([-1.0, -0.2], dtype=np.float32)
        assert table.nearest(query, None, 1, ["id"]).get_column("id").to_list() == ["new0"]
        assert table.maintain(NOW).created == ()


class TestMaintenance:
    """Care of a table."""

    def test_nothing_is_due_on_an_empty_or_unchanged_table(self, events: LanceTable) -> None:
        """Care of a table that did not change makes no commit."""
        events.maintain(NOW)
        events.add(rows(1))
        events.maintain(NOW)
        before = events.version
        assert events.maintain(NOW) == table_maintenance.Maintenance()
        assert events.version == before

    def test_delta_index_covers_new_rows_with_the_same_results(
        self, events: LanceTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """From FTS_DELTA_ROWS new rows an index is added beside the old one; what is found stays the same."""
        monkeypatch.setattr(limits, "FTS_DELTA_ROWS", 10)
        events.add(events_to_arrow([event(n, f"word{n % 7} same") for n in range(30)]))
        assert events.maintain(NOW).indexed
        events.add(events_to_arrow([event(n, f"word{n % 7} same") for n in range(30, 50)]))
        before = [sorted(ids(events, f"word{n}", "content")) for n in range(7)]
        index = table_maintenance.text_index("content")
        assert events._require().index_stats(index).num_unindexed_rows == 20
        segments = events._require().index_stats(index).num_indices
        assert events.maintain(NOW).indexed
        stats = events._require().index_stats(index)
        assert (stats.num_unindexed_rows, stats.num_indices) == (0, segments + 1)
        assert [sorted(ids(events, f"word{n}", "content")) for n in range(7)] == before

    def test_many_deltas_are_merged_into_one(
        self, events: LanceTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """From FTS_MERGE_DELTAS indexes on a column there is one again, and it finds everything."""
        monkeypatch.setattr(limits, "FTS_DELTA_ROWS", 1)
        monkeypatch.setattr(limits, "FTS_MERGE_DELTAS", 4)
        merged = []
        for n in range(6):
            events.add(events_to_arrow([event(n, f"same word{n}")]))
            merged.append(events.maintain(NOW).merged)
        assert any(merged)
        assert events._require().index_stats(table_maintenance.text_index("content")).num_indices < 4
        assert len(ids(events, "same", "content")) == 6

    @pytest.mark.parametrize(
        ("fragments", "groups"),
        [
            ([], []),
            ([(1, 10, 0)], []),  # alone, and nothing deleted
            ([(1, 10, 0), (2, 20, 0)], [[1, 2]]),
            ([(1, 10, 0), (2, 100, 0), (3, 20, 0), (4, 5, 0)], [[3, 4]]),  # a large one parts its neighbours
            ([(1, 60, 0), (2, 60, 0), (3, 60, 0), (4, 60, 0)], [[1, 2], [3, 4]]),  # never twice a hundred
            ([(1, 99, 0), (2, 99, 0), (3, 99, 0)], [[1, 2]]),
            ([(1, 120, 12), (2, 120, 13)], [[2]]),  # over a tenth deleted
            ([(1, 50, 6)], [[1]]),
        ],
    )
    def test_neighbours_become_one_fragment_each_of_a_bounded_size(
        self, fragments: list[tuple[int, int, int]], groups: list[list[int]]
    ) -> None:
        """Fragments (id, rows, deleted) below a hundred live rows are joined with their neighbours."""
        assert limits.DELETED_SHARE_MAX == 0.1
        assert table_maintenance.joined(fragments, 100) == groups

    def test_structs_without_a_value_are_compacted_however_many(
        self, store: LanceStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Events without a tool among those with one: no batch of them may lie across two files."""
        monkeypatch.setattr(limits, "COMPACT_ROWS", 2000)
        table = store.open(EVENTS)
        for start in range(0, 4500, 900):
            told = [event(n, f"words {n}") for n in range(start, start + 900)]
            table.add(
                events_to_arrow(
                    [
                        replace(one, tool=ToolCall("Bash", one.id)) if n % 3 else one
                        for n, one in enumerate(told)
                    ]
                )
            )
        before = table.scan(["id", "tool"]).sort("id")
        assert table.maintain(NOW, force=True).compacted
        assert table.scan(["id", "tool"]).sort("id").equals(before)

    def test_many_commits_are_compacted_and_old_versions_removed_in_time(
        self, events: LanceTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After COMPACT_COMMITS commits few fragments are left; versions go only when older than VERSION_KEEP_S."""
        monkeypatch.setattr(limits, "COMPACT_COMMITS", 10)
        for n in range(12):
            events.add(events_to_arrow([event(n, "same")]))
        done = events.maintain(NOW)
        assert done.compacted
        assert done.versions_removed == 0
        assert len(ids(events, "same", "content")) == events.count() == 12
        monkeypatch.setattr(limits, "VERSION_KEEP_S", 0.0)
        assert events.maintain(NOW + timedelta(seconds=limits.CLEAN_EVERY_S - 1)).versions_removed == 0
        assert events.maintain(NOW + timedelta(seconds=limits.CLEAN_EVERY_S)).versions_removed > 10
        assert len(ids(events, "same", "content")) == 12

    def test_care_beside_upserts_loses_and_doubles_nothing(self, events: LanceTable) -> None:
        """While rows are replaced by one thread, care in another neither fails a write nor leaves duplicates."""
        events.add(rows(*range(50)))
        stop = threading.Event()
        conflicts: list[int] = []

        def care() -> None:
            while not stop.is_set():
                conflicts.append(events.maintain(NOW, force=True).conflicts)

        thread = threading.Thread(target=care)
        thread.start()
        try:
            for n in range(10):
                events.upsert(rows(*range(n, n + 60), content=f"round {n}"))
        finally:
            stop.set()
            thread.join(timeout=60)
        found = events.scan(["id"]).get_column("id").to_list()
        assert len(found) == len(set(found)) == 69
        assert conflicts


def test_small_and_young_tables_are_left_alone(events: LanceTable) -> None:
    """Below SCALAR_INDEX_ROWS there are no scalar indexes, and a table of VERSIONS_YOUNG is not looked through."""
    events.add(rows(*range(limits.SCALAR_INDEX_ROWS - 1)))
    assert events.maintain(NOW).created == ()
    events.add(rows(limits.SCALAR_INDEX_ROWS))
    assert "project_idx" in events.maintain(NOW).created
    assert limits.VERSIONS_YOUNG < limits.VERSIONS_MAX


def test_the_first_care_looks_for_old_versions_when_there_are_any(
    events: LanceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that starts on young versions lists no files; on old ones it removes them at once."""
    monkeypatch.setattr(limits, "VERSIONS_YOUNG", 3)
    for n in range(5):
        events.add(rows(n))
    looked: list[float] = []
    with monkeypatch.context() as patch:
        patch.setattr(table_maintenance._Round, "clean", lambda _round, keep_s: looked.append(keep_s))
        assert events.maintain(NOW).versions_removed == 0
    assert looked == []
    monkeypatch.setattr(limits, "VERSION_KEEP_S", 0.0)
    again = LanceStore(events._store.folder).open(EVENTS)
    assert again.maintain(NOW).versions_removed > 3


def test_groups_of_fragments_are_joined_at_once(events: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: with each, every index would be written anew."""
    from lance import optimize

    made = optimize.Compaction
    commits: list[int] = []

    def commit(dataset: Any, rewritten: list[Any]) -> Any:
        commits.append(len(rewritten))
        return made.commit(dataset, rewritten)

    monkeypatch.setattr(optimize, "Compaction", SimpleNamespace(plan=made.plan, commit=commit))
    monkeypatch.setattr(limits, "COMPACT_ROWS", 4)
    for n in range(6):
        events.add(rows(2 * n, 2 * n + 1))
    assert events.maintain(NOW, force=True).compacted
    sizes = [fragment.count_rows() for fragment in events._open().to_lance().get_fragments()]
    assert (commits, sizes) == ([3], [4, 4, 4])
    assert ids(events, "7", "content") == ["evt_000007"]
    assert len(ids(events, "words", "content")) == 12
