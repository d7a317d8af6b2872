from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from bytewax.visualize import to_json

from headwater.flows.decisions import DecisionReader, DecisionSource
from headwater.flows.ingest import FLOW_ID, IngestParts, ingest_flow
from headwater.flows.memory_steps import MemorySteps
from headwater.flows.memory_writer import MemoryWriter
from headwater.flows.source import JournalSource, SourceConfig
from headwater.flows.watcher import Watcher
from headwater.storage.home import Home

STEPS = [
    "read_journal",
    "parse",
    "normalise",
    "drop_noise",
    "key_by_session",
    "window_by_session",
    "write_events",
    "enqueue",
    "order_by_project",
    "key_by_topic",
    "window_by_topic",
    "working_set",
    "continuity",
    "consolidate",
    "write_working_set",
    "write_continuity",
    "write_summaries",
    "enqueue_summaries",
]


def test_steps_stand_in_order_in_the_rendered_flow(bench: Any, tmp_path: Path) -> None:
    """The picture of the flow shows the steps under the names and in the order that the documents give."""
    source = JournalSource(SourceConfig(tmp_path, threading.Event()), Watcher(tmp_path))
    decisions = DecisionSource(DecisionReader(Home.open(tmp_path / "home"), threading.Event()))
    memory, writer = MagicMock(spec=MemorySteps), MagicMock(spec=MemoryWriter)
    flow = ingest_flow(
        IngestParts(source, decisions, bench.repeats, bench.writer, bench.settler, memory, writer)
    )
    rendered = json.loads(to_json(flow))
    assert rendered["flow_id"] == FLOW_ID
    names = [step["step_id"].removeprefix(f"{FLOW_ID}.") for step in rendered["substeps"]]
    assert [name for name in names if name in STEPS] == STEPS


def test_file_only_wires() -> None:
    """The flow's file holds neither a branch nor a loop: what steps do stands elsewhere."""
    import ast

    from headwater.flows import ingest

    tree = ast.parse(Path(ingest.__file__).read_text(encoding="utf-8"))
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    logic = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Lambda, ast.ListComp, ast.FunctionDef)
    assert not [node for node in ast.walk(function) if isinstance(node, logic) and node is not function]
