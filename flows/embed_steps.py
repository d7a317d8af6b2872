"""Steps of the embed flow: plain methods over stores and an encoder, each takes and returns a `Work`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.flows.chunking import chunk_text
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.events import ItemKind, Kind
from headwater.storage.faults import fault_point
from headwater.storage.vectors import VectorSet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from headwater.schemas.clock import Clock
    from headwater.schemas.jobs import Job
    from headwater.storage.embedder import Encoder
    from headwater.storage.outbox import VectorOutbox
    from headwater.storage.tables import LanceTable
    from headwater.storage.vectors import VectorStore

_ITEM_COLUMNS = ("id", "content", "content_hash", "project", "session_id", "agent", "kind", "at")
_RENEW_S = limits.LEASE_S / 3  # two renewals may fail before a lease runs out


@dataclass(frozen=True, slots=True)
class Piece:
    """One job on its way: its item's row, chunks and vectors as far as they are made; `error` ends it."""

    job: Job
    row: dict[str, Any] = field(default_factory=dict)
    chunks: tuple[str, ...] = ()
    vectors: NDArray[np.float32] | None = None
    error: str | None = None


Work = tuple[Piece, ...]
"""The jobs of one claim."""


@dataclass(slots=True)
class EmbedReport:
    """What a run did. `errors` rows are {"job_id", "error"}, the first EMBED_ERRORS_KEPT of them.

    A job whose lease was lost is processed, and neither succeeded nor failed: its new owner tells.
    """

    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    errors: list[dict[str, str]] = field(default_factory=list)


class ClaimPace:
    """How many jobs one claim takes, so that working them off lasts about EMBED_CLAIM_S: a stop waits for that."""

    def __init__(self) -> None:
        """Nothing is known of this machine and these texts yet."""
        self.jobs = limits.EMBED_CLAIM_FIRST

    def note(self, jobs: int, elapsed_s: float) -> None:
        """Learn from one claim; at most twice as many, or half of it, the next time."""
        fitting = jobs * limits.EMBED_CLAIM_S / max(elapsed_s, 1e-6)
        bounded = min(max(fitting, self.jobs / 2), self.jobs * 2)
        self.jobs = min(max(1, round(bounded)), limits.CLAIM_JOBS)


