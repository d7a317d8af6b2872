from __future__ import annotations

from typing import Any

import pytest
from journal_lines import payload

from headwater.flows.claude_hooks import NOISE, Fact, fact, meta
from headwater.schemas.events import Kind, Part, ToolCall


def said(content: dict[str, Any]) -> Fact:
    """Return the fact of a payload that says something."""
    found = fact(content, "/p")
    assert isinstance(found, Fact), found
    return found


def test_prompt_carries_its_id() -> None:
    """A prompt is the person's text, named by the prompt's id."""
    found = said(payload("UserPromptSubmit", prompt="안녕", prompt_id="p1"))
    assert (found.kind, found.role, found.content, found.key) == (Kind.PROMPT, "user", "안녕", "p1")


def test_codex_prompt_is_named_by_its_turn() -> None:
    """Codex calls the prompt's id turn_id."""
    assert said(payload("UserPromptSubmit", prompt="x", turn_id="t1")).key == "t1"


@pytest.mark.parametrize(
    ("prompt", "text"), [("", ""), (None, ""), (3, "3"), ([{"type": "text", "text": "x"}], "x")]
)
def test_odd_prompt_is_kept(prompt: Any, text: str) -> None:
    """An empty prompt, or one that is no string, is an event."""
    assert said(payload("UserPromptSubmit", prompt=prompt)).content == text


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("<system-reminder>r</system-reminder>\n\nfix it", "fix it"),
        ("fix it\n<system-reminder>r</system-reminder>", "fix it"),
        ("why does <system-reminder>x</system-reminder> appear?", None),
        ("<system-reminder>open", None),
        ("  plain  ", None),
    ],
)
def test_reminders_around_a_prompt_are_not_the_persons_words(prompt: str, words: str | None) -> None:
    """What the agent put before or behind a prompt is left out; a prompt that speaks of it stays whole."""
    assert said(payload("UserPromptSubmit", prompt=prompt)).content == (prompt if words is None else words)


def test_reminder_alone_is_noise() -> None:
    """A prompt of nothing but reminders says nothing."""
    assert isinstance(
        fact(payload("UserPromptSubmit", prompt="<system-reminder>r</system-reminder>"), "/p"), str
    )


@pytest.mark.parametrize(
    "fields", [{"prompt": "<task-notification>done</task-notification>"}, {"prompt": "x", "source": "system"}]
)
def test_what_the_agent_sends_itself_is_a_note(fields: dict[str, Any]) -> None:
    """A message in a prompt's place that no person wrote is kept, but not as a prompt."""
    found = said(payload("UserPromptSubmit", prompt_id="p1", **fields))
    assert (found.kind, found.key) == (Kind.NOTE, "p1")


def test_call_before_it_ran_is_open() -> None:
    """A PreToolUse tells what was asked and no outcome."""
    found = said(payload("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="u1"))
    assert (found.kind, found.part, found.key, found.content) == (Kind.TOOL, Part.HOOK_BEFORE, "u1", "$ ls")
    assert found.tool == ToolCall("Bash", "u1")


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"stdout": "a", "stderr": "b", "interrupted": False}, "a\nb"),
        ("plain", "plain"),
        ([{"type": "text", "text": "block"}], "block"),
        (None, ""),
        (7, "7"),
        (True, "true"),
        ({}, "{}"),
        ({"type": "image", "file": {"base64": "iVBOR"}}, "[image]"),
    ],
)
def test_every_shape_of_an_answer_is_text(response: Any, text: str) -> None:
    """An answer may be an object, a text, blocks, nothing or a number."""
    content = payload(
        "PostToolUse", tool_name="Bash", tool_input={"command": "c"}, tool_response=response, tool_use_id="u"
    )
    found = said(content)
    assert found.content == ("$ c" + (f"\n{text}" if text else ""))
    assert found.tool is not None
    assert found.tool.ok is True


def test_missing_answer_is_kept() -> None:
    """A PostToolUse without an answer is a call that ended well."""
    found = said(payload("PostToolUse", tool_name="Bash"))
    assert found.tool == ToolCall("Bash", None, ok=True)


def test_failed_call_has_its_error() -> None:
    """A failure is no success, and says why in its text and in its own field."""
    content = payload(
        "PostToolUseFailure", tool_name="Bash", tool_input={"command": "exit 3"}, tool_use_id="u1"
    )
    found = said(content | {"error": "Exit code 3", "is_interrupt": False, "duration_ms": 9})
    assert found.tool == ToolCall("Bash", "u1", ok=False, error="Exit code 3", duration_ms=9)
    assert found.content == "$ exit 3\nerror: Exit code 3"
    assert found.part is Part.HOOK


def test_interrupted_failure_without_words_says_so() -> None:
    """A person's interrupt is named when the agent does not."""
    found = said(payload("PostToolUseFailure", tool_name="Bash", is_interrupt=True))
    assert found.tool == ToolCall("Bash", None, ok=False, error="interrupted")


def test_interrupted_call_is_no_success() -> None:
    """An answer that was cut off by the person did not end well."""
    found = said(payload("PostToolUse", tool_name="Bash", tool_response={"stdout": "x", "interrupted": True}))
    assert found.tool == ToolCall("Bash", None, ok=False, error="interrupted")


def test_denied_call_is_a_failure() -> None:
    """A denied call has the reason as its error."""
    found = said(payload("PermissionDenied", tool_name="Bash", tool_input={}, tool_use_id="u1", reason="no"))
    assert found.tool == ToolCall("Bash", "u1", ok=False, error="no")
    assert (found.kind, found.part) == (Kind.TOOL, Part.HOOK)


