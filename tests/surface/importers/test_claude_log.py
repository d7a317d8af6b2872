from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from import_bench import bring_in, kinds, rows
from transcript_lines import S1, S2, answered, at, called, gave, line, said, write

from headwater.storage.home import Home


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty home with the test embedder."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    return Home.open(tmp_path / "home")


def told(home: Home, kind: str) -> list[str]:
    """Return the contents of the events of a kind, in order."""
    return rows(home).filter(pl.col("kind") == kind)["content"].to_list()


def test_fork_copies_nothing_and_names_its_origin(place: Home, tmp_path: Path) -> None:
    """Lines with the same uuid are told by the session that had them first, though the fork's file comes first."""
    first = [said(1, "find it", promptId="p1"), answered(2, "found it")]
    copies = [one | {"sessionId": S2, "promptId": "p2"} for one in first]
    own = [said(60, "now fix it", sessionId=S2, promptId="p2"), answered(61, "fixed", sessionId=S2)]
    write(tmp_path / "logs" / "a-fork.jsonl", *copies, *own)
    write(tmp_path / "logs" / "b-first.jsonl", *first)
    report = bring_in(place, tmp_path / "logs")
    found = rows(place)
    assert report["duplicates"] == 2
    assert found.filter(pl.col("session_id") == S1)["kind"].to_list() == [
        "session_start",
        "prompt",
        "response",
    ]
    assert told(place, "prompt") == ["find it", "now fix it"]
    start = found.filter(pl.col("session_id") == S2, pl.col("kind") == "session_start").to_dicts()[0]
    assert (start["prev_session_id"], start["role"]) == (S1, "SessionStart:fork")
    assert start["at"].isoformat()[:19] == at(60)[:19]


def test_deleted_original_does_not_bring_its_copies_back(place: Home, tmp_path: Path) -> None:
    """A fork that is read again after its origin's file is gone adds nothing."""
    first = write(tmp_path / "logs" / "first.jsonl", said(1, "find it"))
    write(tmp_path / "logs" / "fork.jsonl", said(1, "find it", sessionId=S2), said(9, "go on", sessionId=S2))
    bring_in(place, tmp_path / "logs")
    first.unlink()
    assert bring_in(place, tmp_path / "logs")["events"] == 0
    assert told(place, "prompt") == ["find it", "go on"]


def test_lines_appended_again_are_told_once(place: Home, tmp_path: Path) -> None:
    """A compaction that writes old rows again, in the same file, changes nothing."""
    lines = [said(1, "one"), answered(2, "two"), said(3, "one")]
    report = bring_in(place, write(tmp_path / "s.jsonl", *lines, *lines, said(9, "one")))
    assert report["duplicates"] == 3
    assert told(place, "prompt") == ["one", "one", "one"]


def test_grown_file_adds_what_is_new(place: Home, tmp_path: Path) -> None:
    """A session that goes on after its import gives only its new lines, with the right turn and call."""
    path = write(tmp_path / "s.jsonl", said(1, "look", promptId="p1"), called(2, "t1", command="cat x"))
    bring_in(place, path)
    assert rows(place).filter(pl.col("kind") == "tool")["tool"][0]["ok"] is None  # an open call
    write(path, said(1, "look", promptId="p1"), called(2, "t1", command="cat x"), gave(3, "t1", "text of x"))
    report = bring_in(place, path)
    assert (report["events"], report["merged"], report["duplicates"]) == (0, 1, 2)
    tool = rows(place).filter(pl.col("kind") == "tool").to_dicts()[0]
    assert (tool["content"], tool["tool"]["ok"], tool["turn_id"]) == ("$ cat x\ntext of x", True, "p1")


def test_same_file_elsewhere_and_packed_adds_nothing(place: Home, tmp_path: Path) -> None:
    """Where a log lies, and whether it is packed, does not matter."""
    path = write(tmp_path / "a" / "s.jsonl", said(1, "go on"), said(9, "go on"), answered(10, "done"))
    bring_in(place, path)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "s.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert bring_in(place, tmp_path / "b")["events"] == 0
    assert told(place, "prompt") == ["go on", "go on"]


