"""Lines of agents' own logs as tests make them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

S1, S2 = "11111111-0000-0000-0000-000000000001", "22222222-0000-0000-0000-000000000002"


def at(second: float) -> str:
    """Return a time so many seconds after noon."""
    return f"2026-03-01T12:{int(second) // 60:02}:{second % 60:06.3f}Z"


def line(kind: str, second: float, content: Any = None, **fields: Any) -> dict[str, Any]:
    """Return a transcript line of session S1."""
    made: dict[str, Any] = {
        "type": kind,
        "sessionId": S1,
        "timestamp": at(second),
        "cwd": "/p",
        "isSidechain": False,
    }
    made["uuid"] = f"uuid-{kind}-{second}"
    if content is not None:
        made["message"] = {"role": kind, "content": content}
    return made | fields


def said(second: float, text: str, **fields: Any) -> dict[str, Any]:
    """Return what a person said."""
    return line("user", second, text, **fields)


def answered(second: float, text: str, **fields: Any) -> dict[str, Any]:
    """Return what the agent answered."""
    return line("assistant", second, [{"type": "text", "text": text}], **fields)


def called(second: float, use_id: str, name: str = "Bash", **asked: Any) -> dict[str, Any]:
    """Return a call."""
    block = {"type": "tool_use", "id": use_id, "name": name, "input": asked or {"command": "ls"}}
    return line("assistant", second, [block])


def gave(
    second: float, use_id: str, content: Any = "a.txt", *, error: bool = False, **fields: Any
) -> dict[str, Any]:
    """Return a call's result."""
    block = {"type": "tool_result", "tool_use_id": use_id, "content": content, "is_error": error}
    return line("user", second, [block], **fields)


def write(path: Path, *lines: Any) -> Path:
    """Write lines into a file; a text is written as it stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in lines]
    path.write_text("".join(text + "\n" for text in whole), encoding="utf-8")
    return path
