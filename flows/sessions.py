"""Windows by session: which turn a fact belongs to when it does not say so itself. Config / logic / state, no Bytewax.

Old agents send no prompt id; then a turn is what follows a prompt, until the next one of the same session.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from headwater.schemas import clock, ids, limits
from headwater.schemas.events import Draft, Event, Kind

_OF_A_TURN = (Kind.TOOL, Kind.RESPONSE, Kind.NOTE)


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """`idle_s`: event time after which a session starts afresh, so that an idle one can leave the flow."""

    idle_s: float = limits.SESSION_IDLE_S


@dataclass(frozen=True, slots=True)
class SessionState:
    """What is known of a running session: its last prompt, its last event's time, and when we last heard of it.

    `heard_at` decides only how long an idle session is kept: an import tells today what happened last year.
    """

    prompt_event_id: str | None = None
    turn_id: str | None = None
    last_at: datetime | None = None
    heard_at: datetime | None = None

    def plain(self) -> dict[str, Any]:
        """Return the state as plain versioned data for a snapshot."""
        return {
            "v": 1,
            "prompt": self.prompt_event_id,
            "turn": self.turn_id,
            "last_at_ns": _to_ns(self.last_at),
            "heard_at_ns": _to_ns(self.heard_at),
        }

    @classmethod
    def from_plain(cls, data: dict[str, Any] | None) -> SessionState:
        """Return the state of a snapshot; of an unknown version, an empty one."""
        if data is None or data.get("v") != 1:
            return cls()
        last_at, heard_at = _from_ns(data["last_at_ns"]), _from_ns(data["heard_at_ns"])
        return cls(data["prompt"], data["turn"], last_at, heard_at)


class SessionLogic:
    """Gives every fact of one session its turn and parent; a fact that names its turn keeps it."""

    def __init__(self, config: SessionConfig, state: SessionState) -> None:
        """Go on from a state."""
        self._config = config
        self._state = state

    def on_draft(self, draft: Draft) -> Draft:
        """Return the draft with turn, parent and final id."""
        event = draft.event
        state = self._state
        if state.last_at is not None and event.at - state.last_at > timedelta(seconds=self._config.idle_s):
            state = SessionState()
        if event.kind is Kind.PROMPT:
            turn_id = event.turn_id or event.id
            if event.turn_id is None:
                event = replace(event, turn_id=turn_id)
            state = SessionState(event.id, turn_id, state.last_at)
        elif event.turn_id is None and state.turn_id is not None and event.kind in _OF_A_TURN:
            parent_id = event.parent_id if event.kind is Kind.NOTE else state.prompt_event_id
            event = replace(event, turn_id=state.turn_id, parent_id=parent_id)
        last_at = event.at if state.last_at is None else max(event.at, state.last_at)
        self._state = SessionState(state.prompt_event_id, state.turn_id, last_at, self._state.heard_at)
        return draft if event is draft.event else replace(draft, event=event)

    def heard(self, now: datetime) -> None:
        """Note that the session was heard of now."""
        self._state = replace(self._state, heard_at=now)

    def idle_at(self) -> datetime | None:
        """Return when the session may leave: `idle_s` after its last event and after it was last heard of.

        By the event's time alone, an import of old sessions would lose its state between two batches. None when it has
        had no event.
        """
        state = self._state
        if state.last_at is None:
            return None
        heard_at = state.last_at if state.heard_at is None else state.heard_at
        return max(state.last_at, heard_at) + timedelta(seconds=self._config.idle_s)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data, a copy."""
        return self._state.plain()


def session_key(event: Event) -> str:
    """Return the key of an event's session: sub-agents share their parent's."""
    return _key(event.agent, event.session_id)


@lru_cache(maxsize=1024)
def _key(agent: str, session_id: str) -> str:
    return ids.digest("session", agent, session_id)


def _to_ns(at: datetime | None) -> int | None:
    return None if at is None else clock.to_ns(at)


def _from_ns(at_ns: int | None) -> datetime | None:
    return None if at_ns is None else clock.from_ns(at_ns)
