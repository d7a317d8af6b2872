from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.schemas import limits
from headwater.schemas.columns import EVENTS, Column, TableDef, events_to_arrow, vectors_def
from headwater.schemas.errors import DamagedError, InputError, StoreError
from headwater.storage import table_maintenance
from headwater.storage.table_damage import map_error
from headwater.storage.tables import LanceStore, last_wins, quote

if TYPE_CHECKING:
    from headwater.storage.table_reads import TableView
    from headwater.storage.tables import LanceTable
from lance_rows import NOW, event, ids, rows, stale


class TestStore:
    """Opening and naming tables."""

    def test_opening_without_create_reads_as_empty_and_writes_nothing(self, store: LanceStore) -> None:
        """A reader may come before the first writer: it finds nothing and leaves nothing."""
        table = store.open(EVENTS, create=False)
        assert (table.count(), table.version) == (0, 0)
        assert table.scan(["id", "at"]).columns == ["id", "at"]
        assert table.match("x", "content", None, 5, ["id"]).columns == ["id", "_score"]
        assert table.by_ids(["a"]).is_empty()
        assert table.maintain(NOW) == table_maintenance.Maintenance()
        table.delete("id = 'a'")
        assert not store.folder.exists()

    def test_reader_opened_before_the_table_existed_finds_it(self, store: LanceStore) -> None:
        """A reader that found nothing sees the rows once the table has been made."""
        reader = LanceStore(store.folder).open(EVENTS, create=False)
        assert reader.count() == 0
        store.open(EVENTS).add(rows(1))
        assert reader.count() == 1

    def test_a_view_stays_as_it_is(self, store: LanceStore) -> None:
        """Rows are numbered in a view, taken by their numbers in any order, and none come or go while it is open."""
        table = store.open(EVENTS)
        assert store.open(vectors_def(4), "v", create=False).view(lambda view: view.stamp) is None
        table.add(rows(*range(5)))

        def look(view: TableView) -> list[str]:
            known = view.scan(["id"], None, numbered=True).sort("id", descending=True)
            table.delete(f"id = '{known.get_column('id')[0]}'")
            assert view.stamp != table.view(lambda newer: newer.stamp)
            taken = view.take(known.get_column("_rowid"), ["id"]).get_column("id").to_list()
            assert taken == known.get_column("id").to_list()
            return taken

        assert len(table.view(look) or []) == 5
        assert table.count() == 4

    def test_fragments_tell_what_changed(self, store: LanceStore) -> None:
        """Added rows lie in a new fragment; where one is deleted the files stay and only `deleted` changes."""
        table = store.open(EVENTS)
        table.add(rows(1, 2, 3))
        first = table.view(lambda view: view.fragments()) or {}
        table.delete(f"id = '{rows(1).column('id')[0].as_py()}'")
        (trimmed,) = (table.view(lambda view: view.fragments()) or {}).values()
        assert [one.files for one in first.values()] == [trimmed.files]
        assert trimmed not in first.values()
        table.add(rows(1))
        now = table.view(lambda view: view.fragments()) or {}
        assert len(now) == 2
        assert trimmed in now.values()

    def test_write_without_a_table_is_a_store_error(self, store: LanceStore) -> None:
        """A reader's handle cannot make a table by writing."""
        with pytest.raises(StoreError):
            store.open(EVENTS, create=False).add(rows(1))

    def test_names_and_drop(self, store: LanceStore) -> None:
        """Tables are listed by name, and a dropped one is gone, also twice and for open readers."""
        reader = store.open(vectors_def(4), "v_1")
        store.open(EVENTS)
        assert store.names() == ["events", "v_1"]
        store.drop("v_1")
        store.drop("v_1")
        assert store.names() == ["events"]
        assert reader.count() == 0

    def test_create_completes_what_a_dead_process_left(self, store: LanceStore) -> None:
        """A table without its text indexes gets them when it is opened for writing again."""
        table = store.open(EVENTS)
        table.add(rows(1))
        table._require().drop_index(table_maintenance.text_index("content"))
        assert ids(store.open(EVENTS, create=False), "plain", "content") in ([], ["evt_000001"])
        assert ids(store.open(EVENTS), "plain", "content") == ["evt_000001"]

    def test_table_without_a_column_is_damaged(self, store: LanceStore) -> None:
        """A table of an older definition is reported, not written to."""
        store.open(TableDef("t", (Column("id", pa.string(), "id", nullable=False),)))
        wider = TableDef(
            "t", (Column("id", pa.string(), "id", nullable=False), Column("x", pa.string(), "x"))
        )
        with pytest.raises(DamagedError, match="x"):
            store.open(wider)


