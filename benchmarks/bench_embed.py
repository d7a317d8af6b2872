"""The embed flow's rate against the bare model's on the same chunks, and the disk that events with vectors take."""

from __future__ import annotations

import json
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from common import arguments, story_lines, write_result

from headwater.flows.embed_run import run_embed
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.schemas.columns import EVENTS
from headwater.storage.active import active_version
from headwater.storage.embedder import load
from headwater.storage.home import Home
from headwater.storage.models import resolve
from headwater.storage.tables import LanceStore
from headwater.surface.console import Progress
from headwater.surface.importers.ingest import append_paths

BATCH = 32  # the bare model's: sentence-transformers' default


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    with tempfile.TemporaryDirectory() as folder:
        home = Home.open(Path(folder) / "home")
        log = Path(folder) / "hooks.jsonl"
        log.write_text("".join(json.dumps(line) + "\n" for line in story_lines(args.data)), encoding="utf-8")
        append_paths(home, [log], None, Progress("reading"))
        run_ingest(home, IngestOptions(embedding_version=active_version(home), until_idle=True))
        encoder = load(resolve("minilm", home))
        encoder.encode_documents(["warm"])
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        report = run_embed(home, encoder, owner="bench")
        flow_s, flow_cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        chunks = chunk_texts(home)
        bare_s, bare_cpu_s = bare(home, chunks)
        events = care(home)
        disk_mb = sum(f.stat().st_size for f in (home.root / "lance").rglob("*") if f.is_file()) / 1e6
    result = {
        "items": report.succeeded,
        "chunks": len(chunks),
        "flow_chunks_per_s": round(len(chunks) / flow_s, 1),
        "bare_chunks_per_s": round(len(chunks) / bare_s, 1),
        "ratio": round(bare_s / flow_s, 3),
        "ratio_cpu": round(bare_cpu_s / flow_cpu_s, 3),
        "ratio_bar": 0.9,
        "events": events,
        "disk_mb_per_1000_events": round(disk_mb / events * 1000, 2),
        "disk_bar_mb": 4.0,
    }
    write_result("embed", result, as_json=args.json)


def chunk_texts(home: Home) -> list[str]:
    """Return the texts that were embedded."""
    store = LanceStore(home.vectors)
    name = store.names()[0]
    return [str(text) for text in store.connection().open_table(name).to_arrow()["content"].to_pylist()]


def bare(home: Home, chunks: list[str]) -> tuple[float, float]:
    """Return wall and CPU seconds of the bare model on the same texts, one torch thread."""
    from sentence_transformers import SentenceTransformer

    folder = resolve("minilm", home).folder
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    model.encode(["warm"])
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    model.encode(chunks, batch_size=BATCH, show_progress_bar=False, normalize_embeddings=True)
    return time.perf_counter() - wall_s, time.process_time() - cpu_s


def care(home: Home) -> int:
    """Look after all tables until there is nothing old left to remove; return the number of events."""
    store = LanceStore(home.vectors)
    for name in store.names():
        table = store.connection().open_table(name)
        table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)
    events = LanceStore(home.lance).open(EVENTS)
    events.maintain(datetime.now(UTC), force=True)
    LanceStore(home.lance).connection().open_table("events").optimize(
        cleanup_older_than=timedelta(0), delete_unverified=True
    )
    return events.count()


if __name__ == "__main__":
    main()
