"""Every notebook runs from its first cell to its last, and carries the outputs of such a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LIMIT_S = 240  # of one notebook on a busy machine; half a minute on a quiet one
PATH = re.compile(r"(?:^|[\s\"'(])/(?:home/(?!dev/)|(?:root|Users|tmp|work|var)/)")


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
