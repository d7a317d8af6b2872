"""Whatever an agent sends or a crash leaves behind in the journal: each line an event, or a counted one with a reason.

All of it is played into one home, each case in a session of its own, by the real hook process or as raw journal bytes;
one run reads it. So each case also shows that the others did not stop it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stage import Stage, line_of, payload_of, prompt, tool

from headwater.schemas import limits
from headwater.surface.doctor import examine
from headwater.surface.hook import read_failures

Play = Callable[[Stage], None]
PLAYS: list[Play] = []
RESPONSES: dict[str, Any] = {
    "string": "plain words",
    "object": {"stdout": "object words", "stderr": "", "interrupted": False, "isImage": False},
    "list": [{"type": "text", "text": "list words"}, {"type": "image", "source": {"data": "x"}}],
    "null": None,
    "number": 42,
    "bool": True,
    "odd": {"nobody": {"knows": ["odd words"]}},
}
WRONG_TYPES: list[dict[str, Any]] = [
    {"hook_event_name": 7, "prompt": "x"},
    {"hook_event_name": ["PostToolUse"], "tool_name": {"a": 1}},
    {"hook_event_name": "UserPromptSubmit", "prompt": {"text": "words in an object"}},
    {"hook_event_name": "UserPromptSubmit", "prompt": None, "prompt_id": 12},
    {"hook_event_name": "PostToolUse", "tool_name": 3, "tool_input": "text", "tool_use_id": ["u"], "cwd": 9},
    {"hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_input": {"file_path": 4, "edits": "none"}},
    {"hook_event_name": "Stop", "last_assistant_message": 3.5, "prompt_id": False},
    {"hook_event_name": "SessionStart", "source": {"a": []}, "effort": [], "permission_mode": 1},
]


def plays(play: Play) -> Play:
    """Let a function write into the home before it is read."""
    PLAYS.append(play)
    return play


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """The home after all cases were played and read; the torn line was finished after a first run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
        stage = Stage(tmp_path_factory.mktemp("input") / "home")
        for play in PLAYS:
            play(stage)
        stage.work()
        assert stage.rows("torn") == []
        stage.write("torn", TORN[60:])
        stage.work()
    return stage


TORN = line_of("torn", "UserPromptSubmit", prompt="whole in the end", prompt_id="p")


@plays
def _torn(stage: Stage) -> None:
    stage.write("torn", TORN[:60])


def test_torn_last_line(told: Stage) -> None:
    """Half a line waits until the rest comes, and is one event then."""
    assert told.row("torn")["content"] == "whole in the end"
    assert told.quarantined("torn") == []


@plays
def _welded(stage: Stage) -> None:
    first = line_of("welded", "UserPromptSubmit", prompt="first", prompt_id="1").rstrip()
    stage.write("welded", first + line_of("welded", "UserPromptSubmit", prompt="second", prompt_id="2"))
    cut = line_of("welded", "UserPromptSubmit", prompt="lost", prompt_id="3")[:80]
    stage.write("welded", cut + line_of("welded", "UserPromptSubmit", prompt="third", prompt_id="4"))
    stage.hook(b'{"a":1}{"b":2}')


def test_two_objects_on_one_line(told: Stage) -> None:
    """Welded lines come apart; a torn prefix before a whole record costs itself alone, with its place and reason."""
    assert [row["content"] for row in told.rows("welded")] == ["first", "second", "third"]
    (bad,) = told.quarantined("welded")
    assert bad["reason"].startswith("not JSON")
    assert bad["offset"] > 0


@plays
def _blank(stage: Stage) -> None:
    line = line_of("blank", "UserPromptSubmit", prompt="between blanks", prompt_id="1")
    stage.write("blank", b"\n \n\t\n" + line + b"\n\r\n\n")


def test_blank_lines(told: Stage) -> None:
    """Blank lines are nothing, before, between and after the others."""
    assert told.row("blank")["content"] == "between blanks"
    assert told.quarantined("blank") == []


@plays
def _nul(stage: Stage) -> None:
    line = line_of("nul", "UserPromptSubmit", prompt="a\x00b", prompt_id="1")
    stage.write("nul", b"\x00" * 4096 + b"\n" + b"\x00\x00" + line)
    stage.hook(prompt("nul", "by the hook \x00 too", prompt_id="2"))