class TestWriting:
    """What a write leaves."""

    def test_upsert_replaces_by_key_and_is_idempotent(self, events: LanceTable) -> None:
        """The same batch twice leaves the same rows, a changed row replaces the old one."""
        events.upsert(rows(1, 2))
        events.upsert(rows(1, 2))
        events.upsert(rows(2, content="changed"))
        found = events.scan(["id", "content"]).sort("id")
        assert found.rows() == [("evt_000001", "plain words 1"), ("evt_000002", "changed 2")]

    def test_last_row_of_a_key_wins(self, events: LanceTable) -> None:
        """A batch that holds a key twice leaves one row, its last, whether the key was known or not."""
        for content in ("new", "known"):
            events.upsert(pa.concat_tables([rows(1, 2), rows(1, content=content)]))
            assert events.by_ids(["evt_000001"], ["content"]).rows() == [(f"{content} 1",)]
        assert events.count() == 2

    def test_null_key_is_refused(self) -> None:
        """A row without its key cannot be written."""
        with pytest.raises(InputError):
            last_wins(pa.table({"id": ["a", None]}), "id")

    def test_no_rows_make_no_commit(self, events: LanceTable) -> None:
        """An empty batch leaves the version as it was."""
        before = events.version
        events.add(rows())
        events.upsert(rows())
        assert events.version == before

    def test_delete_removes_the_rows_of_a_filter(self, events: LanceTable) -> None:
        """Deleted rows are not found any more, by id or by word, and a second delete does nothing."""
        events.add(rows(1, 2))
        for _ in range(2):
            events.delete("id = 'evt_000001'")
        assert ids(events, "plain", "content") == ["evt_000002"]
        assert events.count() == 1

    @pytest.mark.parametrize("indexed", [False, True], ids=["no index", "BTREE on id"])
    def test_concurrent_upserts_of_the_same_new_keys_leave_one_row_each(
        self, store: LanceStore, indexed: bool
    ) -> None:
        """Four writers with handles from before the first of them wrote, released together, leave no duplicates."""
        first = store.open(EVENTS)
        first.add(rows(*range(20)))
        if indexed:
            assert "id_idx" in first.maintain(NOW, force=True).created
        tables = [stale(store) for _ in range(4)]
        barrier = threading.Barrier(len(tables))
        errors: list[BaseException] = []

        def write(table: LanceTable, n: int) -> None:
            barrier.wait(timeout=30)
            try:
                for start in range(100, 220, 40):
                    table.upsert(rows(*range(start, start + 60), content=f"writer {n}"))
            except BaseException as error:  # noqa: BLE001 - shown by the assertion below
                errors.append(error)

        threads = [threading.Thread(target=write, args=(table, n)) for n, table in enumerate(tables)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        found = store.open(EVENTS, create=False).scan(["id"]).get_column("id").to_list()
        assert errors == []
        assert len(found) == len(set(found)) == 20 + 140


class TestReading:
    """What a read sees."""

    def test_filter_and_columns_are_pushed(self, events: LanceTable) -> None:
        """A scan returns the asked columns of the rows that the filter lets through, at most `limit`."""
        events.add(rows(*range(10)))
        assert events.scan(["at", "id"], "id >= 'evt_000007'").columns == ["at", "id"]
        assert events.scan(["id"], "id >= 'evt_000007'").height == 3
        assert events.scan(["id"], limit=4).height == 4
        assert events.scan(["id"]).height == 10
        assert events.count("id < 'evt_000003'") == 3

    def test_by_ids_finds_each_once_whatever_the_number(
        self, events: LanceTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A list longer than one filter takes is split; unknown and repeated ids add nothing."""
        monkeypatch.setattr(limits, "IDS_PER_FILTER", 3)
        events.add(rows(*range(10)))
        wanted = [f"evt_{n:06d}" for n in (1, 2, 3, 4, 5, 6, 7, 1, 77)]
        assert sorted(events.by_ids(wanted, ["id"]).get_column("id")) == wanted[:7]
        assert events.by_ids([]).columns == [column.name for column in EVENTS.columns]

    def test_quote_keeps_any_text_one_literal(self, events: LanceTable) -> None:
        """Text that tries to leave its quotes, or that no store takes, only fails to match."""
        events.add(rows(1))
        for text in (
            "x' OR 1=1 --",
            "x'' OR 1=1 --",
            "\\' OR 1=1",
            "a\x00b",
            "\ud800",
            '"',
            "%",
            "';DROP TABLE events",
        ):
            assert events.count(f"project = {quote(text)}") == 0
            assert events.by_ids([text], ["id"]).is_empty()
        path = quote("src/it's.py")
        assert events.count(f"array_has(files, named_struct('path', {path}, 'op', 'edit'))") == 1

    def test_each_reader_sees_other_processes_commits_at_its_next_call(self, events: LanceTable) -> None:
        """A reader with its own connection needs no refresh."""
        reader = LanceStore(events._store.folder).open(EVENTS, create=False)
        for n in range(3):
            assert reader.count() == n
            events.add(rows(n))
            assert ids(reader, f"{n}", "content") == [f"evt_{n:06d}"]

    def test_reader_whose_files_were_cleaned_up_reopens(self, events: LanceTable) -> None:
        """A call on a version that clean-up removed is answered from the newest one."""
        events.add(rows(1))
        events.add(rows(2))
        reader = stale(events._store)
        dataset = events._require().to_lance()
        dataset.optimize.compact_files()
        events.delete("id = 'evt_000002'")
        events._require().to_lance().cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
        assert reader.scan(["id", "content"]).rows() == [("evt_000001", "plain words 1")]
        assert ids(reader, "plain", "content") == ["evt_000001"]

    def test_wrong_filter_and_column_are_input_errors(self, events: LanceTable) -> None:
        """What cannot be understood is the caller's fault, and the message names no place in Lance's source."""
        events.add(rows(1))
        for where in ("nothing = 1", "id = 'a"):
            with pytest.raises(InputError) as caught:
                events.count(where) if where.startswith("n") else events.scan(["id"], where)
            assert ".rs:" not in str(caught.value)

    def test_foreign_errors_are_mapped(self) -> None:
        """A missing file means damage, anything else means try again; ours stay."""
        assert isinstance(map_error(OSError("Not found: data/x.lance"), "t"), DamagedError)
        assert isinstance(map_error(OSError("No space left on device"), "t"), StoreError)
        ours = InputError("a", "b", "c")
        assert map_error(ours, "t") is ours


class TestText:
    """Full-text search."""

    TEXTS = (
        "The parser failed on Café menus",
        "see src/core/fooBar.ts and parse_http_header",
        "검색한다 로그를 남기고",
        "検索エンジンの設定",
        "审批流程已经完成",
    )

    CASES = (
        ("PARSER", "content", 0),
        ("cafe", "content", 0),
        ("fooBar.ts", "code", 1),
        ("src/core/fooBar.ts", "code", 1),
        ("parse header", "code", 1),
        ("parse_http_header", "code", 1),
        ("foo bar", "code", 1),
        ("검색", "cjk", 2),
        ("로그", "cjk", 2),
        ("検索", "cjk", 3),
        ("検索", "content", 3),
        ("审批", "cjk", 4),
    )

    @pytest.mark.parametrize("covered", [False, True], ids=["unindexed", "indexed"])
    def test_three_tokenizers_find_prose_code_and_cjk(self, events: LanceTable, covered: bool) -> None:
        """Words are found from the first write on, before and after an index covers them."""
        events.add(events_to_arrow([event(n, text) for n, text in enumerate(self.TEXTS)]))
        if covered:
            assert events.maintain(NOW, force=True).merged
        for text, column, n in self.CASES:
            assert ids(events, text, column)[:1] == [f"evt_{n:06d}"], (text, column)

    def test_stop_words_and_endings_stay(self, events: LanceTable) -> None:
        """Nothing is stemmed or left out: code is full of short words."""
        events.add(events_to_arrow([event(1, "if not the"), event(2, "parsers")]))
        assert ids(events, "the", "content") == ["evt_000001"]
        assert ids(events, "parser", "content") == []

    def test_no_text_raises(self, events: LanceTable) -> None:
        """Quotes, operators, control characters, lone surrogates and very long texts give frames, never errors."""
        events.add(rows(1))
        nasty = [
            "",
            " ",
            "\x00",
            "a\x00b",
            "\ud800",
            "\ud83d",
            '"',
            '"open',
            "'",
            "OR AND NOT (",
            "title:x",
            "C++",
            "*",
            "?",
        ]
        nasty += [
            "[]{}^~\\",
            "-",
            "a" * 10_000,
            "word " * 2_000,
            "검" * 10_000,
            "plain' OR 1=1 --",
            "\u202e",
            "👩‍👩‍👧",
            "%s%n",
        ]
        for text in nasty:
            for column, _ in EVENTS.text:
                assert events.match(text, column, "project = 'p'", 5, ["id"]).columns == ["id", "_score"]

    def test_filter_comes_before_the_best(self, events: LanceTable) -> None:
        """A row of the scope is found though a hundred others would be better."""
        others = [event(n, "needle needle", project="other") for n in range(100)]
        events.add(events_to_arrow([*others, event(500, "a needle in much other text " * 5)]))
        found = events.match("needle", "content", "project = 'p'", 3, ["id"])
        assert found.get_column("id").to_list() == ["evt_000500"]

    def test_best_come_first(self, events: LanceTable) -> None:
        """Rows are ordered by score."""
        events.add(events_to_arrow([event(1, "red"), event(2, "red green blue"), event(3, "nothing")]))
        found = events.match("green blue red", "content", None, 10, ["id"])
        assert found.get_column("id").to_list() == ["evt_000002", "evt_000001"]
        assert found.get_column("_score").is_sorted(descending=True)
