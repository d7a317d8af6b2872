from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from journal_lines import S, encode, envelope, payload

from headwater.flows.normalise import normalise
from headwater.flows.parse import parse
from headwater.schemas.events import Draft
from headwater.storage.journal import RawLine
from headwater.surface.capture import encode_line
from headwater.surface.importers.hooks import HookImporter, agent_of
from headwater.surface.importers.records import Record

T_NS = 1_700_000_000 * S


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A file of three records, last changed at T_NS."""
    path = tmp_path / "hooks.jsonl"
    path.write_bytes(b"".join(encode(payload("Stop", n=n)) + b"\n" for n in range(3)))
    os.utime(path, ns=(T_NS, T_NS))
    return path


def made(file: Path, value: Any, n: int = 0, importer: HookImporter | None = None) -> dict[str, Any]:
    """Return the envelope of a record."""
    return (importer or HookImporter()).envelope(Record(file, n * 100, n, value))


def draft(line: dict[str, Any]) -> Draft:
    """Return what the flow makes of an envelope."""
    [found] = normalise(parse(RawLine("f@1", 0, encode_line(line).rstrip(b"\n")))[0])
    assert isinstance(found, Draft), found
    return found


def test_stamped_record_keeps_its_time(log: Path) -> None:
    """A receive time in the record is the event's time, told by the hook."""
    line = made(log, {"received_at_ns": 5 * 10**17, "payload": payload("UserPromptSubmit", prompt="x")}, 2)
    assert line["received_at_ns"] == 5 * 10**17
    assert line["source"] == {"file": str(log), "offset": 200, "n": 2}
    assert line["payload"]["prompt"] == "x"
    assert (line["agent"], line["format"]) == ("claude-code", "claude-hook")
    assert draft(line).event.at_source == "hook"


def test_bare_records_get_spaced_times(log: Path) -> None:
    """Without times the records stand 3 s apart in file order, the last one when the file was last changed."""
    importer = HookImporter()
    lines = [made(log, payload("UserPromptSubmit", prompt="x"), n, importer) for n in range(3)]
    assert [line["received_at_ns"] for line in lines] == [T_NS - 6 * S, T_NS - 3 * S, T_NS]
    assert all(line["source"]["time"] == "synthetic" for line in lines)
    assert draft(lines[0]).event.at_source == "synthetic"


@pytest.mark.parametrize("time", [None, "1", 1.5, True, 0, -3])
def test_unusable_time_is_replaced(log: Path, time: Any) -> None:
    """A stamp that is no time is as good as none."""
    line = made(log, {"received_at_ns": time, "payload": payload("Stop")})
    assert line["received_at_ns"] == T_NS - 6 * S
    assert line["source"]["time"] == "synthetic"


def test_file_without_a_time_of_its_own_gets_one(log: Path) -> None:
    """Archives unpack files of 1970: their records stand at the oldest time that events can have."""
    os.utime(log, ns=(0, 0))
    line = made(log, payload("UserPromptSubmit", prompt="x"))
    assert draft(line).event.at.year == 2020


def test_same_record_gives_the_same_id(log: Path) -> None:
    """Reading a file again gives the same facts, whatever time that is."""
    one = made(log, payload("UserPromptSubmit", prompt="x"), 1)
    two = made(log, payload("UserPromptSubmit", prompt="x"), 1)
    assert draft(one).occurrence == draft(two).occurrence
    assert one["source"] == two["source"]


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Equal facts of two files with the same name are counted apart."""
    sources = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "x.jsonl"
        path.write_text("{}\n")
        sources.append(made(path, payload("Stop"))["source"]["file"])
    assert sources[0] != sources[1]


def test_envelope_of_ours_keeps_what_it_says(log: Path) -> None:
    """A line of another journal keeps time, place, host, format, source and what was clipped."""
    source = {"file": "old.json", "offset": 4, "n": 1, "time": "synthetic"}
    old = envelope(
        payload("Stop"),
        host="other",
        project="/q",
        source=source,
        clipped={"a": 9},
        format="codex-hook",
        agent="codex",
    )
    line = made(log, old)
    for key in (
        "received_at_ns",
        "agent",
        "host",
        "project_dir",
        "project",
        "format",
        "source",
        "payload",
        "clipped",
    ):
        assert line[key] == old[key]


@pytest.mark.parametrize("source", [None, "text", 3, {}, {"file": 3}])
def test_envelope_without_a_source_gets_the_file(log: Path, source: Any) -> None:
    """A live line of another journal came from the file that was read."""
    assert made(log, envelope(payload("Stop"), source=source), 1)["source"] == {
        "file": str(log),
        "offset": 100,
        "n": 1,
    }


def test_envelope_without_time_or_project_gets_both(log: Path, tmp_path: Path) -> None:
    """What an envelope lacks is filled as for a bare record."""
    old = envelope(payload("Stop"), received_at_ns=None, project_dir=str(tmp_path))
    del old["project"]
    line = made(log, old)
    assert line["received_at_ns"] == T_NS - 6 * S
    assert line["source"]["time"] == "synthetic"
    assert line["project"] == str(tmp_path.resolve())


def test_everything_is_redacted_on_the_way_in(log: Path) -> None:
    """Private passages and secrets do not get in, whichever shape they come in."""
    secret = payload("UserPromptSubmit", prompt="a <private>hidden</private> ghp_" + "a1B2" * 9)
    for value in (
        secret,
        {"received_at_ns": 1, "payload": secret},
        envelope(secret),
        "text <private>hidden</private>",
    ):
        line = encode_line(made(log, value)).decode()
        assert "hidden" not in line
        assert "ghp_a1B2" not in line


def test_session_keeps_the_project_it_began_in(log: Path, tmp_path: Path) -> None:
    """A change of folder does not change the project; a record without a folder decides nothing."""
    importer = HookImporter()
    first, second = tmp_path / "one", tmp_path / "two"
    cwds = [None, "", str(first), str(second), None]
    lines = [made(log, payload("Stop") | {"cwd": cwd}, n, importer) for n, cwd in enumerate(cwds)]
    assert [line["project_dir"] for line in lines] == ["", "", str(first), str(first), str(first)]
    other = made(log, payload("Stop", session_id="s2") | {"cwd": str(second)}, 5, importer)
    assert other["project_dir"] == str(second)


@pytest.mark.parametrize("value", ["rubbish", None, 3, [], {}, {"payload": 3, "received_at_ns": 1}])
def test_any_record_becomes_a_line(log: Path, value: Any) -> None:
    """What is no payload is appended as it is, for the flow to set aside with its reason."""
    assert encode_line(made(log, value)).endswith(b"\n")


@pytest.mark.parametrize(
    ("content", "agent"),
    [
        ({"hook_event_name": "Stop"}, "claude-code"),
        ({"transcript_path": "/h/.codex/sessions/x.jsonl"}, "codex"),
        ({"transcript_path": "/s/rollout-2026.jsonl"}, "codex"),
        ({"turn_id": "t", "model": "m"}, "codex"),
        ({"turn_id": "t", "model": "m", "prompt_id": "p"}, "claude-code"),
        ("text", "claude-code"),
    ],
)
def test_agent_is_told_by_the_payload(content: Any, agent: str) -> None:
    """Codex names turns and rollout files; everything else is Claude Code's."""
    assert agent_of(content) == agent
