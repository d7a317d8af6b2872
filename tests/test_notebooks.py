"""Every notebook runs from its first cell to its last, and carries the outputs of such a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.storage.home import Home
from headwater.surface.console import Progress
from headwater.surface.importers.ingest import append_paths

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LIMIT_S = 240  # of one notebook on a busy machine; half a minute on a quiet one
PATH = re.compile(r"(?:^|[\s\"'(])/(?:home/(?!dev/)|(?:root|Users|tmp|work|var)/)")

CONTINUITY = ROOT / "notebooks" / "01_continuity.ipynb"
CHARTS = 7
FINDINGS = re.compile(r"^([123])\. \*\*.+\*\*", re.MULTILINE)


def run(path: Path) -> Any:
    """Return a notebook with the outputs of a run in its own folder; a cell that fails raises."""
    notebook = read(path)
    client = NotebookClient(
        notebook, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    return client.execute()


def read(path: Path) -> Any:
    """Return a notebook as it is stored."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def code_cells(notebook: Any) -> list[Any]:
    """Return the cells that hold code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.filterwarnings("default")  # of the libraries that run notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It runs with nobody's settings, writes only into temporary folders, and shows what the stored one shows."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    stored = [bool(cell.outputs) for cell in code_cells(read(path))]
    before = set(ROOT.iterdir())
    done = run(path)
    assert [bool(cell.outputs) for cell in code_cells(done)] == stored
    assert set(ROOT.iterdir()) == before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_those_of_one_run(path: Path) -> None:
    """Cells are numbered from 1 on, none failed, something is shown, and no path of a machine is."""
    cells = code_cells(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs
    assert {output.output_type for output in outputs} <= {"stream", "execute_result", "display_data"}
    for output in outputs:
        assert PATH.search(json.dumps(output).replace("\\n", " ")) is None


def shown(notebook: Any, kind: str) -> list[Any]:
    """Return what a notebook shows of one media type, in order."""
    return [
        output.data[kind]
        for cell in code_cells(notebook)
        for output in cell.outputs
        if kind in output.get("data", {})
    ]


def encodings(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the encodings of a chart and of its layers."""
    own = [spec["encoding"]] if "encoding" in spec else []
    return own + [one for layer in spec.get("layer", ()) for one in encodings(layer)]


def test_continuity_holds_its_charts() -> None:
    """Seven charts are stored, each with data and a title, and both axes of each say what they are."""
    charts = shown(read(CONTINUITY), "application/vnd.vegalite.v6+json")
    assert len(charts) == CHARTS
    for spec in charts:
        assert spec["title"]
        assert all(spec["datasets"].values())
        for axis in ("x", "y"):
            assert any(one.get(axis, {}).get("title") for one in encodings(spec)), (spec["title"], axis)


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.filterwarnings("default")  # of the libraries that run notebooks
def test_continuity_reads_ones_own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a home with the same story it tells the three findings that are stored, and leaves no trace in it."""
    home = Home.open(tmp_path / "home")
    append_paths(home, [ROOT / "tests" / "data" / "story_en_pay.jsonl.gz"], None, Progress("reading"))
    run_ingest(home, IngestOptions(embedding_version=None, until_idle=True))
    before = {path: path.stat().st_mtime_ns for path in home.root.rglob("*")}
    monkeypatch.setenv("HEADWATER_NOTEBOOK_HOME", str(home.root))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    findings = shown(run(CONTINUITY), "text/markdown")
    assert findings == shown(read(CONTINUITY), "text/markdown")
    assert FINDINGS.findall(findings[0]) == ["1", "2", "3"]
    assert {path: path.stat().st_mtime_ns for path in home.root.rglob("*")} == before
