from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import vector_writer

from headwater.schemas import limits
from headwater.schemas.clock import SYSTEM
from headwater.schemas.errors import BusyError, InputError, ModelError
from headwater.schemas.events import ItemKind
from headwater.storage.faults import Plan, SimulatedCrash, planned
from headwater.storage.home import Home
from headwater.storage.locks import hold_lock
from headwater.storage.tables import LanceTable
from headwater.storage.vectors import VectorSet, VectorStore, lock_name, table_name

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
VERSION = "model-4-0123456789ab"
OTHER = "model-4-ba9876543210"


def axis(n: int, lean: float = 0.0) -> list[float]:
    """A unit vector along an axis, leaning towards the next one."""
    vector = np.zeros(4)
    vector[n], vector[(n + 1) % 4] = 1.0, lean
    return list(vector / np.linalg.norm(vector))


def item(
    name: str, *vectors: list[float], text: str = "t", project: str = "p", kind: str | None = "prompt"
) -> VectorSet:
    """A set of as many chunks as vectors; the hash follows the text."""
    return VectorSet(
        item_id=name,
        content_hash=f"h-{text}",
        project=project,
        session_id="s",
        agent="a",
        kind=kind,
        at=NOW,
        chunks=tuple(f"{text} {n}" for n in range(len(vectors))),
        vectors=np.array(vectors, np.float32).reshape(len(vectors), 4),
    )


def chunks(store: VectorStore, name: str, version: str = VERSION) -> list[str]:
    """Texts of an item's chunks as stored, by number."""
    rows = store._table("entry", version).by_ids([name], ["chunk_n", "content"], id_column="item_id")
    return rows.sort("chunk_n").get_column("content").to_list()


@pytest.fixture
def store(tmp_path: Path) -> VectorStore:
    """A home without vectors."""
    return VectorStore(Home.open(tmp_path / "h"))


