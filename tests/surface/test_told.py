"""What agents were told, counted by `status`: from a question of a hook to the share that was used."""

from __future__ import annotations

from typing import Any

import pytest
from agent import Past
from memory_rows import PROJECT

from headwater.schemas import clock, limits
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.events import Event, Kind
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore
from headwater.surface.operations import OPERATIONS, Context
from headwater.surface.verbs.lifecycle import told_text


def test_status_tells_how_much_of_what_was_told_was_used(
    made: Home, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the answer nothing is judged; after it each kind has its share, and asking again changes nothing."""
    monkeypatch.setattr(limits, "INJECT_ANSWER_S", 20.0)
    context = Context(made)
    assert OPERATIONS["counts"](context, {})["told"] == {
        "told": 0,
        "judged": 0,
        "used": 0,
        "share": None,
        "by_kind": {},
    }
    question = "how does the docker image get smaller?"
    args: dict[str, Any] = {"agent": "claude-code", "session": "new", "project": PROJECT, "prompt": question}
    told = OPERATIONS["context"](context, args | {"event": "UserPromptSubmit"})["context"]
    assert "slim debian without musl" in told
    now = clock.SYSTEM.now()
    events = LanceStore(made.lance).open(EVENTS)
    asked = Event("evt_q", "claude-code", "new", PROJECT, now, Kind.PROMPT, question, turn_id="t")
    events.add(events_to_arrow([asked]))
    before = OPERATIONS["counts"](context, {})["told"]
    assert (before["judged"], before["share"]) == (0, None)
    assert told_text(before).endswith("no turn of theirs is over yet")
    answer = Event(
        "evt_r", "claude-code", "new", PROJECT, now, Kind.RESPONSE, "slim debian, no musl", seq=1, turn_id="t"
    )
    events.add(events_to_arrow([answer]))
    after = OPERATIONS["counts"](context, {})["told"]
    assert after["by_kind"]["memory"] == {"told": 1, "judged": 1, "used": 1, "share": 1.0}
    assert after["judged"] == after["told"] == before["told"]
    assert OPERATIONS["counts"](context, {})["told"] == after
    assert "memory 100%" in told_text(after)
