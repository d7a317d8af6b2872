"""The ingest flow: journal lines in, events in their table, vector jobs in the outbox. Wiring only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bytewax.operators as op
from bytewax.dataflow import Dataflow

from headwater.flows.normalise import normalise
from headwater.flows.parse import parse
from headwater.flows.steps import drop_noise, enqueue, key_by_session, record_dropped, window_by_session

if TYPE_CHECKING:
    from headwater.flows.event_writer import EventWriter, RepeatCounter, Settler
    from headwater.flows.source import JournalSource

FLOW_ID = "ingest"


def ingest_flow(
    read_journal: JournalSource, repeats: RepeatCounter, writer: EventWriter, settler: Settler
) -> Dataflow:
    """Return the flow; nothing runs yet."""
    flow = Dataflow(FLOW_ID)
    lines = op.input("read_journal", flow, read_journal)  # RawLine
    records = op.flat_map("parse", lines, parse)  # Envelope | BadLine
    facts = op.flat_map("normalise", records, normalise)  # Draft | Dropped, a transcript line has several
    kept = op.branch("drop_noise", facts, drop_noise)  # .trues Draft, .falses Dropped
    op.output("record_dropped", kept.falses, record_dropped(settler))
    numbered = op.map("number_repeats", kept.trues, repeats.number_repeats)  # Draft, every id final
    keyed = op.key_on("key_by_session", numbered, key_by_session)  # (session key, Draft)
    turns = op.stateful_batch(
        "window_by_session", keyed, window_by_session
    )  # (session key, Draft with its turn)
    drafts = op.key_rm("drop_session_key", turns)  # Draft
    written = op.flat_map_batch("write_events", drafts, writer.write_events)  # Written
    op.output("enqueue", written, enqueue(settler))
    return flow
