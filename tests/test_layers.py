"""Imports go one way. The checks are run on planted faults as well, to show that they can fail."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("schemas", "storage", "flows", "query", "surface")
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def copied_tree(folder: Path) -> Path:
    """Return a copy of the packages as a plain `headwater/` folder, with the settings beside it."""
    for name in PACKAGES:
        shutil.copytree(
            ROOT / name, folder / "headwater" / name, ignore=shutil.ignore_patterns("__pycache__", "data")
        )
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a copied tree; PYTHONPATH puts it before the installed packages."""
    return subprocess.run(
        [str(LINT_IMPORTS), "--no-logo", "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def imported_modules(source: str) -> list[str]:
    """Return the dotted names a module imports, at any depth of its code; `from a import b` gives `a.b`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            found += [f"{start}.{alias.name}" for alias in node.names]
    return found


def outside_standard_library(folder: Path, name: str) -> list[str]:
    """Return what `folder/name.py` and the neighbours it imports take from elsewhere than the standard library.

    A neighbour is a module of the same folder; it is followed, for it has to run in the same bare interpreter.
    """
    found, seen, waiting = [], set[str](), [name]
    while waiting:
        module = waiting.pop()
        seen.add(module)
        for dotted in imported_modules((folder / f"{module}.py").read_text(encoding="utf-8")):
            neighbour = dotted.removeprefix("headwater.surface.").split(".")[0]
            if dotted.startswith("headwater.surface.") and (folder / f"{neighbour}.py").is_file():
                waiting += {neighbour} - seen
            elif dotted.split(".")[0] not in sys.stdlib_module_names:
                found.append(f"{module}: {dotted}")
    return sorted(set(found))


def test_layers_hold(tmp_path: Path) -> None:
    """No package imports from a layer above it, nor flows and query from each other."""
    result = lint(copied_tree(tmp_path))

    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    [
        ("schemas", "headwater.storage", "Layers"),
        ("storage", "headwater.flows", "Layers"),
        ("flows", "headwater.surface", "Layers"),
        ("flows", "headwater.query", "Layers"),
        ("query", "headwater.flows", "Layers"),
        ("query", "bytewax", "Reading and storing"),
    ],
)
def test_planted_back_import_is_reported(tmp_path: Path, importer: str, imported: str, contract: str) -> None:
    """An import against the direction breaks its contract, and the report names it."""
    tree = copied_tree(tmp_path)
    (tree / "headwater" / importer / "planted.py").write_text(f"import {imported}\n", encoding="utf-8")

    result = lint(tree)

    assert result.returncode == 1, result.stdout + result.stderr
    assert any(line.startswith(contract) and line.endswith("BROKEN") for line in result.stdout.splitlines())
    assert f"headwater.{importer}.planted" in result.stdout


def test_hook_needs_only_the_standard_library() -> None:
    """`surface/hook.py`, with the neighbours it loads, runs under any base interpreter, without our environment."""
    assert outside_standard_library(ROOT / "surface", "hook") == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import numpy.linalg", "numpy.linalg"),
        ("from headwater.schemas import ids", "headwater.schemas.ids"),
        ("from headwater.surface.verbs import demo", "headwater.surface.verbs.demo"),
        ("from . import cli", "..cli"),
        ("def late():\n    import click", "click"),
    ],
)
def test_foreign_import_in_hook_is_reported(tmp_path: Path, line: str, name: str) -> None:
    """An import of another layer, of another library, or a relative one is found, also in a neighbour."""
    (tmp_path / "hook.py").write_text("import json\nfrom headwater.surface.near import x\n", encoding="utf-8")
    (tmp_path / "near.py").write_text(f"import os\n{line}\n", encoding="utf-8")

    assert outside_standard_library(tmp_path, "hook") == [f"near: {name}"]
