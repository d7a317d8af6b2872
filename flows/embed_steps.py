"""Steps of the embed flow: plain methods over stores and an encoder, each takes and returns a `Work`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from headwater.flows.chunking import chunk_text
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.errors import DamagedError, HeadwaterError, ModelError, StoreError
from headwater.schemas.events import Kind
from headwater.storage.faults import fault_point
from headwater.storage.vectors import VectorSet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from headwater.flows.items import Item, Items
    from headwater.schemas.clock import Clock
    from headwater.schemas.jobs import Job
    from headwater.storage.embedder import Encoder
    from headwater.storage.outbox import VectorOutbox
    from headwater.storage.vectors import VectorStore

_RENEW_S = limits.LEASE_S / 3  # two renewals may fail before a lease runs out
_KNOWN_TEXT = "ready"  # a model that cannot encode it is broken as a whole


@dataclass(frozen=True, slots=True)
class Piece:
    """One job on its way: its item, chunks and vectors as far as they are made; `error` ends it.

    `is_there`: its vectors were written before, by a worker that died before it could say so.
    """

    job: Job
    item: Item | None = None
    chunks: tuple[str, ...] = ()
    vectors: NDArray[np.float32] | None = None
    error: str | None = None
    is_there: bool = False


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
    """The steps, with what they need. One owner name per run: only it can finish what it leased.

    A job's failure counts only while the model and the disk are sound: a model that cannot encode a known text, or a
    store to which nothing can be written, raises instead, and whoever runs the flow gives the jobs back uncounted.
    """

    def __init__(
        self,
        outbox: VectorOutbox,
        items: Items,
        vectors: VectorStore,
        encoder: Encoder,
        *,
        owner: str,
        stop: threading.Event | None = None,
        clock: Clock = clock_module.SYSTEM,
        newest_first: bool = False,
        until_s: float | None = None,
    ) -> None:
        """Nothing is opened or loaded here. `until_s`: on the monotonic clock, no job is claimed later than that."""
        self._outbox = outbox
        self._items = items
        self._vectors = vectors
        self._encoder = encoder
        self._owner = owner
        self._stop = stop or threading.Event()
        self._clock = clock
        self._newest_first = newest_first
        self._until_s = until_s
        self._pace = ClaimPace()
        self._claimed_s = 0.0
        self._renewed_s = 0.0
        self.report = EmbedReport()

    def claim_jobs(self) -> list[Job]:
        """Return newly leased jobs; none when nothing is due or the run is to end."""
        self._claimed_s = self._renewed_s = self._clock.monotonic_s()
        if self._stop.is_set() or (self._until_s is not None and self._claimed_s >= self._until_s):
            return []
        jobs = self._outbox.claim_jobs(
            self._owner, self._pace.jobs, self._encoder.version, newest_first=self._newest_first
        )
        fault_point("embed.claimed")
        return jobs

    def load_items(self, jobs: Sequence[Job]) -> Work:
        """Return each job with its item's text; one whose item is not there gets an error."""
        found = {
            (kind, item_id): item
            for kind in {job.item_kind for job in jobs}
            for item_id, item in self._items.get(
                kind, [job.item_id for job in jobs if job.item_kind is kind]
            ).items()
        }
        written = self._written([job for job in jobs if job.retry_count or job.error])
        pieces = []
        for job in jobs:
            item = found.get((job.item_kind, job.item_id))
            if item is None:
                pieces.append(Piece(job, error=f"Content not found: {job.item_kind}:{job.item_id}"))
            else:
                pieces.append(Piece(job, item, is_there=written.get(job.job_id) == item.content_hash))
        return tuple(pieces)

    def chunk_items(self, work: Work) -> Work:
        """Return the pieces with their chunks; an empty text has none, and ends without a vector."""
        done = tuple(
            piece if piece.error or piece.is_there else _guard(piece, self._chunked, ModelError)
            for piece in work
        )
        if any(new.error and not old.error for old, new in zip(work, done, strict=True)):
            self._check_model()
        return done

    def encode_batch(self, work: Work) -> Work:
        """Return the pieces with vectors. When the batch fails, each is tried alone: one bad item spoils no other.

        Leases are renewed while it lasts. Raises ModelError when it is the model that is broken.
        """
        todo = [piece for piece in work if not piece.error and piece.chunks]
        held = [piece.job.job_id for piece in work]
        try:
            done = self._encoded(todo, held)
        except ModelError:
            self._check_model()
            done = [_guard(piece, lambda one: self._encoded([one], held)[0], ModelError) for piece in todo]
            if all(piece.error for piece in done):
                self._check_model()
        fault_point("embed.encoded")
        by_job = {piece.job.job_id: piece for piece in done}
        return tuple(by_job.get(piece.job.job_id, piece) for piece in work)

    def write_vectors(self, work: Work) -> Work:
        """Return the pieces, their vectors written; those of empty texts lose older vectors.

        When the batch cannot be written, each is tried alone. Raises when not one of several can be, or the disk takes
        nothing at all: then it is the store that is broken, and going on would use up the tries of every job.
        """
        good = [piece for piece in work if not piece.error and not piece.is_there]
        try:
            self._put(good)
            return work
        except HeadwaterError as error:
            written = {piece.job.job_id: _guard(piece, self._put_one) for piece in good}
            if all(piece.error for piece in written.values()) and isinstance(
                error, StoreError | DamagedError
            ):
                if len(good) > 1:
                    raise error from None
                self._vectors.check_writable()
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
        for kind in sorted({piece.job.item_kind for piece in work}):
            written = [
                piece.job.item_id for piece in work if piece.job.item_kind is kind and piece.item is not None
            ]
            there = self._items.get(kind, written)
            gone = [item_id for item_id in written if item_id not in there]
            if gone:
                self._vectors.delete_items(kind, gone, self._encoder.version)

    def _written(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Return job id -> content hash of the vectors that jobs have which were tried before."""
        found: dict[str, str] = {}
        for kind in {job.item_kind for job in jobs}:
            own = [job for job in jobs if job.item_kind is kind]
            hashes = self._vectors.hashes(kind, self._encoder.version, [job.item_id for job in own])
            found |= {job.job_id: hashes[job.item_id] for job in own if job.item_id in hashes}
        return found

    def _check_model(self) -> None:
        """Raise ModelError when the model cannot even encode a known text: then no item is to blame."""
        self._encoder.token_spans(_KNOWN_TEXT)
        self._encoder.encode_documents([_KNOWN_TEXT])

    def _chunked(self, piece: Piece) -> Piece:
        if piece.item is None or not piece.item.content.strip():
            return piece
        chunks = chunk_text(
            piece.item.content,
            self._encoder.token_spans(piece.item.content),
            # of a tool's text, its head and its tail say most
            chunks_max=limits.CHUNKS_TOOL if piece.item.kind == Kind.TOOL.value else limits.CHUNKS_ITEM,
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
            own = [(piece, piece.item) for piece in pieces if piece.job.item_kind is kind and piece.item]
            sets = [self._vector_set(piece, item) for piece, item in own]
            self._vectors.put(kind, self._encoder.version, sets, now)

    def _put_one(self, piece: Piece) -> Piece:
        self._put([piece])
        return piece

    def _vector_set(self, piece: Piece, item: Item) -> VectorSet:
        nothing = np.empty((0, self._encoder.dim), np.float32)
        return VectorSet(
            item_id=item.item_id,
            content_hash=item.content_hash,
            project=item.project,
            session_id=item.session_id,
            agent=item.agent,
            kind=item.kind,
            at=item.at,
            chunks=piece.chunks,
            vectors=nothing if piece.vectors is None else piece.vectors,
        )


def _guard(
    piece: Piece, step: Callable[[Piece], Piece], kind: type[HeadwaterError] = HeadwaterError
) -> Piece:
    """Return the piece after a step, or with the step's error of that kind: a job's failure is data."""
    try:
        return step(piece)
    except kind as error:
        return replace(piece, error=str(error))
