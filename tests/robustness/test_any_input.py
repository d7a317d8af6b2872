"""The hook takes whatever JSON there is: one line each, and no failure."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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
