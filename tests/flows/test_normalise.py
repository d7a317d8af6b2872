from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_lines import DATA, START_NS, drafted, dropped, envelope, live, payload, raw, told

from headwater.flows.normalise import normalise
from headwater.flows.parse import parse
from headwater.schemas import limits
from headwater.schemas.clock import from_ns
from headwater.schemas.columns import events_to_arrow
from headwater.schemas.events import BadLine, Draft, Dropped, Fate, Kind, Part, Position
from headwater.schemas.ids import content_hash, prompt_event_id, response_event_id, tool_event_id


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
EVENT_NAMES = st.sampled_from(
    words(
        "UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure PermissionDenied Stop SubagentStop StopFailure"
        " SessionStart SessionEnd PreCompact PostCompact TaskCreated Unknown"
    )
)
FIELDS = st.sampled_from(
    words(
        "session_id cwd prompt prompt_id turn_id tool_name tool_input tool_response tool_use_id error duration_ms"
        " agent_id agent_type last_assistant_message source reason trigger compact_summary effort permission_mode"
        " task_subject is_interrupt model"
    )
)


def golden() -> list[tuple[str, str, str]]:
    """Return (event, fate, kind) expected of each recorded payload."""
    lines = (DATA / "claude_code_live.golden.txt").read_text(encoding="utf-8").splitlines()
    return [(event, fate, kind) for _, event, fate, kind in (line.split() for line in lines)]


def test_every_recorded_payload_becomes_what_it_should() -> None:
    """Each payload of the recorded sessions has the kind and fate of the golden table."""
    found = []
    parts: dict[str, Part] = {}
    for line in live():
        name = line["payload"]["hook_event_name"]
        made = told(line["payload"], received_at_ns=line["received_at_ns"])
        if isinstance(made, Dropped):
            found.append((name, made.fate.value, "-"))
            continue
        event = made.event
        key = event.id or f"{made.occurrence} {made.event.at}"
        if event.kind is Kind.COMPACT:
            key = made.occurrence or ""
        seen = parts.get(key, Part.NONE)
        fate = Fate.EVENT if not seen else Fate.DUPLICATE if event.parts in seen else Fate.MERGED
        parts[key] = seen | event.parts
        found.append((name, fate.value, event.kind.value))
    assert found == golden()


def test_every_recorded_event_fits_the_table() -> None:
    """All recorded events can be written as rows."""
    made = [told(line["payload"], received_at_ns=line["received_at_ns"]) for line in live()]
    events = [one.event for one in made if isinstance(one, Draft)]
    assert events_to_arrow(events).num_rows == len(events) == 139


def test_recorded_sub_agents_are_attributed() -> None:
    """What happens inside a sub-agent names it, in its parent's session and turn."""
    inner = [line["payload"] for line in live() if line["payload"].get("agent_id")]
    made = [told(content) for content in inner]
    drafts = [(one, content) for one, content in zip(made, inner, strict=True) if isinstance(one, Draft)]
    assert len(drafts) > 4
    for draft, content in drafts:
        assert draft.event.agent_id == content["agent_id"]
        assert draft.event.session_id == content["session_id"]
        assert draft.event.turn_id == content["prompt_id"]


def test_prompt_event() -> None:
    """A prompt's event has its id, time, turn, text and place."""
    content = payload("UserPromptSubmit", prompt="안녕", prompt_id="p1", permission_mode="plan")
    event = drafted(content, offset=77).event
    assert event.id == prompt_event_id("claude-code", "s1", "p1")
    assert event.at == from_ns(START_NS)
    assert (event.at_source, event.seq, event.turn_id, event.parent_id) == ("hook", 77, "p1", None)
    assert (event.project, event.cwd, event.host) == ("/p", "/p", "h")
    assert (event.content, event.content_length, event.content_hash) == ("안녕", 2, content_hash("안녕"))
    assert event.meta == {"permission_mode": "plan"}


def test_tool_and_answer_name_their_prompt() -> None:
    """A call and an answer whose turn is named have its prompt as parent, though it may come later."""
    parent = prompt_event_id("claude-code", "s1", "p1")
    call = drafted(payload("PostToolUse", tool_name="Bash", tool_use_id="u1", prompt_id="p1")).event
    answer = drafted(payload("Stop", last_assistant_message="done", prompt_id="p1")).event
    assert (call.id, call.parent_id) == (tool_event_id("claude-code", "s1", "u1"), parent)
    assert (answer.id, answer.parent_id) == (response_event_id("claude-code", "s1", "p1", "done"), parent)


def test_call_and_result_have_one_id() -> None:
    """PreToolUse, its end and its denial are the same event."""
    names = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionDenied")
    assert len({drafted(payload(name, tool_name="Bash", tool_use_id="u1")).event.id for name in names}) == 1


