"""Homes of the retrieval benchmark, kept in a cache folder so that a second run only asks.

Stories and recorded projects go through the real ingest and embed flows. Conversations of other sets have no hook
payloads: their rows are written with the public writers of the stores, as the flows write them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headwater.flows.chunking import chunk_text
from headwater.flows.embed_run import run_embed
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.schemas import limits
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.events import ItemKind
from headwater.schemas.ids import digest
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore
from headwater.storage.vectors import VectorSet, VectorStore
from headwater.surface.console import Progress
from headwater.surface.importers.ingest import append_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrieval_sets import DataSet

    from headwater.schemas.events import Event
    from headwater.storage.embedder import Encoder

CACHE = Path(os.environ.get("HEADWATER_BENCH_CACHE", Path(tempfile.gettempdir()) / "headwater-retrieval"))
_BATCH = 200


def prepared(found: DataSet, encoder: Encoder) -> Home:
    """Return the home of a set with vectors of the encoder's version, made when it is not there yet."""
    what = digest(
        found.name,
        *(one.content_hash + one.id for one in found.events),
        *(f"{path.name}:{path.stat().st_size}" for path in found.paths),
        encoder.version,
    )
    root = CACHE / f"{found.name}-{encoder.version}-{what}"
    if not (root / "ready").exists():
        shutil.rmtree(root, ignore_errors=True)
        home = Home.open(root)
        if found.paths:
            _ingest(home, found.paths, encoder)
        else:
            _write(home, found.events, encoder)
        now = datetime.now(UTC)
        LanceStore(home.lance).open(EVENTS).maintain(now, force=True)
        VectorStore(home).maintain(encoder.version, now, force=True)
        home.change_current(embedding_version=encoder.version)
        (root / "ready").write_text(json.dumps({"set": found.name}), encoding="utf-8")
    return Home.open(root, create=False)


def _ingest(home: Home, paths: Sequence[Path], encoder: Encoder) -> None:
    append_paths(home, list(paths), None, Progress("reading"))
    run_ingest(home, IngestOptions(embedding_version=encoder.version, until_idle=True))
    run_embed(home, encoder, owner="bench")


def _write(home: Home, events: Sequence[Event], encoder: Encoder) -> None:
    table = LanceStore(home.lance).open(EVENTS)
    table.add(events_to_arrow(events))
    vectors = VectorStore(home)
    for n in range(0, len(events), _BATCH):
        part = events[n : n + _BATCH]
        tokens_max = min(limits.CHUNK_TOKENS, encoder.tokens_max)
        chunks = [
            chunk_text(
                one.content,
                encoder.token_spans(one.content),
                chunks_max=limits.CHUNKS_ITEM,
                tokens_max=tokens_max,
            )
            for one in part
        ]
        flat = encoder.encode_documents([text for texts in chunks for text in texts])
        ends = np.cumsum([len(texts) for texts in chunks])
        sets = [
            VectorSet(
                item_id=one.id,
                content_hash=one.content_hash,
                project=one.project,
                session_id=one.session_id,
                agent=one.agent,
                kind=one.kind.value,
                at=one.at,
                chunks=texts,
                vectors=flat[end - len(texts) : end],
            )
            for one, texts, end in zip(part, chunks, ends, strict=True)
        ]
        vectors.put(ItemKind.ENTRY.value, encoder.version, sets, datetime.now(UTC))
