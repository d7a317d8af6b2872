"""What tests of the running program share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import MEMORY, RETRY, SCRIPT, Agent, Past
from program import Program

from headwater.schemas import limits
from headwater.storage.control import set_mode
from headwater.storage.home import Home
from headwater.surface import asking, processes


@pytest.fixture
def program() -> Iterator[Program]:
    """A program whose home has a short path, for sockets do not take long ones; everything of it ends with the test."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        made = Program(Path(folder) / "home")
        try:
            yield made
        finally:
            processes.stop_all(made.home)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give hook and server 20 s, and return that hook: for tests of what is told, not of when."""
    folder = tmp_path / "surface"
    folder.mkdir()
    for path in SCRIPT.parent.glob("*.py"):
        text = path.read_text(encoding="utf-8").replace(f"ASK_S = {asking.ASK_S}", "ASK_S = 20.0")
        (folder / path.name).write_text(text, encoding="utf-8")
    assert "ASK_S = 20.0" in (folder / "asking.py").read_text(encoding="utf-8")
    monkeypatch.setattr(limits, "INJECT_ANSWER_S", 20.0)
    return folder / "hook.py"


@pytest.fixture
def agent(made: Home, patient: Path) -> Agent:
    """A patient agent in the home."""
    return Agent(made, script=patient)


@pytest.fixture
def made(home: Path) -> Home:
    """A home in endless mode."""
    opened = Home.open(home)
    set_mode(opened, "endless")
    return opened


@pytest.fixture
def past(made: Home) -> Past:
    """A project with two active events, two memories, a session and a log."""
    told = Past(made)
    told.event("a", RETRY, 0)
    told.event("b", "결제 토큰을 레디스에 저장하고 만료 시간은 60초로 두자", 1)
    told.rows.memory("m", MEMORY)
    told.rows.memory("n", "Asked: make the docker image smaller.\nFound: slim debian without musl.", 1)
    told.rows.session("old", "Asked: retry.\nFound: it works.", 2)
    told.rows.turn("a", 0.8, 1)
    return told


@pytest.fixture
def user(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of somebody whose name has spaces, quotes and letters of elsewhere; headwater lies below it."""
    folder = home.parent / 'Jürgen "J" O\'Neil 한글'
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("HEADWATER_HOME", str(folder / "head water"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def opened(user: Path) -> Home:
    """The user's home of headwater."""
    return Home.open(user / "head water")