@pytest.mark.parametrize(
    "content",
    [
        payload("UserPromptSubmit", prompt="x"),
        payload("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}),
        payload("Stop", last_assistant_message="x"),
        payload("SessionStart", source="resume"),
        payload("PreCompact", trigger="auto"),
        payload("PreCompact", trigger="auto", prompt_id="p1"),
        payload("TaskCreated", task_subject="x"),
    ],
)
def test_fact_without_an_id_is_left_to_the_counter(content: dict[str, Any]) -> None:
    """What carries no id of its own gets one from its content and its count."""
    draft = drafted(content)
    assert draft.event.id == ""
    assert draft.occurrence
    other = drafted(content | {"session_id": "s2"})
    assert other.occurrence != draft.occurrence
    assert drafted(content | {"agent_id": "sub"}).occurrence != draft.occurrence


def test_ends_of_a_call_without_an_id_are_counted_together() -> None:
    """A failure counts as an end, so that the next success of the same call is a second one."""
    asked: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "make"}}
    failed = drafted(payload("PostToolUseFailure", error="no", **asked))
    passed = drafted(payload("PostToolUse", **asked))
    before = drafted(payload("PreToolUse", **asked))
    assert failed.occurrence == passed.occurrence == before.occurrence
    assert failed.delivery == passed.delivery != before.delivery


def test_imported_fact_is_counted_in_its_own_file() -> None:
    """Where an imported record came from decides its count and its place among equals, not where it was appended."""
    source = {"file": "x.json", "offset": 12, "n": 3, "time": "synthetic"}
    draft = drafted(payload("UserPromptSubmit", prompt="x"), offset=500, source=source)
    assert (draft.position, draft.source_file, draft.source_offset) == (Position("f@1", 500), "x.json", 12)
    assert (draft.event.seq, draft.event.at_source) == (12, "synthetic")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (envelope("text"), "payload is str"),
        (envelope(None), "payload is NoneType"),
        (envelope([]), "payload is list"),
        (envelope(payload("Stop"), format="cobol"), "unknown format 'cobol'"),
        (envelope(payload("Stop"), format=None), "unknown format ''"),
        (envelope({"session_id": "s"}), "hook_event_name is missing"),
        (envelope({"hook_event_name": "Stop"}), "session_id is missing"),
        (envelope(payload("Stop", session_id="")), "session_id is missing"),
        (envelope(payload("Stop", session_id=None)), "session_id is missing"),
    ],
)
def test_unusable_payload_is_quarantined_with_its_reason(line: dict[str, Any], reason: str) -> None:
    """A payload that names no event or session, or is none, is kept aside."""
    [found] = normalise(parse(raw(json.dumps(line).encode()))[0])
    assert isinstance(found, Dropped)
    assert (found.fate, found.position) == (Fate.QUARANTINED, Position("f@1", 0))
    assert reason in found.reason


def test_quarantine_names_the_imported_file() -> None:
    """The reason says which file of an import held the record."""
    assert "(from x.json at 9)" in dropped("text", source={"file": "x.json", "offset": 9, "n": 0}).reason


def test_bad_line_is_quarantined() -> None:
    """A line that is no envelope keeps its place, reason and beginning."""
    bad = BadLine(Position("f", 3), "why", "text")
    assert normalise(bad) == [Dropped(Position("f", 3), Fate.QUARANTINED, "why", "text")]


def test_noise_keeps_its_reason() -> None:
    """An event that says nothing is noise, not quarantined."""
    found = dropped(payload("Notification", message="m"))
    assert (found.fate, "Notification" in found.reason) == (Fate.NOISE, True)


def test_long_text_keeps_head_and_tail() -> None:
    """A text beyond the limit loses its middle, says so, and knows how long it was."""
    text = "a" * limits.CONTENT_CHARS + "error: at the end"
    event = drafted(payload("UserPromptSubmit", prompt=text)).event
    assert len(event.content) <= limits.CONTENT_CHARS
    assert event.content.startswith("aaa")
    assert event.content.endswith("error: at the end")
    assert "characters clipped" in event.content
    assert event.content_length == len(text)


def test_length_before_clipping_is_the_hooks() -> None:
    """The hook tells how long a text was before it cut it; the old file of an edit is no part of the text."""
    content = payload("UserPromptSubmit", prompt="short")
    assert drafted(content, clipped={"prompt": 99_999}).event.content_length == 99_999
    edit = payload("PostToolUse", tool_name="Edit", tool_use_id="u")
    assert drafted(edit, clipped={"tool_response.originalFile": 99_999}).event.content_length < 100


def test_session_id_of_another_type_is_text() -> None:
    """A number as session id is an id."""
    assert drafted(payload("UserPromptSubmit", prompt="x", session_id=5)).event.session_id == "5"


@given(EVENT_NAMES, st.dictionaries(FIELDS, JSON, max_size=8))
def test_any_value_in_any_field_becomes_a_row_or_a_reason(name: str, fields: dict[str, Any]) -> None:
    """No payload stops the flow: it becomes an event that the table takes, or is dropped with a reason."""
    made = told({"session_id": "s1", "hook_event_name": name} | fields)
    if isinstance(made, Draft):
        assert events_to_arrow([made.event]).num_rows == 1
    else:
        assert not made.reason.startswith(
            "cannot be read"
        )  # the last resort, for shapes that nobody thought of


@given(EVENT_NAMES, st.dictionaries(FIELDS, JSON, max_size=8))
def test_same_line_gives_the_same_again(name: str, fields: dict[str, Any]) -> None:
    """A replay of a line gives the same draft."""
    content = {"session_id": "s1", "hook_event_name": name} | fields
    assert repr(told(content)) == repr(told(content))


def test_shape_that_a_reader_cannot_take_is_quarantined(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in reading one payload costs that line, never the flow."""

    def fail(content: dict[str, Any], project: str) -> str:
        raise KeyError(project)

    monkeypatch.setattr("headwater.flows.claude_hooks.fact", fail)
    assert dropped(payload("Stop")).reason == "cannot be read: KeyError: '/p'"
