"""The capture hook's whole process against a bare interpreter, in turns, so that both see the same machine."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from common import arguments, percentile, write_result

from headwater.storage.home import Home
from headwater.surface.verbs.capture import hook_command

RUNS = 60
RUNS_BIG = 9
BIG_BYTES = 20 * 1024 * 1024


def payload(text_bytes: int) -> bytes:
    """Return a Bash PostToolUse payload with so many bytes of output."""
    line = "error[E0308]: mismatched types in src/map/tiles.rs:42, expected `TileId`, found `u64`\n"
    stdout = (line * (text_bytes // len(line) + 1))[:text_bytes]
    return json.dumps(
        {
            "session_id": "bench",
            "cwd": "/home/dev/paylark",
            "prompt_id": "p1",
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "cargo test", "description": "Run tests"},
            "tool_response": {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False},
            "tool_use_id": "toolu_bench",
            "duration_ms": 12,
        }
    ).encode()


def once_s(command: list[str], data: bytes) -> float:
    """Return the seconds of one process."""
    start_s = time.perf_counter()
    subprocess.run(command, input=data, check=True, env={"PATH": "/usr/bin:/bin"}, cwd="/")
    return time.perf_counter() - start_s


def main() -> None:
    """Measure and write the result."""
    args = arguments(__doc__ or "")
    with tempfile.TemporaryDirectory() as folder:
        hook = hook_command(Home.open(Path(folder) / "home").root, "claude-code")
        bare = [hook[0], "-I", "-S", "-c", "pass"]
        small, big = payload(3600), payload(BIG_BYTES)
        once_s(hook, small)
        pairs = [(once_s(bare, b""), once_s(hook, small)) for _ in range(RUNS)]
        bigs = [once_s(hook, big) for _ in range(RUNS_BIG)]
    bare_s, hook_s = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    result = {
        "bare_ms": round(bare_s * 1000, 2),
        "hook_4kb_ms": round(hook_s * 1000, 2),
        "hook_4kb_p95_ms": round(percentile([pair[1] for pair in pairs], 0.95) * 1000, 2),
        "ratio": round(hook_s / bare_s, 2),
        "ratio_bar": 3.0,
        "hook_20mb_ms": round(median(bigs) * 1000, 1),
        "hook_20mb_bar_ms": 500,
    }
    write_result("hook", result, as_json=args.json)


if __name__ == "__main__":
    main()
