"""The ingest flow: journal lines in, events and what memory makes of them in their tables, vector jobs in the outbox.

Wiring only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import bytewax.operators as op
from bytewax.dataflow import Dataflow

from headwater.flows.memory_steps import (
    enqueue_summaries,
    tell_projects,
    with_project,
    write_continuity,
    write_threads,
    write_working_set,
)
from headwater.flows.normalise import normalise
from headwater.flows.parse import parse
from headwater.flows.steps import (
    drop_noise,
    enqueue,
    key_by_session,
    record_dropped,
    window_by_session,
)

if TYPE_CHECKING:
    from headwater.flows.decisions import DecisionSource
    from headwater.flows.event_writer import EventWriter, RepeatCounter, Settler
    from headwater.flows.memory_steps import MemorySteps
    from headwater.flows.memory_writer import MemoryWriter
    from headwater.flows.source import JournalSource

FLOW_ID = "ingest"


@dataclass(frozen=True, slots=True)
class IngestParts:
    """What the flow is wired of: its inputs, what writes events, and what makes and writes memory."""

    read_journal: JournalSource
    read_decisions: DecisionSource
    repeats: RepeatCounter
    writer: EventWriter
    settler: Settler
    memory: MemorySteps
    memory_writer: MemoryWriter


def ingest_flow(parts: IngestParts) -> Dataflow:
    """Return the flow; nothing runs yet."""
    memory, store = parts.memory, parts.memory_writer
    flow = Dataflow(FLOW_ID)
    lines = op.input("read_journal", flow, parts.read_journal)  # RawLine
    records = op.flat_map("parse", lines, parse)  # Envelope | BadLine
    facts = op.flat_map("normalise", records, normalise)  # Draft | Dropped, a transcript line has several
    kept = op.branch("drop_noise", facts, drop_noise)  # .trues Draft, .falses Dropped
    op.output("record_dropped", kept.falses, record_dropped(parts.settler))
    numbered = op.map("number_repeats", kept.trues, parts.repeats.number_repeats)  # Draft, every id final
    keyed = op.key_on("key_by_session", numbered, key_by_session)  # (session key, Draft)
    turns = op.stateful_batch(
        "window_by_session", keyed, window_by_session
    )  # (session key, Draft with its turn)
    drafts = op.key_rm("drop_session_key", turns)  # Draft
    written = op.flat_map_batch("write_events", drafts, parts.writer.write_events)  # Written
    op.output("enqueue", written, enqueue(parts.settler))

    asked = op.input("read_decisions", flow, parts.read_decisions)  # (project, Asked)
    seen = op.flat_map("tell_projects", written, tell_projects)  # (project, Seen)
    both = op.merge("merge_decisions", seen, asked)  # (project, Seen | Asked)
    named = op.map("with_project", both, with_project)  # (project, (project, Seen | Asked))
    ordered = op.stateful_batch(
        "order_by_project", named, memory.order_by_project
    )  # (project, (project, Moment))
    topics = op.stateful_batch("key_by_topic", ordered, memory.key_by_topic)  # (project, (project, Topic))
    windows = op.stateful_batch("window_by_topic", topics, memory.window_by_topic)  # (…, (…, Topic | Window))

    active = op.stateful_batch("working_set", windows, memory.working_set)  # (project, TableChange)
    log = op.stateful_batch("continuity", windows, memory.continuity)  # (project, TableChange)
    memories = op.stateful_batch("consolidate", windows, memory.consolidate)  # (project, TableChange)
    threads = op.stateful_batch("follow_threads", windows, memory.follow_threads)  # (project, TableChange)
    sessions = op.stateful_batch(
        "summarise_sessions", windows, memory.summarise_sessions
    )  # (project, TableChange)

    op.output("write_working_set", active, write_working_set(store))
    op.output("write_continuity", log, write_continuity(store))
    op.output("write_threads", threads, write_threads(store))
    told = op.merge("merge_summaries", memories, sessions)  # (project, TableChange)
    jobs = op.flat_map_batch("write_summaries", told, store.write_summaries)  # JobRequest
    op.output("enqueue_summaries", jobs, enqueue_summaries(store))
    return flow