def test_nul_bytes(told: Stage) -> None:
    """A block of NUL (a crash of the file system) is one bad line; NUL in a text is replaced."""
    found = [row["content"] for row in told.rows("nul")]
    assert found == ["a\ufffdb", "by the hook \ufffd too"]
    assert [one["reason"] for one in told.quarantined("nul")] == ["nothing but NUL bytes"]


@plays
def _utf8(stage: Stage) -> None:
    stage.write("utf8", line_of("utf8", "UserPromptSubmit", prompt="caf@ here").replace(b"@", b"\xe9"))
    stage.hook(json.dumps(prompt("utf8", "na@ve")).encode().replace(b"@", b"\xef"))
    stage.write("utf8", b"\xff\xfe\x80 no json\n")


def test_invalid_utf8(told: Stage) -> None:
    """Wrong bytes become replacement characters in a text; a line of nothing else is counted."""
    assert [row["content"] for row in told.rows("utf8")] == ["caf\ufffd here", "na\ufffdve"]
    assert len(told.quarantined("utf8")) == 1


@plays
def _surrogates(stage: Stage) -> None:
    stage.hook(
        b'{"session_id":"lone","hook_event_name":"UserPromptSubmit",'
        b'"prompt":"cut \\ud83d and whole \\ud83d\\ude00"}'
    )
    line = line_of("lone", "UserPromptSubmit", prompt="@", prompt_id="2").replace(b"@", b"raw \\udc00")
    stage.write("lone", line)
    stage.hook({"session_id": "lone-\ud83d", "hook_event_name": "UserPromptSubmit", "prompt": "odd session"})


def test_lone_surrogates(told: Stage) -> None:
    """Half a character is replaced, a whole one kept; also in a session's name."""
    assert sorted(row["content"] for row in told.rows("lone")) == ["cut \ufffd and whole 😀", "raw \ufffd"]
    assert told.row("lone-\ufffd")["content"] == "odd session"


@plays
def _huge(stage: Stage) -> None:
    stage.hook(tool("huge", "by-hook", {"stdout": "begin " + "out put\n" * 2_500_000 + " hook end"}))
    text = "begin " + "x y z\n" * 3_400_000 + " journal end"
    stage.write(
        "huge", line_of("huge", "PostToolUse", tool_name="Bash", tool_use_id="raw", tool_response=text)
    )


def test_20_mb_line(told: Stage) -> None:
    """20 MB through the hook, and 20 MB that stand in the journal as they are: head, tail, and the length they had."""
    by_id = {row["tool"]["use_id"]: row for row in told.rows("huge")}
    assert by_id.keys() == {"by-hook", "raw"}
    for name, end in (("by-hook", "hook end"), ("raw", "journal end")):
        row = by_id[name]
        assert "begin" in row["content"][:200]
        assert row["content"].endswith(end)
        assert len(row["content"]) <= limits.CONTENT_CHARS
        assert row["content_length"] > 20_000_000


@plays
def _empty(stage: Stage) -> None:
    stage.file("empty").touch()
    assert stage.hook(b"") == ""


def test_empty_file(told: Stage) -> None:
    """A journal file without anything is nothing; so is an event without a byte."""
    assert told.rows("empty") == []
    assert told.file("empty").stat().st_size == 0


@plays
def _unknown(stage: Stage) -> None:
    stage.hook(payload_of("new-kind", "BrandNewEvent", what="happened here", depth={"a": [1, 2]}))
    stage.hook(prompt("new-kind", "with extras", effort={"level": "high"}, mcp_server="x", zzz=[{"y": None}]))


def test_unknown_event_and_fields(told: Stage) -> None:
    """An event that nobody knows yet is kept as a note with all it says; fields that nobody knows stop nothing."""
    note, said = sorted(told.rows("new-kind"), key=lambda row: str(row["kind"]))
    assert (note["kind"], note["role"]) == ("note", "BrandNewEvent")
    assert "happened here" in note["content"]
    assert said["content"] == "with extras"
    assert json.loads(said["meta"])["effort"] == "high"


@plays
def _missing(stage: Stage) -> None:
    stage.hook({"session_id": "missing", "hook_event_name": "PostToolUse"})
    stage.hook({"session_id": "missing", "hook_event_name": "UserPromptSubmit", "prompt": ""})
    stage.hook({"session_id": "missing", "prompt": "no name"})
    stage.hook({"hook_event_name": "Stop", "last_assistant_message": "no session"})
    stage.hook({})


