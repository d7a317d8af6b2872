"""What tests of the running program share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Program

from headwater.surface import processes


@pytest.fixture
def program() -> Iterator[Program]:
    """A program whose home has a short path, for sockets do not take long ones; everything of it ends with the test."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        made = Program(Path(folder) / "home")
        try:
            yield made
        finally:
            processes.stop_all(made.home)