class EmbedSteps:
    """The steps, with what they need. One owner name per run: only it can finish what it leased."""

    def __init__(
        self,
        outbox: VectorOutbox,
        events: LanceTable,
        vectors: VectorStore,
        encoder: Encoder,
        *,
        owner: str,
        stop: threading.Event | None = None,
        clock: Clock = clock_module.SYSTEM,
    ) -> None:
        """Nothing is opened or loaded here."""
        self._outbox = outbox
        self._events = events
        self._vectors = vectors
        self._encoder = encoder
        self._owner = owner
        self._stop = stop or threading.Event()
        self._clock = clock
        self._pace = ClaimPace()
        self._claimed_s = 0.0
        self._renewed_s = 0.0
        self.report = EmbedReport()

    def claim_jobs(self) -> list[Job]:
        """Return newly leased jobs, oldest first; none when nothing is due or the run is to stop."""
        if self._stop.is_set():
            return []
        self._claimed_s = self._renewed_s = self._clock.monotonic_s()
        jobs = self._outbox.claim_jobs(self._owner, self._pace.jobs, self._encoder.version)
        fault_point("embed.claimed")
        return jobs

    def load_items(self, jobs: Sequence[Job]) -> Work:
        """Return each job with its item's text; one whose item is not there gets an error."""
        wanted = [job.item_id for job in jobs if job.item_kind is ItemKind.ENTRY]
        found = self._events.by_ids(wanted, list(_ITEM_COLUMNS)) if wanted else None
        rows = {row["id"]: row for row in found.iter_rows(named=True)} if found is not None else {}
        return tuple(
            Piece(job, rows[job.item_id])
            if job.item_kind is ItemKind.ENTRY and job.item_id in rows
            else Piece(job, error=f"Content not found: {job.item_kind}:{job.item_id}")
            for job in jobs
        )

    def chunk_items(self, work: Work) -> Work:
        """Return the pieces with their chunks; an empty text has none, and ends without a vector."""
        return tuple(piece if piece.error else _guard(piece, self._chunked) for piece in work)

    def encode_batch(self, work: Work) -> Work:
        """Return the pieces with vectors. When the batch fails, each is tried alone: one bad item spoils no other.

        Leases are renewed while it lasts.
        """
        todo = [piece for piece in work if not piece.error and piece.chunks]
        held = [piece.job.job_id for piece in work]
        try:
            done = self._encoded(todo, held)
        except HeadwaterError:
            done = [_guard(piece, lambda one: self._encoded([one], held)[0]) for piece in todo]
        fault_point("embed.encoded")
        by_job = {piece.job.job_id: piece for piece in done}
        return tuple(by_job.get(piece.job.job_id, piece) for piece in work)

    def write_vectors(self, work: Work) -> Work:
        """Return the pieces, their vectors written; those of empty texts lose older vectors.

        When the batch cannot be written, each is tried alone. Raises when not one can be: then it is the store that is
        broken, and going on would use up the tries of every job.
        """
        good = [piece for piece in work if not piece.error]
        try:
            self._put(good)
            return work
        except HeadwaterError as error:
            written = {piece.job.job_id: _guard(piece, self._put_one) for piece in good}
            if all(piece.error for piece in written.values()):
                raise error from None
        return tuple(written.get(piece.job.job_id, piece) for piece in work)

    def mark_done(self, batches: Sequence[Work]) -> None:
        """Finish the jobs: done, or one try more; a lease lost meanwhile is left to its new owner.

        An item that was deleted meanwhile keeps no vectors.
        """
        for work in batches:
            good = [piece.job.job_id for piece in work if not piece.error]
            self.report.processed += len(work)
            finished = self._outbox.mark_done(self._owner, good)
            self.report.succeeded += finished
            if finished < len(good):
                self._delete_those_gone(work)
            for piece in work:
                if piece.error:
                    self.report.failed += self._outbox.mark_failed(self._owner, piece.job.job_id, piece.error)
                    self.report.errors.append({"job_id": piece.job.job_id, "error": piece.error})
            del self.report.errors[limits.EMBED_ERRORS_KEPT :]
            self._pace.note(len(work), self._clock.monotonic_s() - self._claimed_s)
        self._vectors.maintain(self._encoder.version, self._clock.now())

    def _delete_those_gone(self, work: Work) -> None:
        written = [piece.job.item_id for piece in work if piece.row]
        there = set(self._events.by_ids(written, ["id"]).get_column("id"))
        gone = [item_id for item_id in written if item_id not in there]
        if gone:
            self._vectors.delete_items(ItemKind.ENTRY, gone, self._encoder.version)

    def _chunked(self, piece: Piece) -> Piece:
        text = piece.row["content"]
        if not text.strip():
            return piece
        chunks = chunk_text(
            text,
            self._encoder.token_spans(text),
            # of a tool's text, its head and its tail say most
            chunks_max=limits.CHUNKS_TOOL if piece.row["kind"] == Kind.TOOL.value else limits.CHUNKS_ITEM,
            tokens_max=min(limits.CHUNK_TOKENS, self._encoder.tokens_max),
        )
        return replace(piece, chunks=chunks)

    def _encoded(self, pieces: Sequence[Piece], held: Sequence[str]) -> list[Piece]:
        """Return the pieces with vectors, all encoded together, renewing the held leases in between."""
        texts = [chunk for piece in pieces for chunk in piece.chunks]
        vectors = self._encoder.encode_documents(texts, lambda: self._renew(held)) if texts else None
        done, start = [], 0
        for piece in pieces:
            end = start + len(piece.chunks)
            done.append(piece if vectors is None else replace(piece, vectors=vectors[start:end]))
            start = end
        return done

    def _renew(self, held: Sequence[str]) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._renewed_s >= _RENEW_S:
            self._outbox.renew(self._owner, held)
            self._renewed_s = now_s

    def _put(self, pieces: Sequence[Piece]) -> None:
        now = self._clock.now()
        for kind in sorted({piece.job.item_kind for piece in pieces}):
            sets = [self._vector_set(piece) for piece in pieces if piece.job.item_kind is kind]
            self._vectors.put(kind, self._encoder.version, sets, now)

    def _put_one(self, piece: Piece) -> Piece:
        self._put([piece])
        return piece

    def _vector_set(self, piece: Piece) -> VectorSet:
        row = piece.row
        nothing = np.empty((0, self._encoder.dim), np.float32)
        return VectorSet(
            item_id=piece.job.item_id,
            content_hash=row["content_hash"],
            project=row["project"],
            session_id=row["session_id"],
            agent=row["agent"],
            kind=row["kind"],
            at=row["at"],
            chunks=piece.chunks,
            vectors=nothing if piece.vectors is None else piece.vectors,
        )


def _guard(piece: Piece, step: Callable[[Piece], Piece]) -> Piece:
    """Return the piece after a step, or with the step's error: a job's failure is data."""
    try:
        return step(piece)
    except HeadwaterError as error:
        return replace(piece, error=str(error))
