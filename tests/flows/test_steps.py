from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from bytewax.operators import StatefulBatchLogic
from journal_lines import drafted, dropped, payload

from headwater.flows.steps import CallSink, drop_noise, key_by_session, window_by_session
from headwater.schemas import limits
from headwater.schemas.clock import SystemClock

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """A clock that tests move."""
    times = [NOW]
    monkeypatch.setattr(SystemClock, "now", lambda self: times[0])
    return times


def test_sink_hands_over_whole_batches() -> None:
    """A batch reaches the function as it came."""
    got: list[list[int]] = []
    CallSink(got.append).build("step", 0, 1).write_batch([1, 2])
    assert got == [[1, 2]]


def test_only_drafts_go_on() -> None:
    """Events go on; what was dropped does not."""
    assert drop_noise(drafted(payload("UserPromptSubmit", prompt="x")))
    assert not drop_noise(dropped(payload("Notification")))


def test_key_is_the_sessions() -> None:
    """Two sessions have two keys."""
    keys = {key_by_session(drafted(payload("Stop", last_assistant_message="x", session_id=s))) for s in "aba"}
    assert len(keys) == 2


def test_window_passes_drafts_and_stays() -> None:
    """Every draft comes out once, with its turn, and the session is kept, also at the end of a run."""
    window = window_by_session(None)
    prompt = drafted(payload("UserPromptSubmit", prompt="x", prompt_id="p1"))
    call = drafted(payload("PostToolUse", tool_name="Bash"))
    drafts, discard = window.on_batch([prompt, call])
    assert [draft.event.turn_id for draft in drafts] == ["p1", "p1"]
    assert discard is StatefulBatchLogic.RETAIN
    assert window.on_eof() == ([], StatefulBatchLogic.RETAIN)


def test_window_goes_on_from_its_snapshot() -> None:
    """After a restart a session knows its prompt."""
    window = window_by_session(None)
    window.on_batch([drafted(payload("UserPromptSubmit", prompt="x", prompt_id="p1"))])
    drafts, _ = window_by_session(window.snapshot()).on_batch(
        [drafted(payload("PostToolUse", tool_name="Bash"))]
    )
    assert [draft.event.turn_id for draft in drafts] == ["p1"]


def test_old_session_is_kept_while_it_is_read(now: list[datetime]) -> None:
    """Events of long ago do not make their session leave between two batches."""
    window = window_by_session(None)
    window.on_batch([drafted(payload("UserPromptSubmit", prompt="x", prompt_id="p1"))])
    assert window.on_notify() == ([], StatefulBatchLogic.RETAIN)
    drafts, _ = window.on_batch([drafted(payload("PostToolUse", tool_name="Bash"))])
    assert [draft.event.turn_id for draft in drafts] == ["p1"]


def test_idle_session_leaves(now: list[datetime]) -> None:
    """A session that nobody spoke of for a day leaves the flow, restarts in between or not."""
    window = window_by_session(None)
    window.on_batch([drafted(payload("UserPromptSubmit", prompt="x", prompt_id="p1"))])
    again = window_by_session(window.snapshot())
    due = again.notify_at()
    assert due == NOW + timedelta(seconds=limits.SESSION_IDLE_S)
    now[0] = due
    assert again.on_notify() == ([], StatefulBatchLogic.DISCARD)


def test_empty_window_asks_for_no_call() -> None:
    """Without an event there is nothing to wait for."""
    assert window_by_session(None).notify_at() is None