def test_missing_fields(told: Stage) -> None:
    """A tool first, without a start, a folder or a name; an empty prompt; what names no event or session is counted."""
    kinds = sorted(row["kind"] for row in told.rows("missing"))
    assert kinds == ["prompt", "tool"]
    assert [one["reason"] for one in told.quarantined("missing")] == ["hook_event_name is missing"]
    nameless = {one["reason"] for one in told.quarantined("unknown")}  # the file of events without a session
    assert nameless == {
        "session_id is missing",
        "hook_event_name is missing",
        "payload is str, wanted an object",
    }


@plays
def _wrong(stage: Stage) -> None:
    for n, fields in enumerate(WRONG_TYPES):
        stage.hook({"session_id": f"wrong-{n}", "cwd": "/p", **fields})
    stage.hook({"session_id": 17, "hook_event_name": "UserPromptSubmit", "prompt": "number as session"})


@pytest.mark.parametrize("n", range(len(WRONG_TYPES)))
def test_wrong_types(told: Stage, n: int) -> None:
    """A field of any other type gives an event, or a counted line: it never stops the flow."""
    assert len(told.rows(f"wrong-{n}")) + len(told.quarantined(f"wrong-{n}")) == 1
    assert told.row("17")["content"] == "number as session"


@plays
def _responses(stage: Stage) -> None:
    for name, response in RESPONSES.items():
        stage.hook(tool(f"response-{name}", "u", response))
    stage.hook(payload_of("response-none", "PostToolUse", tool_name="Bash", tool_use_id="u"))


@pytest.mark.parametrize("name", [*RESPONSES, "none"])
def test_tool_response_as_string_object_list_null(told: Stage, name: str) -> None:
    """Whatever shape an answer has, or without one, the call is one finished event with its text."""
    row = told.row(f"response-{name}")
    assert (row["kind"], row["tool"]["name"], row["tool"]["ok"]) == ("tool", "Bash", True)
    if name in {"string", "object", "list", "odd"}:
        assert f"{'plain' if name == 'string' else name} words" in row["content"]


IMAGE = "iVBORw0KGgoAAAANSUhEUgAA" * 350_000


@plays
def _image(stage: Stage) -> None:
    stage.hook(tool("image", "u1", {"type": "image", "file": {"base64": IMAGE, "type": "image/png"}}))
    stage.hook(tool("image", "u2", [{"type": "image", "source": {"type": "base64", "data": IMAGE}}]))
    stage.hook(tool("image", "u3", {"stdout": f"data:image/png;base64,{IMAGE}", "isImage": True}))
    stage.hook(prompt("image", "after the images", prompt_id="p"))


def test_base64_image(told: Stage) -> None:
    """8 MB of an image are kept as size and hash; what follows is kept as well."""
    rows = told.rows("image")
    assert [row["kind"] for row in rows] == ["tool", "tool", "tool", "prompt"]
    assert all(IMAGE[:100] not in row["content"] for row in rows)
    assert told.file("image").stat().st_size < 20_000


@plays
def _duplicates(stage: Stage) -> None:
    for _ in range(3):
        stage.hook(tool("twice", "u1", "with an id"))
        stage.hook(tool("twice", None, "without an id"))  # type: ignore[arg-type]
        stage.hook(prompt("twice", "prompt with an id", prompt_id="p1"))
    stage.hook(prompt("twice", "prompt without an id"))
    stage.hook(prompt("twice", "prompt without an id"))


def test_duplicate_delivery_with_and_without_ids(told: Stage) -> None:
    """Two installs deliver each event twice: it is one event, by its id, or by its content within two seconds."""
    found = sorted(row["content"].splitlines()[-1] for row in told.rows("twice"))
    assert found == ["prompt with an id", "prompt without an id", "with an id", "without an id"]


@plays
def _thrice(stage: Stage) -> None:
    for n in range(3):
        stage.tell("thrice", "UserPromptSubmit", n * 5.0, prompt="go on", prompt_id=f"p{n}")
        stage.tell("thrice", "UserPromptSubmit", 100 + n * 5.0, prompt="and again")


def test_three_equal_prompts(told: Stage) -> None:
    """The same words said three times are three events, with ids of their own and without."""
    found = [row["content"] for row in told.rows("thrice")]
    assert (found.count("go on"), found.count("and again")) == (3, 3)