@pytest.mark.parametrize("layout", ["agent-a1.jsonl", f"{S1}/subagents/agent-a1.jsonl"])
def test_sub_agents_file_belongs_to_its_session(place: Home, tmp_path: Path, layout: str) -> None:
    """Both layouts: its calls and answers name the sub-agent and the turn that began it; its task is no prompt."""
    sub = {"isSidechain": True}
    lines = [said(2, "SUBTASK", **sub), called(3, "t1") | sub, gave(4, "t1") | sub, answered(5, "seen") | sub]
    write(tmp_path / "logs" / layout, *lines)
    write(tmp_path / "logs" / f"{S1}.jsonl", said(1, "first"), answered(6, "done"), said(9, "second"))
    bring_in(place, tmp_path / "logs")
    found = rows(place)
    assert told(place, "prompt") == ["first", "second"]
    first = found.filter(pl.col("content") == "first")["id"][0]
    of_agent = found.filter(pl.col("agent_id") == "a1")
    assert kinds(of_agent) == {"tool": 1, "response": 1}
    assert set(of_agent["parent_id"]) == {first}


def test_cleared_session_names_the_one_before(place: Home, tmp_path: Path) -> None:
    """A session that begins with /clear goes on from the one that ended in its folder a moment ago."""
    clear = "<command-name>/clear</command-name>\n<command-message>clear</command-message>"
    write(tmp_path / "logs" / "old.jsonl", said(1, "one"), line("mode", 100, uuid=None))
    write(tmp_path / "logs" / "far.jsonl", said(1, "x", sessionId="far", cwd="/other", uuid="f"))
    later = [said(100.1, clear, sessionId=S2), said(105, "two", sessionId=S2)]
    write(tmp_path / "logs" / "new.jsonl", *later)
    bring_in(place, tmp_path / "logs")
    start = rows(place).filter(pl.col("role") == "SessionStart:clear").to_dicts()
    assert [(one["session_id"], one["prev_session_id"]) for one in start] == [(S2, S1)]


def test_compaction_is_one_event_and_no_prompt(place: Home, tmp_path: Path) -> None:
    """Boundary and summary are one compaction; the summary's preamble, reminders and orders are no part of it."""
    summary = (
        "This session is being continued from a previous conversation that ran out of context. The summary below covers"
        " the earlier portion of the conversation.\n\n<system-reminder>\nx\n</system-reminder>\nWe moved the map.\n\n"
        "If you need specific details from before compaction, read the full transcript."
    )
    boundary = line(
        "system", 5, subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 9}
    )
    bring_in(
        place,
        write(
            tmp_path / "s.jsonl", said(1, "go"), boundary, said(5, summary, isCompactSummary=True, uuid="u")
        ),
    )
    found = rows(place).filter(pl.col("kind") == "compact").to_dicts()
    assert [(one["content"], one["role"], one["parts"]) for one in found] == [
        ("We moved the map.", "Compact:auto", 12)
    ]
    assert told(place, "prompt") == ["go"]


def test_what_we_told_an_agent_is_never_captured(place: Home, tmp_path: Path) -> None:
    """Our context in a prompt, our tools, our commands and the hooks' attachments leave no event, ten times over."""
    ours = "<headwater-context>the map was moved</headwater-context>"
    for n in range(10):
        lines = [
            said(1, f"{ours}\nwhat now?", uuid=f"a{n}"),
            said(2, f"<system-reminder>{ours}</system-reminder>", uuid=f"b{n}"),
            called(3, f"t{n}", "mcp__plugin_headwater__search", query="map") | {"uuid": f"c{n}"},
            gave(4, f"t{n}", "the map was moved", uuid=f"d{n}"),
            called(5, f"u{n}", command="headwater search map") | {"uuid": f"e{n}"},
            gave(6, f"u{n}", "the map was moved", uuid=f"f{n}"),
            line(
                "attachment", 7, attachment={"type": "hook_additional_context", "content": ours}, uuid=f"g{n}"
            ),
        ]
        bring_in(place, write(tmp_path / f"s{n}.jsonl", *[one | {"sessionId": f"s{n}"} for one in lines]))
    assert {text.strip() for text in told(place, "prompt")} == {"what now?"}
    assert kinds(rows(place)) == {"session_start": 10, "prompt": 10}
    assert "map was moved" not in "".join(file.read_text() for file in place.journal.iterdir())


def test_words_typed_ahead_are_a_prompt_when_no_other_line_tells_them(place: Home, tmp_path: Path) -> None:
    """Handed over in the middle of a turn they stand in the queue alone; taken at its end they come again."""
    queue = [
        line("queue-operation", 2, operation="enqueue", uuid=None) | {"content": "<task-notification>done"},
        line("queue-operation", 3, operation="enqueue", uuid=None) | {"content": "what was wrong?"},
        line("queue-operation", 4, operation="remove", uuid=None),
        line("queue-operation", 5, operation="enqueue", uuid=None) | {"content": "and now push"},
        line("queue-operation", 6, operation="dequeue", uuid=None),
    ]
    bring_in(place, write(tmp_path / "s.jsonl", said(1, "go"), *queue, said(7, "and now push")))
    assert told(place, "prompt") == ["go", "what was wrong?", "and now push"]


