from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from bytewax.visualize import to_json

from headwater.flows.ingest import FLOW_ID, ingest_flow
from headwater.flows.source import JournalSource, SourceConfig
from headwater.flows.watcher import Watcher

STEPS = [
    "read_journal",
    "parse",
    "normalise",
    "drop_noise",
    "key_by_session",
    "window_by_session",
    "write_events",
    "enqueue",
]


def test_steps_stand_in_order_in_the_rendered_flow(bench: Any, tmp_path: Path) -> None:
    """The picture of the flow shows the steps under the names and in the order that the documents give."""
    source = JournalSource(SourceConfig(tmp_path, threading.Event()), Watcher(tmp_path))
    flow = ingest_flow(source, bench.repeats, bench.writer, bench.settler)
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
