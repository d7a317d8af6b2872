"""What the hook asks the server, and what becomes of the answer: context for an agent, or nothing.

Standard library only: the hook loads it, for two events alone. The `socket` module is not: it takes longer to import
than the server takes to answer.
"""
# Paths are plain strings: importing pathlib takes longer than all that is done here.
# ruff: noqa: PTH118, PTH123

import os

from headwater.surface.capture import encode_line, parse_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ASKING_EVENTS = ("SessionStart", "UserPromptSubmit")
ASK_S = 0.2  # from the hook's start to the end of the answer: all of it is to be done after 0.35
CONTEXT_CHARS = 9_500  # agents replace a text of more than 10,000 by a short preview
ANSWER_BYTES = 256 * 1024  # of an answer: more is none of ours
_BLOCK_BYTES = 64 * 1024


def wants_context(envelope: "dict[str, Any]") -> bool:
    """Tell whether an agent takes context with this event; a sub-agent has its task."""
    payload = envelope["payload"]
    return (
        isinstance(payload, dict)
        and payload.get("hook_event_name") in ASKING_EVENTS
        and not payload.get("agent_id")
        and isinstance(payload.get("session_id"), str)
    )


def context_line(
    home: str, envelope: "dict[str, Any]", started_s: float, now_s: "Callable[[], float]"
) -> bytes:
    """Return the line for stdout that hands context to the agent; nothing when there is none.

    All of it is done ASK_S after `started_s` on the clock that `now_s` reads, or given up. The prompt that is sent is
    the cleaned one of the envelope. Raises OSError for a server that does not answer, ValueError for an answer that is
    none.
    """
    until_s = started_s + ASK_S
    payload = envelope["payload"]
    event = payload["hook_event_name"]
    args = {
        "event": event,
        "project": envelope["project"],
        "agent": envelope["agent"],
        "session": payload["session_id"],
        "source": payload.get("source"),
        "prompt": payload.get("prompt"),
        "asked_at_ns": envelope["received_at_ns"],
    }
    answer = parse_event(_exchange(home, encode_line({"op": "context", "args": args}), until_s, now_s))
    result = answer.get("result") if isinstance(answer, dict) and answer.get("ok") is True else None
    text = result.get("context") if isinstance(result, dict) else None
    if not isinstance(text, str):
        raise ValueError("answer: wanted a context")  # noqa: TRY004 - the answer is at fault, not a caller
    if not text or len(text) > CONTEXT_CHARS:
        return b""
    return encode_line({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})


def _exchange(home: str, request: bytes, until_s: float, now_s: "Callable[[], float]") -> bytes:
    """Send a line and return the line that comes back. Raises OSError when that takes too long."""
    import _socket  # the C module beneath `socket`

    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        link.settimeout(_left_s(until_s, now_s))
        link.connect(_address(home))
        sent = 0
        while sent < len(request):
            link.settimeout(_left_s(until_s, now_s))
            sent += link.send(request[sent:])
        blocks: list[bytes] = []
        size = 0
        while size <= ANSWER_BYTES:
            link.settimeout(_left_s(until_s, now_s))
            block = link.recv(_BLOCK_BYTES)
            blocks.append(block)
            size += len(block)
            if not block or block.endswith(b"\n"):
                return b"".join(blocks)
        raise OSError(27, "the answer is too long")
    finally:
        link.close()


def _left_s(until_s: float, now_s: "Callable[[], float]") -> float:
    """Return the seconds that are left. Raises OSError when none are: 0 would mean no waiting, not no time."""
    left_s = until_s - now_s()
    if left_s <= 0:
        raise OSError(110, "no answer in time")
    return left_s


def _address(home: str) -> str:
    """Return the path of the server's socket: in `run/`, or where a file there says when that path is too long."""
    run = os.path.join(home, "run")
    try:
        with open(os.path.join(run, "server.path"), encoding="utf-8") as file:
            return file.read(4096).strip() or os.path.join(run, "server.sock")
    except OSError:
        return os.path.join(run, "server.sock")