def test_second_text_of_a_turn_is_a_prompt_of_its_own(place: Home, tmp_path: Path) -> None:
    """Two texts under one prompt id are two prompts, in one turn."""
    bring_in(
        place, write(tmp_path / "s.jsonl", said(1, "go", promptId="p1"), said(2, "and stop", promptId="p1"))
    )
    found = rows(place).filter(pl.col("kind") == "prompt")
    assert found["content"].to_list() == ["go", "and stop"]
    assert set(found["turn_id"]) == {"p1"}


def test_impossible_time_is_replaced_and_counted(place: Home, tmp_path: Path) -> None:
    """A time of the far future or of before any agent becomes the time of the import."""
    lines = [
        said(1, "old", timestamp="1999-01-01T00:00:00Z"),
        said(2, "late", timestamp="2999-01-01T00:00:00Z"),
    ]
    report = bring_in(place, write(tmp_path / "s.jsonl", *lines, said(3, "right")))
    found = rows(place).filter(pl.col("kind") == "prompt")
    assert report["times_replaced"] == 2
    assert dict(zip(found["content"], found["at_source"], strict=True)) == {
        "old": "received",
        "late": "received",
        "right": "transcript",
    }
    assert (
        json.loads(found.filter(pl.col("content") == "old")["meta"][0])["time_told"] == "1999-01-01T00:00:00Z"
    )


def test_odd_lines_are_accounted_for(place: Home, tmp_path: Path) -> None:
    """Two objects on a line are two records, rubbish is quarantined, a line that is still being written waits."""
    path = tmp_path / "s.jsonl"
    welded = json.dumps(said(1, "one")) + json.dumps({"type": "summary", "summary": "x", "leafUuid": "u"})
    write(path, welded, "rubbish", {"type": "brand-new", "sessionId": S1}, said(2, "two"))
    with path.open("a") as file:
        file.write('{"type":"user","mess')
    report = bring_in(place, path)
    assert (report["lines"], report["quarantined"], report["lines_with_events"]) == (6, 1, 2)
    assert report["skipped"]["a last line that is not ended"] == 1
    assert told(place, "prompt") == ["one", "two"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("<command-name>/model</command-name>\n<command-args></command-args>", None),
        (
            "<command-name>/compact</command-name>\n<command-args>keep names</command-args>",
            "/compact keep names",
        ),
        ("<command-message>init</command-message>\n<command-name>/init</command-name>", "/init"),
        ("<local-command-stdout>x</local-command-stdout>", None),
        ("<bash-input>ls</bash-input>", None),
        ("<task-notification>x</task-notification>", None),
        ("[Request interrupted by user for tool use]", None),
        ([{"type": "text", "text": "[Request interrupted by user]"}], None),
        (
            [
                {"type": "text", "text": "<system-reminder>x</system-reminder>"},
                {"type": "text", "text": "hi"},
            ],
            "hi",
        ),
        ([{"type": "image", "source": {"data": "AAAA"}}, {"type": "text", "text": "see"}], "[image]\nsee"),
        ("안녕", "안녕"),
        (None, None),
        ([], None),
        ([None, 7, {"type": "text"}], None),
    ],
)
def test_only_a_persons_words_are_a_prompt(
    place: Home, tmp_path: Path, content: Any, words: str | None
) -> None:
    """What the agent writes in a person's place is skipped, each line with its reason."""
    report = bring_in(place, write(tmp_path / "s.jsonl", line("user", 1, content), answered(2, "a")))
    assert told(place, "prompt") == ([] if words is None else [words])
    assert (report["noise"], report["quarantined"]) == (1 if words is None else 0, 0)


def test_session_in_our_own_home_is_skipped(place: Home, tmp_path: Path) -> None:
    """Nobody works in our home but our own processes."""
    report = bring_in(place, write(tmp_path / "s.jsonl", said(1, "x", cwd=str(place.root))))
    assert report["skipped"] == {"a session in our own home": 1}


def test_secrets_and_private_words_stay_out(place: Home, tmp_path: Path) -> None:
    """An import goes through the same gate as a hook."""
    key = "ghp_" + "a1B2" * 9
    path = write(
        tmp_path / "s.jsonl", said(1, f"use {key} <private>my diary</private>"), called(2, "t", command=key)
    )
    bring_in(place, path)
    whole = "".join(file.read_text() for file in place.journal.iterdir())
    assert key not in whole
    assert "diary" not in whole
