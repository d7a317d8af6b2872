"""The hook takes whatever JSON there is: one line each, and no failure."""

from __future__ import annotations

import io
import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flows.normalise import told_time
from headwater.schemas import limits
from headwater.schemas.clock import to_ns
from headwater.surface import hook
from headwater.surface.hook import read_failures

FIELDS = (
    "session_id",
    "hook_event_name",
    "cwd",
    "prompt",
    "prompt_id",
    "tool_name",
    "tool_input",
    "tool_response",
)
NAMES = {"UserPromptSubmit", "PostToolUse", "PreToolUse", "Stop", "Bash", "command", "/p", "s1"}


@given(
    st.dictionaries(
        st.sampled_from([*FIELDS, "x"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text()
            | st.sampled_from(sorted(NAMES)),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=8,
        ),
    )
)
def test_any_object_is_one_line(payload: dict[str, Any]) -> None:
    """No object of JSON, whatever stands in whatever field, is lost by the hook."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        raw = json.dumps(payload).encode()
        assert hook.main(["--home", str(home)], io.BytesIO(raw), {}) == 0
        failures = read_failures(str(home))
        written = sum(path.read_bytes().count(b"\n") for path in (home / "journal").glob("*.jsonl"))
        assert (written, failures) == (1, 0)


@pytest.mark.parametrize(
    ("told", "is_taken"),
    [
        (timedelta(seconds=limits.FUTURE_S), True),
        (timedelta(seconds=limits.FUTURE_S + 1), False),
        (timedelta(days=-700), True),
        (datetime(limits.OLDEST_YEAR, 1, 1, tzinfo=UTC), True),
        (datetime(limits.OLDEST_YEAR, 1, 1, tzinfo=UTC) - timedelta(seconds=1), False),
    ],
)
def test_time_of_its_own_future_or_before_any_agent_is_not_taken(
    told: datetime | timedelta, is_taken: bool
) -> None:
    """A line's own time counts up to FUTURE_S after its receipt and from OLDEST_YEAR on; else its receipt does."""
    received = datetime(2026, 3, 1, tzinfo=UTC)
    at = received + told if isinstance(told, timedelta) else told
    assert told_time(at.isoformat(), to_ns(received)) == (at if is_taken else None)
