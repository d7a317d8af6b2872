from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.schemas.control import encode_decision, make_decision
from headwater.schemas.errors import InputError, StoreError
from headwater.storage import journal
from headwater.storage.control import ControlJournal, append_durably, effective_mode, set_mode
from headwater.storage.home import Home

WRITERS = 4
LINES = 60


def test_decisions_are_replayed(tmp_path: Path) -> None:
    """What was appended is read back in order, from the start or from a cursor, by anybody."""
    home = Home.open(tmp_path / "h")
    control = ControlJournal(home)
    assert control.read().decisions == ()
    first = control.append("pin", {"id": "m1"}, at_ns=1)
    part = control.read()
    assert [one.id for one in part.decisions] == [first.id]
    second = control.append("project_move", {"from": "/a", "to": "/프로젝트 \ud83d"}, at_ns=2, by="mcp")
    after = ControlJournal(Home.open(home.root)).read(part.cursor)
    assert [(one.id, one.args, one.by) for one in after.decisions] == [(second.id, second.args, "mcp")]
    assert control.read(after.cursor).decisions == ()
    assert control.state().pins == {"m1"}
    assert stat.S_IMODE(control.path.stat().st_mode) == 0o600


def test_the_flow_does_not_take_decisions_for_events(tmp_path: Path) -> None:
    """The control journal is no session file."""
    home = Home.open(tmp_path / "h")
    set_mode(home, "endless")
    assert journal.list_files(home.journal) == {}


def test_a_torn_line_waits_and_then_is_told(tmp_path: Path) -> None:
    """A half line is not read yet; the next writer begins a new line after it, and the half is counted, not lost."""
    control = ControlJournal(Home.open(tmp_path / "h"))
    control.append("pin", {"id": "m1"}, at_ns=1)
    torn = encode_decision(make_decision("pin", {"id": "m2"}, at_ns=2, by="cli"))
    with control.path.open("ab") as file:
        file.write(torn[:20])
    read = control.read()
    assert (len(read.decisions), read.unreadable) == (1, ())
    control.append("pin", {"id": "m3"}, at_ns=3)
    later = control.read(read.cursor)
    assert [one.args for one in later.decisions] == [{"id": "m3"}]
    assert [one.offset for one in later.unreadable] == [read.cursor.offset]
    assert "wanted JSON" in later.unreadable[0].reason
    assert control.state().pins == {"m1", "m3"}


def test_a_torn_line_that_its_writer_finishes_is_one_decision(tmp_path: Path) -> None:
    """Who reads between the halves gets the decision at its end."""
    control = ControlJournal(Home.open(tmp_path / "h"))
    line = encode_decision(make_decision("pin", {"id": "m2"}, at_ns=2, by="cli"))
    for half, found in ((line[:20], 0), (line[20:], 1)):
        with control.path.open("ab") as file:
            file.write(half)
        assert len(control.read().decisions) == found


def test_unknown_lines_are_kept(tmp_path: Path) -> None:
    """A line of a later version stays in the file and among the ignored; junk is counted; the rest holds."""
    control = ControlJournal(Home.open(tmp_path / "h"))
    control.append("dance", {"step": [1, 2]}, at_ns=1)
    append_durably(control.path, b"junk\n")
    control.append("mode", {"mode": "endless"}, at_ns=2)
    before = control.path.read_bytes()
    state = control.state()
    assert state.mode == "endless"
    assert [(one.kind, one.args) for one in state.ignored] == [("dance", {"step": [1, 2]})]
    assert len(control.read().unreadable) == 1
    assert control.path.read_bytes() == before


def test_writers_at_once(tmp_path: Path) -> None:
    """Processes that append at the same time leave whole lines, each once."""
    home = Home.open(tmp_path / "h")
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from headwater.storage.control import ControlJournal\n"
        "from headwater.storage.home import Home\n"
        "control = ControlJournal(Home(Path(sys.argv[1])))\n"
        f"for n in range({LINES}):\n"
        "    control.append('pin', {'id': f'{sys.argv[2]}-{n}', 'why': 'x' * n * 200})\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(home.root), str(n)]) for n in range(WRITERS)
    ]
    assert [one.wait(timeout=60) for one in running] == [0] * WRITERS
    read = ControlJournal(home).read()
    assert read.unreadable == ()
    assert {one.args["id"] for one in read.decisions} == {
        f"{writer}-{n}" for writer in range(WRITERS) for n in range(LINES)
    }
    assert len(read.decisions) == WRITERS * LINES


def test_a_decided_mode_is_above_the_settings(tmp_path: Path) -> None:
    """The settings hold until somebody decides; the last decision wins; a mode that does not exist is refused."""
    home = Home.open(tmp_path / "h")
    assert effective_mode(home) == "session"
    for text in ('mode = "endless"\n', "[endless]\nenabled = true\n"):
        home.config_file.write_text(text, encoding="utf-8")
        assert effective_mode(home) == "endless"
    set_mode(home, "session")
    assert effective_mode(home) == "session"
    set_mode(home, "endless")
    assert effective_mode(home) == "endless"
    with pytest.raises(InputError, match="wanted one of session, endless, got 'sometimes'"):
        set_mode(home, "sometimes")
    assert len(ControlJournal(home).read().decisions) == 2


def test_a_line_that_cannot_be_written(tmp_path: Path) -> None:
    """A link in the file's place, or no folder, is our error with the fix, and the link's target is left alone."""
    home = Home.open(tmp_path / "h")
    (tmp_path / "target").write_bytes(b"")
    (home.journal / journal.CONTROL_NAME).symlink_to(tmp_path / "target")
    for place in (home, Home(tmp_path / "none")):
        with pytest.raises(StoreError, match="Fix: free disk space"):
            set_mode(place, "endless")
    assert (tmp_path / "target").read_bytes() == b""


def test_a_short_write_is_followed_by_the_whole_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk takes only a part, the line is written again on a line of its own, or it is an error."""
    path = tmp_path / "control.jsonl"
    write = os.write
    limits = [5]
    monkeypatch.setattr(
        os, "write", lambda handle, data: write(handle, data[: limits.pop()] if limits else data)
    )
    append_durably(path, b'{"whole": 1}\n')
    assert path.read_bytes() == b'{"who\n{"whole": 1}\n'
    limits += [3, 4]
    with pytest.raises(StoreError, match="only a part"):
        append_durably(path, b'{"whole": 2}\n')
