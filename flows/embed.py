"""The embed flow: vector jobs in, vectors in their tables, jobs done. Wiring only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bytewax.operators as op
from bytewax.dataflow import Dataflow

from headwater.flows.embed_source import JobSource
from headwater.flows.steps import CallSink

if TYPE_CHECKING:
    from headwater.flows.embed_steps import EmbedSteps

FLOW_ID = "embed"


def embed_flow(steps: EmbedSteps) -> Dataflow:
    """Return the flow; nothing runs yet."""
    flow = Dataflow(FLOW_ID)
    claims = op.input("claim_jobs", flow, JobSource(steps.claim_jobs))  # list[Job], leased
    items = op.map("load_items", claims, steps.load_items)  # Work: each job with its item, or why it has none
    pieces = op.map("chunk_items", items, steps.chunk_items)  # Work, texts cut into chunks
    vectors = op.map("encode_batch", pieces, steps.encode_batch)  # Work, with vectors
    written = op.map("write_vectors", vectors, steps.write_vectors)  # Work, vectors in their table
    op.output("mark_done", written, CallSink(steps.mark_done))
    return flow
