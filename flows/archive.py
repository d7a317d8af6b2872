"""The archive flow: silent journal files into sealed Parquet, closed days of the tables into exports. Wiring only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bytewax.operators as op
from bytewax.dataflow import Dataflow

from headwater.flows.archive_source import PlanSource
from headwater.flows.steps import CallSink

if TYPE_CHECKING:
    from headwater.flows.archive_steps import ArchiveSteps

FLOW_ID = "archive"


def archive_flow(steps: ArchiveSteps) -> Dataflow:
    """Return the flow; nothing runs yet."""
    flow = Dataflow(FLOW_ID)
    files = op.input("silent_files", flow, PlanSource(steps.silent_files))  # Silent
    ready = op.flat_map("check_read", files, steps.check_read)  # Ready: every line has its fate
    drafts = op.map("write_lines", ready, steps.write_lines)  # Sealing: in a temporary file
    published = op.flat_map("publish", drafts, steps.publish)  # Sealing: in the archive and in the journal
    verified = op.map("verify", published, steps.verify)  # Sealing: compared
    op.output("remove", verified, CallSink(steps.remove))
    days = op.input("closed_days", flow, PlanSource(steps.closed_days))  # (Export, Day)
    op.output("export_day", days, CallSink(steps.export_day))
    return flow