class TestPut:
    """Writing vector sets."""

    def test_set_of_several_chunks_is_one_item(self, store: VectorStore) -> None:
        """All chunks of an item are stored, and count as one."""
        store.put("entry", VERSION, [item("a", axis(0), axis(1)), item("b", axis(2))], NOW)
        assert chunks(store, "a") == ["t 0", "t 1"]
        assert store.count_items(VERSION) == 2
        assert store.item_ids(VERSION).sort("item_id").rows() == [
            ("entry", "a", "h-t"),
            ("entry", "b", "h-t"),
        ]

    def test_put_again_changes_nothing(self, store: VectorStore) -> None:
        """The same sets again leave one of each."""
        sets = [item("a", axis(0), axis(1)), item("b", axis(2))]
        for _ in range(3):
            store.put("entry", VERSION, sets, NOW)
        assert store._table("entry", VERSION).count() == 3

    def test_shorter_and_longer_sets_replace(self, store: VectorStore) -> None:
        """A new set takes the place of the old one, whatever their lengths; neighbours in the call may be new."""
        store.put("entry", VERSION, [item("a", axis(0), axis(1), axis(2))], NOW)
        store.put("entry", VERSION, [item("a", axis(3), text="u"), item("b", axis(0))], NOW)
        assert chunks(store, "a") == ["u 0"]
        store.put("entry", VERSION, [item("a", axis(3), axis(1), text="w")], NOW)
        assert chunks(store, "a") == ["w 0", "w 1"]
        assert store.item_ids(VERSION).filter(item_id="a").rows() == [("entry", "a", "h-w")]

    def test_set_without_chunks_removes(self, store: VectorStore) -> None:
        """An item whose text is empty now has no vectors; none is made for it either."""
        store.put("entry", VERSION, [item("x")], NOW)
        assert store.names() == []
        store.put("entry", VERSION, [item("a", axis(0)), item("b", axis(1))], NOW)
        store.put("entry", VERSION, [item("a")], NOW)
        assert store.item_ids(VERSION).get_column("item_id").to_list() == ["b"]

    @pytest.mark.parametrize("point", ["embed.trimmed", "embed.written"])
    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_crash_leaves_one_set(self, store: VectorStore, point: str, count: int) -> None:
        """Wherever a replacement stops, the item has vectors, all of one text; the repetition completes it."""
        store.put("entry", VERSION, [item("a", axis(0), axis(1), text="old")], NOW)
        new = item("a", *[axis(n) for n in range(count)], text="new")
        with planned(Plan(point, 1)), pytest.raises(SimulatedCrash):
            store.put("entry", VERSION, [new], NOW)
        there = chunks(store, "a")
        assert there
        assert len({text.split()[0] for text in there}) == 1
        assert store.item_ids(VERSION).height == 1
        store.put("entry", VERSION, [new], NOW)
        assert chunks(store, "a") == [f"new {n}" for n in range(count)]

    def test_readers_never_see_none_or_two_sets(
        self, store: VectorStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After every single commit of a replacement there is exactly one set."""
        store.put("entry", VERSION, [item("a", axis(0), axis(1), axis(2), text="old")], NOW)
        seen: list[set[str]] = []
        write = LanceTable._write

        def watched(table: LanceTable, *args: object, **more: object) -> None:
            write(table, *args, **more)  # type: ignore[arg-type]
            seen.append({text.split()[0] for text in chunks(store, "a")})

        monkeypatch.setattr(LanceTable, "_write", watched)
        store.put("entry", VERSION, [item("a", axis(3), axis(1), text="new")], NOW)
        assert seen == [{"old"}, {"new"}]

    def test_wrong_dimension_is_refused(self, store: VectorStore) -> None:
        """Vectors of another length than the version says are an error, and nothing is written."""
        with pytest.raises(InputError, match="wanted 1 of 5"):
            store.put("entry", "model-5-0123456789ab", [item("a", axis(0))], NOW)
        with pytest.raises(ModelError, match="slug-dim-hash"):
            store.put("entry", "model", [item("a", axis(0))], NOW)
        assert store.names() == []


class TestNearest:
    """Finding."""

    def test_best_chunk_of_each_item_over_all_kinds(self, store: VectorStore) -> None:
        """Each item comes once, by its nearest chunk, whatever its kind."""
        store.put("entry", VERSION, [item("a", axis(1), axis(0)), item("b", axis(0, 0.5))], NOW)
        store.put("memory", VERSION, [item("m", axis(0, 0.2), kind=None)], NOW)
        found = store.nearest(VERSION, axis(0), None, 10)
        assert found.select("item_kind", "item_id", "chunk_n").rows() == [
            ("entry", "a", 1),
            ("memory", "m", 0),
            ("entry", "b", 0),
        ]
        assert found.get_column("_distance").to_list() == pytest.approx([0.0, 0.0194, 0.1056], abs=1e-3)
        assert found.get_column("content").to_list() == ["t 1", "t 0", "t 0"]

    def test_many_chunks_of_one_item_hide_no_other(self, store: VectorStore) -> None:
        """One item with many near chunks leaves room for the others."""
        store.put("entry", VERSION, [item("a", *[axis(0, n / 1000) for n in range(16)])], NOW)
        store.put("entry", VERSION, [item("b", axis(0, 0.5)), item("c", axis(0, 0.6))], NOW)
        assert store.nearest(VERSION, axis(0), None, 2).get_column("item_id").to_list() == ["a", "b"]
        assert store.nearest(VERSION, axis(0), None, 3).get_column("item_id").to_list() == ["a", "b", "c"]

    def test_filter_comes_before_the_choice(self, store: VectorStore) -> None:
        """A far item of the wanted project is found, however many near ones of others there are."""
        store.put("entry", VERSION, [item(f"o{n}", axis(0), project="other") for n in range(50)], NOW)
        store.put("entry", VERSION, [item("mine", axis(1), project="it's")], NOW)
        found = store.nearest(VERSION, axis(0), "project = 'it''s'", 1)
        assert found.get_column("item_id").to_list() == ["mine"]

    def test_versions_never_mix(self, store: VectorStore) -> None:
        """A search, a count and a deletion of one version do not touch another of equal dimension."""
        store.put("entry", VERSION, [item("a", axis(0))], NOW)
        store.put("entry", OTHER, [item("b", axis(0))], NOW)
        assert store.nearest(OTHER, axis(0), None, 9).get_column("item_id").to_list() == ["b"]
        store.delete_items("entry", ["a", "b"], OTHER)
        assert (store.count_items(VERSION), store.count_items(OTHER)) == (1, 0)
        store.drop(VERSION)
        store.drop(VERSION)
        assert store.names() == [table_name("entry", OTHER)]
        assert store.nearest(VERSION, axis(0), None, 9).is_empty()

    def test_nothing_there_reads_as_empty(self, store: VectorStore) -> None:
        """A home without vectors answers with the same columns and writes nothing."""
        found = store.nearest(VERSION, axis(0), "project = 'p'", 5)
        assert found.is_empty()
        assert {"item_kind", "item_id", "content", "_distance"} <= set(found.columns)
        assert store.item_ids(VERSION).columns == ["item_kind", "item_id", "content_hash"]
        assert (store.count_items(VERSION), store.names()) == (0, [])
        store.maintain(VERSION, NOW, force=True)
        store.delete_items("entry", ["a"])
        assert store.names() == []


def test_delete_reaches_all_versions_and_only_that_kind(store: VectorStore) -> None:
    """Without a version, an item's vectors go everywhere; an equal id of another kind stays."""
    for version in (VERSION, OTHER):
        store.put("entry", version, [item("a", axis(0)), item("b", axis(1))], NOW)
        store.put("memory", version, [item("a", axis(0))], NOW)
    store.delete_items("entry", ["a"])
    store.delete_items("entry", ["a"])
    for version in (VERSION, OTHER):
        assert sorted(store.item_ids(version).select("item_kind", "item_id").rows()) == [
            ("entry", "b"),
            ("memory", "a"),
        ]
        assert (store.count_items(version, "entry"), store.count_items(version, "memory")) == (1, 1)


def test_another_store_sees_what_was_written(store: VectorStore, tmp_path: Path) -> None:
    """A reader opened before the first vector finds it, also after maintenance."""
    reader = VectorStore(Home.open(tmp_path / "h"))
    assert reader.count_items(VERSION) == 0
    for n in range(4):
        store.put("entry", VERSION, [item(f"i{n}", axis(n))], NOW)
    store.maintain(VERSION, NOW + timedelta(days=1), force=True)
    assert reader.count_items(VERSION) == 4
    assert reader.nearest(VERSION, axis(2), "kind = 'prompt'", 1).get_column("item_id").to_list() == ["i2"]


def test_names_are_safe_and_differ() -> None:
    """Names of tables and locks hold letters, digits and underscores only, and differ by version."""
    assert table_name("entry", "test-hash-64-0a1b2c3d4e5f") == "entry_vectors_test_hash_64_0a1b2c3d4e5f"
    assert lock_name(VERSION) != lock_name(OTHER)


@pytest.mark.slow
def test_many_processes_write_the_same_items_through_old_handles(tmp_path: Path) -> None:
    """Two, then eight processes that opened the tables before any of it write the same ids: one row per id."""
    home = Home.open(tmp_path / "h")
    VectorStore(home).put(ItemKind.ENTRY, vector_writer.VERSION, [], vector_writer.NOW)
    for count in (2, 8):
        command = [sys.executable, vector_writer.__file__, str(home.root)]
        writers = [
            subprocess.Popen([*command, str(n), f"of{count}"], stderr=subprocess.PIPE) for n in range(count)
        ]
        try:
            end_s = SYSTEM.monotonic_s() + 90
            while not all((home.root / f"ready-{n}").exists() for n in range(count)):
                assert SYSTEM.monotonic_s() < end_s, "the writers did not start"
                SYSTEM.sleep(0.01)
            (home.root / "start").touch()
            for writer in writers:
                _, said = writer.communicate(timeout=90)
                assert writer.returncode == 0, said.decode()
        finally:
            for writer in writers:
                writer.kill()
        for path in (*home.root.glob("ready-*"), home.root / "start"):
            path.unlink()
        table = VectorStore(home)._table("entry", vector_writer.VERSION)
        rows = table.scan(["id", "content_hash"], f"item_id LIKE 'of{count}%'")
        assert rows.height == rows.get_column("id").n_unique() == vector_writer.ITEMS * vector_writer.CHUNKS
        assert rows.get_column("content_hash").n_unique() == 1


def test_a_writer_that_does_not_let_go_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After WRITE_WAIT_S who waits says so, and has written nothing."""
    home = Home.open(tmp_path / "h")
    monkeypatch.setattr(limits, "WRITE_WAIT_S", 0.1)
    with (
        hold_lock(home.run / f"write-{lock_name(vector_writer.VERSION)}", "test"),
        pytest.raises(BusyError, match="already running"),
    ):
        VectorStore(home).put(
            ItemKind.ENTRY, vector_writer.VERSION, vector_writer.sets_of(0, "e"), vector_writer.NOW
        )
    assert VectorStore(home).names() == []
