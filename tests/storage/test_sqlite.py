from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headwater.schemas import limits
from headwater.schemas.errors import DamagedError, StoreError
from headwater.storage.sqlite import Database

SCHEMA = "CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, text TEXT NOT NULL DEFAULT '');"
DATABASE = f"from headwater.storage.sqlite import Database; from pathlib import Path; import sys\nSCHEMA = {SCHEMA!r}\n"


def add(database: Database, n: int) -> None:
    """Add one row."""
    with database.transaction() as connection:
        connection.execute("INSERT INTO t (n) VALUES (?)", (n,))


def rows(database: Database) -> list[int]:
    """Return all rows."""
    with database.reading() as connection:
        return [row[0] for row in connection.execute("SELECT n FROM t ORDER BY n")]


def in_thread(work: object) -> BaseException | None:
    """Run in another thread and return what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 - told to the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    return raised[0] if raised else None


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    """What raises leaves nothing behind, and the next transaction works."""
    database = Database(tmp_path / "a.sqlite", SCHEMA)
    add(database, 1)

    def fail() -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO t (n) VALUES (2)")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    add(database, 3)
    assert rows(database) == [1, 3]
    database.close()


def test_a_bad_statement_is_undone(tmp_path: Path) -> None:
    """A statement that breaks a rule is our error, nothing of its transaction is kept, and the file is not blamed."""
    database = Database(tmp_path / "a.sqlite", SCHEMA)
    add(database, 1)

    def break_it() -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO t (n) VALUES (2)")
            connection.execute("INSERT INTO t (n) VALUES (1)")

    with pytest.raises(StoreError, match="UNIQUE"):
        break_it()
    add(database, 3)
    assert rows(database) == [1, 3]
    database.close()


def test_files_are_private(tmp_path: Path) -> None:
    """The file and the log beside it can be read by their owner alone; WAL is on."""
    database = Database(tmp_path / "a.sqlite", SCHEMA)
    add(database, 1)
    with database.reading() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    names = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert names == dict.fromkeys(("a.sqlite", "a.sqlite-wal", "a.sqlite-shm"), 0o600)
    database.close()


def test_close_ends_the_connections_of_all_threads(tmp_path: Path) -> None:
    """Closing is possible from any thread, twice, and the next use opens the file again."""
    database = Database(tmp_path / "a.sqlite", SCHEMA)
    add(database, 1)
    assert in_thread(lambda: add(database, 2)) is None
    assert in_thread(database.close) is None
    database.close()
    assert not (tmp_path / "a.sqlite-wal").exists()
    assert rows(database) == [1, 2]
    database.close()


def test_closed_in_the_midst(tmp_path: Path) -> None:
    """A transaction whose connection another thread closes is an error that may pass, and nothing of it is kept."""
    database = Database(tmp_path / "a.sqlite", SCHEMA)
    add(database, 1)

    def go_on() -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO t (n) VALUES (2)")
            assert in_thread(database.close) is None
            connection.execute("INSERT INTO t (n) VALUES (3)")

    with pytest.raises(StoreError, match="closed"):
        go_on()
    assert rows(database) == [1]
    database.close()


def test_connections_of_ended_threads_do_not_gather(tmp_path: Path) -> None:
    """A server with a thread per request does not keep a connection for each request there ever was."""
    database = Database(tmp_path / "a.sqlite", SCHEMA)
    for n in range(20):
        assert in_thread(lambda n=n: add(database, n)) is None
    assert len(database._all) <= 2
    assert rows(database) == list(range(20))
    database.close()


def test_a_failed_opening_is_not_kept(tmp_path: Path) -> None:
    """Each try to open a damaged file closes what it opened."""
    (tmp_path / "a.sqlite").write_bytes(b"no database" * 1000)
    database = Database(tmp_path / "a.sqlite", SCHEMA)
    for _ in range(3):
        with pytest.raises(DamagedError):
            rows(database)
    assert database._all == []


def test_damaged_file_is_named_with_the_fix(tmp_path: Path) -> None:
    """Bytes that are no database, or one whose pages are broken: the error says the way out."""
    path = tmp_path / "a.sqlite"
    database = Database(path, SCHEMA)
    with database.transaction() as connection:
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, "x" * 500) for n in range(2000)])
    database.close()
    data = bytearray(path.read_bytes())
    data[4096 * 2 :] = b"\xa5" * (len(data) - 4096 * 2)
    path.write_bytes(data)
    with pytest.raises(DamagedError, match=r"Fix: run: headwater down, then: headwater up"):
        rows(database)
    database.close()


def test_file_of_another_kind_is_damaged(tmp_path: Path) -> None:
    """A database with a table of the same name and other columns is not waited for but told."""
    path = tmp_path / "a.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (other TEXT)")
    connection.close()
    database = Database(path, SCHEMA)
    with pytest.raises(DamagedError, match="no such column"):
        rows(database)
    database.close()


def test_missing_folder_is_a_store_error(tmp_path: Path) -> None:
    """A path that cannot be made is our error."""
    with pytest.raises(StoreError, match="Fix: "):
        rows(Database(tmp_path / "none" / "a.sqlite", SCHEMA))


def test_a_large_transaction_is_written_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch changes the same pages again and again: within SQLITE_CACHE_BYTES none is written before the commit."""
    for cache_bytes, is_early in ((limits.SQLITE_CACHE_BYTES, False), (64 * 1024, True)):
        monkeypatch.setattr(limits, "SQLITE_CACHE_BYTES", cache_bytes)
        database = Database(tmp_path / f"{cache_bytes}.sqlite", SCHEMA)
        with database.transaction() as connection:
            log = tmp_path / f"{cache_bytes}.sqlite-wal"
            before = log.stat().st_size
            connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, "x" * 400) for n in range(1000)])
            assert (log.stat().st_size > before) is is_early
        assert len(rows(database)) == 1000
        database.close()


