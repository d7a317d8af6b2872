"""vector worker, status, reconcile, drop: the vector jobs by hand."""

from __future__ import annotations

import copy
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from headwater.schemas import clock, limits
from headwater.schemas.errors import HeadwaterError, InputError
from headwater.surface.console import note, progress, say, show_json
from headwater.surface.options import HOME, JSON, open_home

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from headwater.flows.reconcile import ReconcileReport
    from headwater.flows.vector_worker import VectorWorker
    from headwater.schemas.jobs import ProcessResult
    from headwater.storage.home import Home
    from headwater.storage.outbox import VectorOutbox
    from headwater.storage.worker_lock import WorkerLock

BUSY = "Another worker is running"
NOTHING: ProcessResult = {"processed": 0, "succeeded": 0, "failed": 0, "errors": []}
_ERROR_CHARS = 200


@click.group()
def vector() -> None:
    """Vector jobs: work them off, look at them, put them right."""


@vector.command()
@click.option("--once", is_flag=True, help="Work off what is due, then end.")
@click.option("--reconcile", "first", is_flag=True, help="Before, do what `vector reconcile` does.")
@HOME
@JSON
def worker(home_path: Path | None, *, once: bool, first: bool, as_json: bool) -> None:
    """Make vectors in this process; stop with Ctrl-C. A running stream does this by itself.

    There is one worker at a time: when another one runs, this one says so and ends.
    """
    from headwater.flows.reconcile import reconcile as put_right
    from headwater.storage.active import active_version
    from headwater.storage.outbox import VectorOutbox
    from headwater.storage.worker_lock import version_lock
    from headwater.surface.workers import stop_on_signals

    home = open_home(home_path)
    version = active_version(home)
    lock = version_lock(home, version)
    if not lock.acquire():
        if as_json:
            show_json({**NOTHING, "message": BUSY})
        else:
            say(BUSY)
        return
    stop = stop_on_signals()
    try:
        with closing(VectorOutbox(home.outbox_file)) as outbox:
            before = put_right(home, outbox, version, lock=lock) if first else None
            if before is not None and not as_json:
                say(reconcile_text(before))
            is_idle = once and not _has_work(home, outbox, version)
        if is_idle:
            _tell(NOTHING, before, as_json=as_json)
            return
        with _worker(home, lock, stop) as made:
            _work(made, stop, before, once=once, as_json=as_json)
    finally:
        lock.release()


@vector.command()
@HOME
@JSON
def status(home_path: Path | None, *, as_json: bool) -> None:
    """Show how many vector jobs wait, failed and why, and how many items have no vectors."""
    home = open_home(home_path)
    found = vector_status_of(home)
    if as_json:
        show_json(found)
    else:
        say(status_text(found))


@vector.command()
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@click.option(
    "--max-retries",
    type=click.IntRange(min=1),
    default=limits.RETRIES_MAX,
    show_default=True,
    metavar="N",
    help="Failed jobs that were tried again N times stay failed.",
)
@HOME
@JSON
def reconcile(home_path: Path | None, *, dry_run: bool, max_retries: int, as_json: bool) -> None:
    """Take back stuck jobs, reset failed ones, and compare items with vectors both ways.

    Items without vectors get a job, vectors without an item are deleted. Nothing is lost by it, nor by deleting
    outbox.sqlite before.
    """
    from headwater.flows.reconcile import reconcile as put_right
    from headwater.storage.outbox import VectorOutbox

    home = open_home(home_path)
    with closing(VectorOutbox(home.outbox_file)) as outbox, progress("reconciling"):
        done = put_right(home, outbox, version_in_use(home), retries_max=max_retries, dry_run=dry_run)
    if as_json:
        show_json(asdict(done))
    else:
        say(reconcile_text(done))


@vector.command()
@click.argument("version")
@HOME
@JSON
def drop(version: str, home_path: Path | None, *, as_json: bool) -> None:
    """Delete all vectors and jobs of an embedding VERSION that is not in use. `vector status` lists versions."""
    from headwater.storage.outbox import VectorOutbox
    from headwater.storage.vectors import VectorStore
    from headwater.storage.worker_lock import version_lock

    home = open_home(home_path, create=False)
    if version == version_in_use(home):
        raise InputError(
            f"embedding version {version}",
            "it is the active one, which answers searches",
            "make another one active first: headwater models activate NAME",
        )
    store = VectorStore(home)
    with closing(VectorOutbox(home.outbox_file)) as outbox:
        items = store.versions()
        known = sorted({*items, *outbox.versions()})
        if version not in known:
            listed = ", ".join(known) or "none"
            raise InputError(
                f"embedding version {version}", f"wanted one of: {listed}", "see: headwater vector status"
            )
        with version_lock(home, version):
            store.drop(version)
            jobs = outbox.drop_version(version)
    done = {"version": version, "items": items.get(version, 0), "jobs": jobs}
    if as_json:
        show_json(done)
    else:
        say(f"{version}: vectors of {done['items']:,} items and {jobs:,} jobs deleted")


def version_in_use(home: Home) -> str:
    """Return the version that is current, else the one that the configured model makes. Raises ModelError."""
    from headwater.storage.active import chosen_model
    from headwater.storage.models import version_of

    return home.current().embedding_version or version_of(chosen_model(home))