def test_codex_does_not_say_how_a_call_ended() -> None:
    """Codex has no event for a failure, so the outcome stays unknown."""
    found = said(payload("PostToolUse", tool_name="Bash", turn_id="t", tool_response="out", tool_use_id="c"))
    assert found.tool == ToolCall("Bash", "c")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (9, 9),
        (9.6, 10),
        (True, None),
        ("9", None),
        (-1, None),
        (2**63, None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_odd_duration_is_left_out(value: Any, wanted: int | None) -> None:
    """Only a duration that a column can hold is taken."""
    found = said(payload("PostToolUse", tool_name="Bash", duration_ms=value))
    assert found.tool is not None
    assert found.tool.duration_ms == wanted


def test_call_without_a_name_is_unknown() -> None:
    """A tool event without a tool's name is kept."""
    found = said(payload("PostToolUse"))
    assert found.tool is not None
    assert found.tool.name == "unknown"


def test_call_without_an_id_is_told_by_what_was_asked() -> None:
    """Call and result without an id have the same identity, other inputs another."""
    before = said(payload("PreToolUse", tool_name="Bash", tool_input={"a": 1, "b": 2}))
    after = said(payload("PostToolUse", tool_name="Bash", tool_input={"b": 2, "a": 1}, tool_response="x"))
    other = said(payload("PostToolUse", tool_name="Bash", tool_input={"a": 2}))
    assert before.identity == after.identity != other.identity


def test_stop_brings_the_answer() -> None:
    """The last message of a turn is its answer."""
    found = said(payload("Stop", last_assistant_message="done"))
    assert (found.kind, found.role, found.content) == (Kind.RESPONSE, "assistant", "done")


@pytest.mark.parametrize("text", [None, "", " \n"])
@pytest.mark.parametrize("name", ["Stop", "SubagentStop"])
def test_stop_without_text_is_noise(name: str, text: str | None) -> None:
    """Older agents send no text with a stop: then it says nothing."""
    fields = {} if text is None else {"last_assistant_message": text}
    assert isinstance(fact(payload(name, stop_hook_active=False, **fields), "/p"), str)


def test_summarisers_stop_is_noise() -> None:
    """A SubagentStop with an empty agent_type is the agent's own summariser."""
    content = payload("SubagentStop", agent_type="", last_assistant_message="summary")
    assert isinstance(fact(content, "/p"), str)
    assert said(content | {"agent_type": "general-purpose"}).kind is Kind.RESPONSE


def test_failed_stop_is_a_note() -> None:
    """A turn that ended in an API error says so."""
    found = said(
        payload("StopFailure", error="rate_limit", error_details="429", last_assistant_message="API Error")
    )
    assert (found.kind, found.content) == (Kind.NOTE, "rate_limit\n429\nAPI Error")


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact", "fork"])
def test_session_start_keeps_its_source(source: str) -> None:
    """How a session began is in its role."""
    found = said(payload("SessionStart", source=source))
    assert (found.kind, found.role) == (Kind.SESSION_START, f"SessionStart:{source}")


def test_session_end_keeps_its_reason() -> None:
    """Why a session ended is in its role."""
    assert said(payload("SessionEnd", reason="clear")).role == "SessionEnd:clear"


def test_compaction_is_announced_and_summarised() -> None:
    """Both events of a compaction have the same identity; the summary is its text."""
    before = said(payload("PreCompact", trigger="manual", custom_instructions="keep names", prompt_id="p"))
    after = said(payload("PostCompact", trigger="manual", compact_summary="what was", prompt_id="p"))
    assert before.identity == after.identity
    assert (before.part, after.part) == (Part.HOOK_BEFORE, Part.HOOK)
    assert (after.kind, after.content) == (Kind.COMPACT, "what was")
    assert said(payload("PreCompact", trigger="auto", custom_instructions=None)).content == ""


@pytest.mark.parametrize("name", ["TaskCreated", "TaskCompleted"])
def test_task_is_a_note(name: str) -> None:
    """A task's subject and description are kept."""
    found = said(payload(name, task_id="1", task_subject="Fix", task_description="the parser"))
    assert (found.kind, found.content) == (Kind.NOTE, f"{name}: Fix - the parser")


@pytest.mark.parametrize("name", sorted(NOISE))
def test_noise_says_why(name: str) -> None:
    """Events that only repeat or ask are noise, with the reason."""
    assert fact(payload(name, message="m"), "/p") == f"{name}: {NOISE[name]}"


def test_unknown_event_is_a_note() -> None:
    """A future event with fields of its own is kept with them."""
    found = said(payload("QuantumLeap", prompt_id="p", detail={"to": "한"}))
    assert (found.kind, found.role) == (Kind.NOTE, "QuantumLeap")
    assert found.content == 'QuantumLeap {"detail": {"to": "한"}}'


def test_unknown_event_without_anything_is_noise() -> None:
    """A future event of common fields alone says nothing."""
    assert isinstance(fact(payload("QuantumLeap", prompt_id="p", permission_mode="plan"), "/p"), str)


def test_meta_keeps_small_texts() -> None:
    """Mode, model and effort stand beside an event; other types and empty texts do not."""
    content = payload(
        "Stop", permission_mode="plan", model="m", agent_type="", source=3, effort={"level": "high"}
    )
    assert meta(content) == {"permission_mode": "plan", "model": "m", "effort": "high"}
    assert meta(payload("Stop", effort="low")) == {"effort": "low"}
    assert meta(payload("Stop", effort=[1])) == {}
