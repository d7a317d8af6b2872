"""A process for tests that calls the hook many times, as one of many agents at once: HOME NUMBER CALLS."""

from __future__ import annotations

import io
import json
import random
import sys
from typing import Any

from headwater.surface import hook

home, number, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(number)
for n in range(calls):
    # from 1 byte to 300 KB, most of them small, as calls are
    size = int(300_000 ** chance.random()) if chance.random() < 0.1 else int(4_000 ** chance.random())
    payload: dict[str, Any] = {
        "session_id": "one-file" if n % 2 else f"own-{number}",
        "cwd": "/p",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_use_id": f"u{number}-{n}",
        "tool_input": {"command": "run"},
        # several texts: of one alone, the hook would keep 64 KB
        "tool_response": ["word " * (min(size, 60_000) // 5) + "x" * (size % 5)] * max(1, size // 60_000),
    }
    assert hook.main(["--home", home], io.BytesIO(json.dumps(payload).encode()), {}) == 0