@plays
def _failed(stage: Stage) -> None:
    call = {"tool_name": "Bash", "tool_input": {"command": "make"}}
    stage.hook(payload_of("failed", "PreToolUse", **call, tool_use_id="a"))
    stage.hook(payload_of("failed", "PostToolUseFailure", **call, tool_use_id="a", error="Exit code 2"))
    stage.hook(payload_of("failed", "PostToolUseFailure", **call, tool_use_id="b", is_interrupt=True))
    stage.hook(tool("failed", "c", {"stdout": "half", "stderr": "", "interrupted": True}))


def test_failed_and_interrupted_tools(told: Stage) -> None:
    """A failure is one event with its error, joined to its announcement; an interrupted call is no success."""
    rows = {row["tool"]["use_id"]: row["tool"] for row in told.rows("failed")}
    assert [(rows[name]["ok"], rows[name]["error"]) for name in "abc"] == [
        (False, "Exit code 2"),
        (False, "interrupted"),
        (False, "interrupted"),
    ]


@plays
def _open(stage: Stage) -> None:
    stage.hook(
        payload_of("open", "PreToolUse", tool_name="Read", tool_use_id="r", tool_input={"file_path": "a"})
    )


def test_a_pre_without_a_post(told: Stage) -> None:
    """A call that was announced and never told its end stays, as an open one."""
    row = told.row("open")
    assert (row["kind"], row["tool"]["ok"], row["files"]) == ("tool", None, [{"path": "a", "op": "read"}])


@plays
def _agents(stage: Stage) -> None:
    for n in range(2):
        for agent in (None, "a1", "a2", "a3"):
            own = {} if agent is None else {"agent_id": agent, "agent_type": "Explore"}
            stage.hook(tool("agents", f"{agent}-{n}", f"work of {agent}", prompt_id="p", **own))
    stage.hook(payload_of("agents", "SubagentStop", agent_id="a1", agent_type="Explore", prompt_id="p",
                          last_assistant_message="found it"))  # fmt: skip
    stage.hook(prompt("agents", "the session goes on", prompt_id="q"))


def test_sub_agents(told: Stage) -> None:
    """Interleaved sub-agents are attributed; the end of one does not end its session."""
    rows = told.rows("agents")
    tools = [row["agent_id"] for row in rows if row["kind"] == "tool"]
    assert sorted(tools, key=str) == sorted([None, "a1", "a2", "a3"] * 2, key=str)
    (answer,) = (row for row in rows if row["kind"] == "response")
    assert (answer["agent_id"], answer["content"]) == ("a1", "found it")
    assert rows[-1]["content"] == "the session goes on"


@plays
def _times(stage: Stage) -> None:
    for n, at_s in enumerate((0.0, 0.0, 50.0, 10.0, 400 * 86_400.0, -5.0, 9_000_000_000.0 - 1_772_000_000)):
        stage.tell("times", "UserPromptSubmit", at_s, prompt=f"at {n}", prompt_id=f"p{n}")
    odd = line_of("times", "UserPromptSubmit", prompt="no time", prompt_id="x")
    for time in (b"0", b"-1", b"99999999999999999999", b'"soon"', b"null", b"1e30"):
        stage.write("times", odd.replace(b"1772000000000000000", time))


def test_equal_decreasing_and_future_times(told: Stage) -> None:
    """Equal times keep the order of the file, earlier ones find their place; a time that is none is counted."""
    assert [row["content"] for row in told.rows("times")] == [f"at {n}" for n in (5, 0, 1, 3, 2, 4, 6)]
    assert {one["reason"] for one in told.quarantined("times")} == {"received_at_ns is missing or no time"}
    assert len(told.quarantined("times")) == 6


def test_every_line_has_one_fate_and_what_failed_is_shown(told: Stage) -> None:
    """Nothing is lost between the cases: all is stored once, and the doctor tells the quarantine with its fix."""
    told.check(len(told.rows()))
    count = told.fates()["quarantined"]
    assert count == len(told.home.quarantine_file.read_text(encoding="utf-8").splitlines())
    assert read_failures(str(told.home.root)) == 0
    (check,) = (one for one in examine(told.home) if one.name == "quarantine")
    assert (check.level, check.said) == ("warn", f"{count:,} lines could not be used")
    assert str(told.home.quarantine_file) in check.fix


def test_second_run_changes_nothing(told: Stage, tmp_path: Path) -> None:
    """The same odd journal read from its start into another home gives the same events and fates."""
    other = Stage(tmp_path / "other")
    for path in told.home.journal.glob("*.jsonl"):
        (other.home.journal / path.name).write_bytes(path.read_bytes())
    other.work()
    assert other.rows() == told.rows()
    assert other.fates() == told.fates()