def test_the_log_goes_to_the_file_when_it_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After SQLITE_WAL_PAGES, in a larger file half as many as it has, but no more than SQLITE_WAL_PAGES_MAX."""
    path = tmp_path / "a.sqlite"

    def is_written(word: str) -> bool:
        """Whether what a new connection wrote, about 25 pages, went to the file itself."""
        database = Database(path, SCHEMA)
        with database.transaction() as connection:
            connection.execute("INSERT INTO t (text) VALUES (?)", (word * 20_000,))
        found = word.encode() in path.read_bytes()
        database.close()
        return found

    assert not is_written("large")
    monkeypatch.setattr(limits, "SQLITE_WAL_PAGES", 5)
    assert is_written("small")
    is_written("grown")
    assert not is_written("later")  # into a file of 75 pages
    monkeypatch.setattr(limits, "SQLITE_WAL_PAGES_MAX", 5)
    assert is_written("bound")


def test_busy_file_is_a_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that another keeps waiting too long gets an error that may pass; afterwards it works."""
    monkeypatch.setattr(limits, "SQLITE_BUSY_MS", 20)
    first, second = (Database(tmp_path / "a.sqlite", SCHEMA) for _ in range(2))
    assert rows(second) == []
    with first.transaction() as connection:
        connection.execute("INSERT INTO t (n) VALUES (1)")
        with pytest.raises(StoreError, match="locked"):
            add(second, 2)
    add(second, 2)
    assert rows(first) == [1, 2]
    first.close()
    second.close()


def test_disk_full_is_a_store_error_and_passes(tmp_path: Path) -> None:
    """When the file may not grow, the transaction is undone with an error that may pass; with room again all works."""
    script = DATABASE + (
        "import resource, signal\n"
        "from headwater.schemas.errors import StoreError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "database = Database(Path(sys.argv[1]), SCHEMA)\n"
        "def put(start, count):\n"
        "    with database.transaction() as connection:\n"
        "        rows = [(start + n, 'x' * 1000) for n in range(count)]\n"
        "        connection.executemany('INSERT INTO t VALUES (?, ?)', rows)\n"
        "put(0, 10)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))\n"
        "for _ in range(2):\n"
        "    try: put(1000, 20_000)\n"
        "    except StoreError as error: print('full', error.fix)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "put(10, 10)\n"
        "with database.reading() as connection:\n"
        "    print(connection.execute('SELECT count(*), max(n) FROM t').fetchone())\n"
        "database.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.sqlite")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    *full, last = done.stdout.splitlines()
    assert len(full) == 2
    assert all(line.startswith("full free disk space") for line in full)
    assert last == "(20, 19)"


def test_many_processes_open_and_write_at_once(tmp_path: Path) -> None:
    """Several processes may make the same file at the same moment; each row of each is there."""
    script = DATABASE + (
        "database = Database(Path(sys.argv[1]), SCHEMA)\n"
        "sys.stdin.read()\n"
        "for n in range(50):\n"
        "    with database.transaction() as connection:\n"
        "        connection.execute('INSERT INTO t (n) VALUES (?)', (int(sys.argv[2]) * 100 + n,))\n"
        "database.close()\n"
    )
    path = tmp_path / "a.sqlite"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path), str(n)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(6)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    for writer in writers:
        with writer:
            assert writer.stderr is not None
            assert writer.stderr.read() == ""
    database = Database(path, SCHEMA)
    assert len(rows(database)) == 300
    database.close()
