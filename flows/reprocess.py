"""The reprocess flow: all of layer 0 into a generation's tables, by the very steps of ingest. Wiring only.

Same flow id and same step ids, so that ingest goes on from the snapshots this flow leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.flows.ingest import FLOW_ID, ingest_flow

if TYPE_CHECKING:
    from bytewax.dataflow import Dataflow

    from headwater.flows.ingest import IngestParts

__all__ = ["FLOW_ID", "reprocess_flow"]


def reprocess_flow(parts: IngestParts) -> Dataflow:
    """Return the flow; nothing runs yet. Its journal source is bounded, and begins with the archive."""
    return ingest_flow(parts)
