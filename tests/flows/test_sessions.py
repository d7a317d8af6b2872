from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from journal_lines import drafted, payload

from headwater.flows.sessions import SessionConfig, SessionLogic, SessionState, session_key
from headwater.schemas import limits
from headwater.schemas.events import Draft, Event, Kind
from headwater.schemas.ids import prompt_event_id

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def logic(state: SessionState | None = None) -> SessionLogic:
    """Return a session's logic, new or going on."""
    return SessionLogic(SessionConfig(), state or SessionState())


def prompt(at_s: float = 0.0, **fields: object) -> Draft:
    """Return a prompt without an id, as the counter numbered it."""
    draft = drafted(payload("UserPromptSubmit", prompt="do it", **fields), at_s)
    return draft if draft.event.id else _numbered(draft, "evt_prompt")


def _numbered(draft: Draft, id_: str) -> Draft:
    from dataclasses import replace

    return replace(draft, event=replace(draft.event, id=id_))


def tool(at_s: float = 1.0, **fields: object) -> Draft:
    """Return a call without an id."""
    return drafted(payload("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}, **fields), at_s)


def test_facts_without_an_id_belong_to_the_last_prompt() -> None:
    """Tools and answers inherit turn and parent, notes the turn, session events neither."""
    session = logic()
    session.on_draft(prompt())
    call = session.on_draft(tool()).event
    answer = session.on_draft(drafted(payload("Stop", last_assistant_message="done"), 2)).event
    note = session.on_draft(drafted(payload("TaskCreated", task_subject="t"), 3)).event
    end = session.on_draft(drafted(payload("SessionEnd", reason="other"), 4)).event
    assert (call.turn_id, call.parent_id) == ("evt_prompt", "evt_prompt")
    assert (answer.turn_id, answer.parent_id) == ("evt_prompt", "evt_prompt")
    assert (note.turn_id, note.parent_id) == ("evt_prompt", None)
    assert (end.turn_id, end.parent_id) == (None, None)


def test_prompt_without_an_id_names_its_own_turn() -> None:
    """A turn is called after its prompt's event when the agent does not name it."""
    assert logic().on_draft(prompt()).event.turn_id == "evt_prompt"


def test_fact_that_names_its_turn_keeps_it() -> None:
    """What the agent says goes before what we infer."""
    session = logic()
    session.on_draft(prompt())
    call = session.on_draft(tool(prompt_id="p2")).event
    assert (call.turn_id, call.parent_id) == ("p2", prompt_event_id("claude-code", "s1", "p2"))


def test_next_prompt_begins_a_turn() -> None:
    """Facts after a second prompt belong to it."""
    session = logic()
    session.on_draft(prompt(prompt_id="p1"))
    session.on_draft(prompt(5, prompt_id="p2"))
    assert session.on_draft(tool(6)).event.turn_id == "p2"


def test_fact_before_any_prompt_has_no_turn() -> None:
    """A session that begins with a tool is no error."""
    draft = tool()
    assert logic().on_draft(draft) is draft


def test_silence_ends_inheritance_by_event_time() -> None:
    """After idle_s without an event a fact belongs to no turn, whenever it arrives."""
    session = logic()
    session.on_draft(prompt(0))
    late = session.on_draft(tool(limits.SESSION_IDLE_S + 1)).event
    assert late.turn_id is None
    session = logic()
    session.on_draft(prompt(0))
    assert session.on_draft(tool(limits.SESSION_IDLE_S - 1)).event.turn_id == "evt_prompt"


def test_late_fact_does_not_set_the_session_back() -> None:
    """An event with an older time leaves the time of the last one."""
    session = logic()
    session.on_draft(prompt(100))
    session.on_draft(tool(0))
    assert session.on_draft(tool(100 + limits.SESSION_IDLE_S)).event.turn_id == "evt_prompt"


def test_snapshot_is_plain_data_and_goes_on_alike() -> None:
    """A session taken up from its snapshot gives what it would have given."""
    session = logic()
    session.on_draft(prompt(prompt_id="p1"))
    session.heard(NOW)
    plain = session.snapshot()
    assert {type(value) for value in plain.values()} <= {str, int, type(None)}
    again = SessionState.from_plain(pickle.loads(pickle.dumps(plain)))
    assert logic(again).snapshot() == plain
    assert logic(again).on_draft(tool()) == session.on_draft(tool())


@pytest.mark.parametrize("data", [None, {}, {"v": 2, "prompt": "x"}])
def test_unknown_snapshot_is_an_empty_session(data: dict[str, object] | None) -> None:
    """A snapshot of another version is not guessed at."""
    assert SessionState.from_plain(data) == SessionState()


def test_session_leaves_after_silence_of_events_and_of_us() -> None:
    """Old events that are told today keep their session for a day, so that batches cut where they may."""
    session = logic()
    assert session.idle_at() is None
    last_at = session.on_draft(prompt()).event.at
    idle = timedelta(seconds=limits.SESSION_IDLE_S)
    assert session.idle_at() == last_at + idle
    session.heard(NOW)
    assert session.idle_at() == NOW + idle


def test_key_tells_agents_and_sessions_apart() -> None:
    """Sub-agents share their session's key, other agents and sessions have their own."""

    def event(agent: str, session_id: str, agent_id: str | None = None) -> Event:
        return Event(
            id="e",
            agent=agent,
            session_id=session_id,
            project="/p",
            at=NOW,
            kind=Kind.NOTE,
            agent_id=agent_id,
        )

    assert session_key(event("a", "s")) == session_key(event("a", "s", "sub"))
    assert len({session_key(event(a, s)) for a in ("a", "b") for s in ("s", "t")}) == 4
