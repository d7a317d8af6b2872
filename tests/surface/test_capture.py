"""The steps of capture, as importers use them: names, homes, envelopes, lines."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from platformdirs import user_data_dir

from headwater.storage.home import Home
from headwater.surface import capture, hook


def test_parallel_appends_never_mix_lines(tmp_path: Path) -> None:
    """16 processes, 50 appends each to one file: every line is whole and starts where its writer said."""
    program = (
        "import sys; from headwater.surface.hook import append_line\n"
        "for n in range(50):\n"
        "    line = (sys.argv[2] + f',{n},' + 'x' * (1 + n * 997)).encode() + b'\\n'\n"
        "    print(append_line(sys.argv[1], line), n)"
    )
    path = tmp_path / "journal" / "a.jsonl"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path), str(who)], stdout=subprocess.PIPE, text=True
        )
        for who in range(16)
    ]
    starts = {
        (who, int(n)): int(start)
        for who, worker in enumerate(workers)
        for start, n in (row.split() for row in worker.communicate(timeout=60)[0].splitlines())
    }
    data = path.read_bytes()

    assert len(starts) == data.count(b"\n") == 800
    for (who, n), start in starts.items():
        assert data[start:].startswith(f"{who},{n},".encode())
        assert data.index(b"\n", start) == start + len(f"{who},{n},") + 1 + n * 997


def test_short_write_is_repeated_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torn line whose rest cannot be written is followed by a newline and the whole line."""
    real = os.write
    sizes = iter([5, 0, 100])
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[: next(sizes)]))
    start = hook.append_line(str(tmp_path / "j"), b'{"whole": 1}\n')

    assert (tmp_path / "j").read_bytes() == b'{"who\n{"whole": 1}\n'
    assert start == 6


def test_append_makes_folders_and_says_where_the_line_starts(tmp_path: Path) -> None:
    """The first append makes the home; each returns the offset of its own line."""
    path = tmp_path / "home" / "journal" / "a.jsonl"

    assert [hook.append_line(str(path), b"12345\n") for _ in range(3)] == [0, 6, 12]
    assert hook.read_failures(str(tmp_path / "home")) == 0


