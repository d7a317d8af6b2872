"""A home with something of everything in it, and tars as an attacker or an accident would make them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sqlite3
import tarfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from lance_rows import rows

from headwater.schemas.columns import EVENTS
from headwater.storage.control import set_mode
from headwater.storage.home import Current, Home
from headwater.storage.tables import LanceStore

NOW = datetime(2026, 3, 24, 15, 0, tzinfo=UTC)
SILENT_S = 1_700_000_000
TRUTH = {
    "FORMAT_VERSION",
    "CURRENT",
    "config.toml",
    "PAUSED",
    "quarantine.jsonl",
    "migrations.jsonl",
    "usage.sqlite",
    "journal/control.jsonl",
    "journal/claude-code-s1.jsonl",
    "journal/claude-code-세션.jsonl",
    "archive/lines/date=2026-01-05/lines-1.parquet",
}


def full_home(root: Path) -> Home:
    """Return a home that has been used: journal, archive, decisions, settings, databases, tables, logs."""
    home = Home.open(root)
    home.config_file.write_text('mode = "session"\n', encoding="utf-8")
    home.set_current(Current("gen-1", "test-8-abc"))
    (root / "PAUSED").write_text("5\n", encoding="ascii")
    (home.journal / "claude-code-s1.jsonl").write_bytes(b'{"n": 1}\n{"n": 2}\n')
    (home.journal / "claude-code-세션.jsonl").write_bytes(b'{"n": 3}\n')
    os.utime(home.journal / "claude-code-s1.jsonl", (SILENT_S, SILENT_S))
    set_mode(home, "endless", at_ns=5)
    home.quarantine_file.write_bytes(b'{"reason": "odd"}\n')
    home.migrations_file.write_bytes(b'{"name": "first"}\n')
    day = home.archive / "lines" / "date=2026-01-05"
    day.mkdir(parents=True)
    pq.write_table(pa.table({"line": ["a", "b", "c"]}), day / "lines-1.parquet")
    for name in ("usage.sqlite", "ids.sqlite", "outbox.sqlite"):
        with closing(sqlite3.connect(root / name)) as base, base:
            base.execute("PRAGMA journal_mode=WAL")
            base.execute("CREATE TABLE used (id TEXT)")
            base.execute("INSERT INTO used VALUES ('m1'), ('m2')")
    LanceStore(home.lance).open(EVENTS).add(rows(1, 2, 3))
    (home.recovery).mkdir(parents=True)
    (home.recovery / "part").write_bytes(b"snapshot")
    (home.logs / "ingest.log").write_text("log\n", encoding="utf-8")
    return home


def contents(root: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def used(path: Path) -> int:
    """Return how many rows a database of `full_home` has."""
    with closing(sqlite3.connect(path)) as base:
        count: int = base.execute("SELECT count(*) FROM used").fetchone()[0]
    return count


def members(file: Path) -> dict[str, bytes]:
    """Return the members of a backup."""
    with tarfile.open(file, "r:gz") as tar:
        return {one.name: content.read() for one in tar if (content := tar.extractfile(one)) is not None}


def pack(
    file: Path, content: dict[str, bytes], extra: tuple[tarfile.TarInfo, ...] = (), **manifest: Any
) -> Path:
    """Write a backup by hand, its manifest fitting the files but for what is given; `extra` members come first."""
    known = {
        "v": 1,
        "kind": "headwater-backup",
        "made_at": "2026-03-24T15:00:00.000000Z",
        "format_version": 1,
        "with_tables": False,
        "files": [
            {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in content.items()
        ],
    } | manifest
    with gzip.open(file, "wb") as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for info in extra:
            tar.addfile(info, io.BytesIO(b"x" * info.size))
        for name, data in [*content.items(), ("manifest.json", json.dumps(known).encode())]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return file
