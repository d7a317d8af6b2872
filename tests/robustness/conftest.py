"""What tests of robustness share: the test embedder everywhere, a stage, and the installed program."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Program
from stage import Stage

from headwater.surface import processes


@pytest.fixture(autouse=True)
def small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the test embedder in this process too."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """An empty home to spoil."""
    return Stage(tmp_path / "home")


@pytest.fixture
def program() -> Iterator[Program]:
    """A program whose home has a short path, for sockets do not take long ones; everything of it ends with the test."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        made = Program(Path(folder) / "home")
        try:
            yield made
        finally:
            processes.stop_all(made.home)
