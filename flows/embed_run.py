"""Running the embed flow in this process until no job is due."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from bytewax.errors import BytewaxRuntimeError
from bytewax.testing import run_main

from headwater.flows.causes import cause_of, ours_in
from headwater.flows.embed import embed_flow
from headwater.flows.embed_steps import EmbedReport, EmbedSteps
from headwater.flows.items import Items
from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.errors import HeadwaterError, StoreError
from headwater.storage.outbox import VectorOutbox
from headwater.storage.vectors import VectorStore
from headwater.storage.worker_lock import version_lock

if TYPE_CHECKING:
    import threading

    from headwater.schemas.clock import Clock
    from headwater.storage.embedder import Encoder
    from headwater.storage.home import Home


def run_embed(
    home: Home,
    encoder: Encoder,
    *,
    owner: str,
    stop: threading.Event | None = None,
    clock: Clock = clock_module.SYSTEM,
) -> EmbedReport:
    """Work off the jobs of the encoder's version that are due, see `work_off`, holding the version's worker lock.

    Raises BusyError when another worker holds it.
    """
    with version_lock(home, encoder.version):
        return work_off(home, encoder, owner=owner, stop=stop, clock=clock)


def work_off(
    home: Home,
    encoder: Encoder,
    *,
    owner: str,
    stop: threading.Event | None = None,
    clock: Clock = clock_module.SYSTEM,
    newest_first: bool = False,
    until_s: float | None = None,
) -> EmbedReport:
    """Work off the jobs of the encoder's version that are due; ends after a batch when `stop` is set.

    For whoever holds the version's worker lock: jobs that a dead worker had leased are taken back first. Needs no
    snapshots: the outbox is its state. A job's own failure is in the report. Raises what the model or a store raises
    when it is broken as a whole; the jobs at hand are given back then, to be tried again soon, and count no try.
    """
    with closing(VectorOutbox(home.outbox_file, clock)) as outbox:
        outbox.recover_abandoned(encoder.version)
        steps = EmbedSteps(
            outbox,
            Items(home),
            VectorStore(home),
            encoder,
            owner=owner,
            stop=stop,
            clock=clock,
            newest_first=newest_first,
            until_s=until_s,
        )
        try:
            run_main(embed_flow(steps))  # type: ignore[no-untyped-call]
        except BytewaxRuntimeError as error:
            ours = ours_in(error)
            if ours is not None:  # else a fault of ours: counted, for it may come from one of the items
                _give_back(outbox, owner, encoder.version, ours)
            raise cause_of(error, "embed flow") from error
        return steps.report


def _give_back(outbox: VectorOutbox, owner: str, version: str, error: HeadwaterError) -> None:
    try:
        outbox.release(owner, version, limits.OUTAGE_WAIT_S, str(error))
    except (
        StoreError
    ) as also:  # the outbox itself is broken: its jobs stay leased, and cost one try when it is back
        error.add_note(f"its jobs stay leased: {also}")
