"""Running the embed flow in this process until no job is due."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from bytewax.errors import BytewaxRuntimeError
from bytewax.testing import run_main

from headwater.flows.causes import cause_of
from headwater.flows.embed import embed_flow
from headwater.flows.embed_steps import EmbedReport, EmbedSteps
from headwater.schemas import clock as clock_module
from headwater.schemas.columns import EVENTS
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore
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
) -> EmbedReport:
    """Work off the jobs of the encoder's version that are due; ends after a batch when `stop` is set.

    For whoever holds the version's worker lock: jobs that a dead worker had leased are taken back first. Needs no
    snapshots: the outbox is its state. Raises what its stores raise; a job's own failure is in the report.
    """
    with closing(VectorOutbox(home.outbox_file, clock)) as outbox:
        outbox.recover_abandoned(encoder.version)
        events = LanceStore(home.lance).open(EVENTS, create=False)
        steps = EmbedSteps(outbox, events, VectorStore(home), encoder, owner=owner, stop=stop, clock=clock)
        try:
            run_main(embed_flow(steps))  # type: ignore[no-untyped-call]
        except BytewaxRuntimeError as error:
            raise cause_of(error) from error
        return steps.report