def vector_status_of(home: Home) -> dict[str, Any]:
    """Return counts, metrics and versions as JSON-ready data; how many items have vectors is counted now."""
    from headwater.flows.missing import missing_vectors
    from headwater.storage.outbox import VectorOutbox
    from headwater.storage.vectors import VectorStore
    from headwater.storage.worker_lock import version_lock

    version = version_in_use(home)
    store = VectorStore(home)
    with closing(VectorOutbox(home.outbox_file, mends=False)) as outbox:
        metrics = outbox.metrics(version)
        failed = outbox.failed_jobs(limits.JOBS_SHOWN, version)
    last = metrics.last_processed_at
    return {
        "version": version,
        **asdict(metrics.counts),
        "oldest_pending_s": metrics.oldest_pending_s,
        "mean_processing_s": metrics.mean_processing_s,
        "last_processed_at": None if last is None else clock.iso(last),
        "items_with_vectors": store.count_items(version),
        "items_without_vectors": missing_vectors(home, version).height,
        "worker": version_lock(home, version).owner(),
        "failed_jobs": [
            {
                "job_id": job.job_id,
                "item": f"{job.item_kind}:{job.item_id}",
                "retry_count": job.retry_count,
                "error": job.error,
            }
            for job in failed
        ],
        "versions": store.versions(),
    }


def status_text(found: dict[str, Any]) -> str:
    """Return `vector status` for people."""
    mean_s, oldest_s = found["mean_processing_s"], found["oldest_pending_s"]
    waited = "" if oldest_s is None else f"    oldest for {oldest_s:,.0f} s"
    rows = [
        ("version", found["version"]),
        ("worker", "none runs" if found["worker"] is None else f"process {found['worker']}"),
        ("pending", f"{found['pending']:,}{waited}"),
        ("processing", f"{found['processing']:,}"),
        ("done", f"{found['done']:,}" + ("" if mean_s is None else f"    {mean_s:.2f} s from claim to done")),
        ("failed", f"{found['failed']:,}"),
        ("last", found["last_processed_at"] or "never"),
        (
            "items",
            f"{found['items_with_vectors']:,} with vectors, {found['items_without_vectors']:,} without",
        ),
    ]
    rows += [("other", f"{name}: {n:,} items") for name, n in found["versions"].items() if name != rows[0][1]]
    lines = [f"{name:<12}{value}" for name, value in rows]
    lines += [f"{job['item']} failed: {(job['error'] or '')[:_ERROR_CHARS]}" for job in found["failed_jobs"]]
    if found["failed"] or (found["items_without_vectors"] and not found["pending"] + found["processing"]):
        lines.append("\nPut right with: headwater vector reconcile")
    return "\n".join(lines)


def reconcile_text(done: ReconcileReport) -> str:
    """Return a reconcile for people."""
    would = "would be " if done.dry_run else ""
    lines = [
        f"{done.recovered:,} stuck jobs {would}taken back, {done.reset:,} failed jobs {would}tried again",
        f"{done.missing:,} items have no vectors, {done.enqueued:,} {would}given a job",
        f"{done.orphans:,} items are gone but have vectors"
        + (", which would be deleted" if done.dry_run else f", {done.deleted:,} of these were deleted"),
    ]
    if done.orphans > done.deleted and not done.dry_run:
        lines.append(
            f"{done.orphans - done.deleted:,} are left to the running worker, which deletes them now"
        )
    if done.failed:
        lines.append(
            f"{done.failed:,} jobs stay failed; try them again: headwater vector reconcile --max-retries {done.tries}"
        )
    return "\n".join(lines)


def _has_work(home: Home, outbox: VectorOutbox, version: str) -> bool:
    """Return whether a job is due, before a model is loaded for it."""
    from headwater.flows.missing import enqueue_missing

    outbox.recover_abandoned(version)
    if not outbox.was_compared(version):
        enqueue_missing(home, outbox, version, is_worker=True)
    due = outbox.next_due(version)
    return outbox.is_asked_to_reconcile(version) or (due is not None and due <= clock.SYSTEM.now())


def _worker(home: Home, lock: WorkerLock, stop: threading.Event) -> VectorWorker:
    from headwater.flows.vector_worker import VectorWorker
    from headwater.storage.active import active_model
    from headwater.storage.embedder import load

    with progress("loading the model"):
        encoder = load(active_model(home))
    return VectorWorker(home, encoder, lock=lock, stop=stop)


def _work(
    made: VectorWorker, stop: threading.Event, before: ReconcileReport | None, *, once: bool, as_json: bool
) -> None:
    """Work off what is due, once or until stopped; each pass that did something is told."""
    if once:
        _tell(made.process_all(), before, as_json=as_json)
        return
    note("vector worker is running; stop it with Ctrl-C")
    while not stop.is_set():
        if made.has_work():
            try:
                _tell(made.process_all(), before, as_json=as_json)
                before = None
            except (
                HeadwaterError
            ) as error:  # the model or a store is broken: it may come back, and no job lost a try
                note(str(error))
        stop.wait(limits.POLL_JOBS_S)


def _tell(result: ProcessResult, before: ReconcileReport | None, *, as_json: bool) -> None:
    """Say what a pass did: as JSON one object each, with the reconcile that came before it."""
    if as_json:
        show_json(result if before is None else {**result, "reconcile": asdict(before)})
        return
    say(
        f"Processed: {result['processed']:,}, Succeeded: {result['succeeded']:,}, Failed: {result['failed']:,}"
    )
    for error in result["errors"][: limits.JOBS_SHOWN]:
        note(f"{error['job_id']}: {error['error'][:_ERROR_CHARS]}")


def _alias(command: click.Command, name: str) -> click.Command:
    made = copy.copy(command)
    made.name = name
    return made


vector_worker = _alias(worker, "vector-worker")
vector_status = _alias(status, "vector-status")
vector_reconcile = _alias(reconcile, "vector-reconcile")