def test_append_that_cannot_end_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is not in the file is an error for whoever wrote it."""
    monkeypatch.setattr(os, "write", lambda fd, data: 3)

    with pytest.raises(OSError, match="only a part"):
        hook.append_line(str(tmp_path / "j"), b"12345\n")


@pytest.mark.parametrize(
    "session",
    [
        "../../etc/passwd",
        "..",
        ".",
        "/",
        "a:b",
        "a b",
        "x" * 300,
        "",
        "ABC",
        "세션",
        "a\x00b",
        "a--b",
        "\ud800",
        "a/../b",
    ],
)
def test_odd_session_ids_give_plain_names(session: str) -> None:
    """Whatever a session is called, its file is one plain name of bounded length."""
    name = hook.journal_name("claude-code", session)

    assert name.startswith("claude-code-")
    assert name.endswith(".jsonl")
    assert len(name) <= hook.FILE_NAME_CHARS + len(".jsonl")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    assert ".." not in name


def test_plain_session_ids_stay() -> None:
    """The id of a real session is the name."""
    session = "af004aec-f1e1-4a3a-b13d-75103ac8bdbe"

    assert hook.journal_name("codex", session) == f"codex-{session}.jsonl"


@given(st.lists(st.text(alphabet="aA.-_/:b", max_size=6), unique=True, max_size=30))
def test_two_sessions_never_share_a_name(sessions: list[str]) -> None:
    """Different ids have different names, also where upper and lower case are one."""
    assert len({hook.journal_name("claude-code", session).lower() for session in sessions}) == len(sessions)


def test_a_changed_name_is_nobody_elses() -> None:
    """An id that looks like another one's changed name does not get its file."""
    changed = hook.journal_name("claude-code", "a:b").removeprefix("claude-code-").removesuffix(".jsonl")

    assert hook.journal_name("claude-code", changed) != hook.journal_name("claude-code", "a:b")


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": "/home/somebody"},
        {"HOME": "/home/somebody", "XDG_DATA_HOME": "/data"},
        {"HOME": "/home/somebody", "XDG_DATA_HOME": "relative"},
        {"HOME": "relative"},
        {"HOME": ""},
        {},
    ],
)
def test_default_home_is_the_platforms(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a setting the hook writes where the rest of the program reads, even without HOME."""
    for name in ("HOME", "XDG_DATA_HOME", "HEADWATER_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    assert hook.home_from_env(env) == user_data_dir("headwater", appauthor=False) == str(Home.default_root())


def test_named_home_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HEADWATER_HOME may be relative or begin with ~."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")

    assert hook.home_from_env({"HEADWATER_HOME": "x"}) == str(tmp_path / "x")
    assert hook.home_from_env({"HEADWATER_HOME": "~/x"}) == "/home/somebody/x"


def test_envelope_of_an_import() -> None:
    """An importer gives source, project and id; cleaning is not left to it."""
    source = {"file": "a.jsonl", "offset": 12, "n": 0}
    envelope = hook.build_envelope(
        {"prompt": "password=hunter2"},
        agent="codex",
        received_at_ns=5,
        project_dir="/r/sub",
        project="/r",
        format="codex-rollout",
        source=source,
        delivery_id="id-1",
    )
    line = hook.encode_line(envelope)

    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "v": 1,
        "id": "id-1",
        "received_at_ns": 5,
        "agent": "codex",
        "host": os.uname().nodename,
        "project_dir": "/r/sub",
        "project": "/r",
        "format": "codex-rollout",
        "source": source,
        "payload": {"prompt": "password=[redacted:password]"},
        "clipped": {},
    }


def test_ids_are_unique() -> None:
    """Two deliveries at one time have two ids."""
    ids = {
        str(hook.build_envelope({}, agent="codex", received_at_ns=5, project_dir="")["id"])
        for _ in range(100)
    }

    assert len(ids) == 100


def test_values_that_json_does_not_know_are_refused() -> None:
    """What cannot be written as JSON is an error, not a guess."""
    with pytest.raises(TypeError, match="payload x: wanted a JSON value, got set"):
        hook.clean_payload({"x": {1}})
    with pytest.raises(ValueError, match="wanted JSON values, got set"):
        hook.encode_line({"source": {1}})


def test_failures_of_an_unknown_home() -> None:
    """Nothing was counted where nothing is."""
    assert hook.read_failures("/nonexistent") == 0


def record(home: Path, cwd: Path | str, agent: str = "codex", session: str = "s1") -> dict[str, Any]:
    """Record a prompt from a folder and return its envelope."""
    payload = {
        "session_id": session,
        "cwd": str(cwd),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "go on",
    }
    envelope = capture.record(str(home), agent, io.BytesIO(json.dumps(payload).encode()), {}, time.time_ns())
    assert envelope is not None
    return envelope


def test_session_that_changes_folder_keeps_its_project(tmp_path: Path) -> None:
    """An agent that goes elsewhere, or deletes the folder it is in, goes on with what it began."""
    home, first, second = tmp_path / "h", tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    began = record(home, first)["project"]
    assert began == str(first.resolve())
    there = record(home, second)
    assert (there["project_dir"], there["project"]) == (str(second), began)
    first.rmdir()
    assert record(home, first / "gone")["project"] == began
    assert record(home, second, session="s2")["project"] == str(second.resolve())


def test_sessions_without_a_name_or_a_folder_take_what_each_event_tells(tmp_path: Path) -> None:
    """Events without a session share a file, not a project; a start without a folder decides nothing."""
    home = tmp_path / "h"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert record(home, tmp_path / name, session="")["project"] == str((tmp_path / name).resolve())
    assert record(home, "", session="s3")["project"] == ""
    assert record(home, tmp_path / "a", session="s3")["project"] == str((tmp_path / "a").resolve())


def test_project_of_a_journal_file_is_told_only_by_its_first_line(tmp_path: Path) -> None:
    """A pipe, a link, a torn line and an odd path tell none: the folder is looked at then."""
    path = tmp_path / "j.jsonl"
    assert capture.began_in(str(path)) == ""
    path.write_bytes(b'{"v":1,"project_dir":"/p/sub","project":"/p/\xed\x95\x9c","payload":{}}\n')
    assert capture.began_in(str(path)) == "/p/한"
    for head in (b'{"v":1,"project":"/p', b'{"v":1,"project":"/a\\"b","payload":{}}\n', b"\n"):
        path.write_bytes(head)
        assert capture.began_in(str(path)) == ""
    path.unlink()
    os.mkfifo(path)
    assert capture.began_in(str(path)) == ""
    path.unlink()
    path.symlink_to(tmp_path / "other")
    (tmp_path / "other").write_bytes(b'{"project":"/p"}\n')
    assert capture.began_in(str(path)) == ""
