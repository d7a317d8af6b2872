"""Lines of Codex rollouts, old and new: which event each one is. Pure; an odd shape is data, never an error.

A rollout tells most things twice, once as what the model saw and once as what the person saw. Prompts are taken from
the second kind, answers and calls from the first. What a line does not say itself, an importer notes under NOTES.
"""

from __future__ import annotations

import json
import re
from typing import Any

from headwater.flows.claude_hooks import Fact, own_words, text
from headwater.flows.claude_transcripts import notes_of
from headwater.flows.tool_text import flatten, tool_content, tool_files
from headwater.schemas.events import Kind, Part, ToolCall

ROLLOUT_TYPES = (
    "session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state", "token_usage_record",
)  # fmt: skip
_SHELLS = ("exec_command", "shell", "shell_command", "local_shell", "container.exec")
_SHELL_NAME = "Bash"  # what the agent's own hooks call it
_SHELL_ARGS = 3  # of ["bash", "-lc", command]
_HEAD_LINES = 8  # before an output: how long it took, how it ended
_HEAD_CHARS = 1_000
_OUTPUT = "Output:"
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,9})", re.MULTILINE)
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
_RESULTS = ("function_call_output", "custom_tool_call_output")
_NOISE = {
    "agent_message": "repeats an answer",
    "agent_reasoning": "thoughts",
    "reasoning": "thoughts",
    "context_compacted": "repeats a compaction",
    "token_count": "bookkeeping",
    "task_started": "bookkeeping",
    "task_complete": "repeats an answer",
    "thread_settings_applied": "settings",
    "turn_aborted": "a mark of the agent",
}
_FIRST_ITEM = "UserMessage"


def facts(line: dict[str, Any], project: str) -> list[Fact] | str:
    """Return what a line says, at most one fact, or the reason why it says nothing (noise)."""
    kind, payload = text(line.get("type")), line.get("payload")
    if not isinstance(payload, dict):
        return f"{kind[:40] or 'no type'}: without a payload"
    if kind == "session_meta":
        return [_session_start(line, payload)]
    if kind == "compacted":
        return [_compacted(line, payload)]
    if kind == "event_msg":
        return _event(payload)
    if kind == "response_item":
        return _item(line, payload, project)
    return f"{kind[:40] or 'no type'}: bookkeeping"


def turn_of(line: dict[str, Any]) -> str | None:
    """Return the turn that a line belongs to, as it says itself or as noted."""
    return own_turn(line) or text(notes_of(line).get("turn_id")) or None


def own_turn(line: dict[str, Any]) -> str | None:
    """Return the turn that a line names."""
    payload = line.get("payload")
    if not isinstance(payload, dict):
        return None
    passed = payload.get("internal_chat_message_metadata_passthrough")
    inner = passed.get("turn_id") if isinstance(passed, dict) else None
    return text(payload.get("turn_id") or inner) or None


def parent_of(meta: dict[str, Any]) -> str | None:
    """Return the thread that a session goes on from: forked or started by it."""
    for key in ("forked_from_id", "parent_thread_id"):
        if found := text(meta.get(key)):
            return found
    source = meta.get("source")
    spawn = source.get("subagent") if isinstance(source, dict) else None
    spawn = spawn.get("thread_spawn") if isinstance(spawn, dict) else None
    return text(spawn.get("parent_thread_id")) or None if isinstance(spawn, dict) else None


def prompt_of(payload: dict[str, Any]) -> str | None:
    """Return what the person said in an event, None when it is another kind of event."""
    if payload.get("type") == "user_message":
        images = [*_listed(payload.get("images")), *_listed(payload.get("local_images"))]
        return "\n".join(
            [part for part in (text(payload.get("message")),) if part] + ["[image]"] * len(images)
        )
    item = payload.get("item")
    if payload.get("type") == "item_completed" and isinstance(item, dict) and item.get("type") == _FIRST_ITEM:
        return flatten(item.get("content"))
    return None


def call_of(payload: dict[str, Any]) -> tuple[str, Any]:
    """Return name and arguments of a call, a shell's as the agent's hooks tell them."""
    if payload.get("type") == "web_search_call":
        return "web_search", payload.get("action")
    name = text(payload.get("name")) or (
        "local_shell" if payload.get("type") == "local_shell_call" else "unknown"
    )
    asked = payload.get("arguments", payload.get("input", payload.get("action")))
    if isinstance(asked, str) and payload.get("type") == "function_call":
        asked = _parsed(asked)
    if name not in _SHELLS or not isinstance(asked, dict):
        return _SHELL_NAME if name in _SHELLS else name, asked
    command = asked.get("cmd", asked.get("command"))
    if isinstance(command, list):
        words = [text(word) for word in command]
        in_shell = len(words) == _SHELL_ARGS and words[1] in ("-lc", "-c")
        command = words[-1] if in_shell else " ".join(words)
    return (_SHELL_NAME, {"command": command}) if isinstance(command, str) else (_SHELL_NAME, asked)


def _event(payload: dict[str, Any]) -> list[Fact] | str:
    kind = text(payload.get("type"))
    said = prompt_of(payload)
    if said is None:
        item = payload.get("item")
        inner = text(item.get("type")) if isinstance(item, dict) else ""
        if kind == "item_completed":
            return f"item_completed {inner}: repeats a call or an answer"
        return f"{kind[:40] or 'no type'}: {_NOISE.get(kind, 'bookkeeping')}"
    words = own_words(said)
    if not words.strip():
        return f"{kind}: no text"
    found = Fact(Kind.PROMPT, "user", words)
    found.part = Part.TRANSCRIPT
    return [found]


def _item(line: dict[str, Any], payload: dict[str, Any], project: str) -> list[Fact] | str:
    kind = text(payload.get("type"))
    if kind in _CALLS:
        return [_call(payload, project)]
    if kind in _RESULTS:
        return [_result(line, payload, project)]
    if kind != "message":
        return f"{kind[:40] or 'no type'}: {_NOISE.get(kind, 'bookkeeping')}"
    role = text(payload.get("role"))
    if role != "assistant":
        return f"message {role}: told by the prompt, or put in by the agent"
    words = flatten(payload.get("content"))
    if not words.strip():
        return "message assistant: no text"
    found = Fact(Kind.RESPONSE, "assistant", words)
    found.part = Part.TRANSCRIPT
    return [found]


def _call(payload: dict[str, Any], project: str) -> Fact:
    name, asked = call_of(payload)
    use_id = text(payload.get("call_id")) or None
    found = Fact(Kind.TOOL, text(payload.get("type")), tool_content(name, asked, None, None), key=use_id)
    done = payload.get("type") == "web_search_call"  # its result is never told
    found.part = Part.TRANSCRIPT if done else Part.TRANSCRIPT_BEFORE
    found.tool = ToolCall(name, use_id, ok=True if done and payload.get("status") == "completed" else None)
    found.files = tool_files(name, asked, project)
    return found


def _result(line: dict[str, Any], payload: dict[str, Any], project: str) -> Fact:
    use_id = text(payload.get("call_id")) or None
    calls = notes_of(line).get("calls")
    call = calls.get(use_id) if isinstance(calls, dict) else None
    call = call if isinstance(call, dict) else {}
    name, asked = text(call.get("name")) or "unknown", call.get("input")
    output, code = _output(payload.get("output"))
    error = f"Exit code {code}" if code else None
    found = Fact(Kind.TOOL, text(payload.get("type")), tool_content(name, asked, output, error), key=use_id)
    found.part = Part.TRANSCRIPT
    found.tool = ToolCall(name, use_id, ok=None if code is None else code == 0, error=error)
    found.files = tool_files(name, asked, project)
    return found


def _output(told: Any) -> tuple[str, int | None]:
    """Return what a call gave back, and its exit code when that is told."""
    value = _parsed(told) if isinstance(told, str) and told.startswith("{") else told
    code: int | None = None
    if isinstance(value, dict):
        marks = value.get("metadata")
        number = marks.get("exit_code") if isinstance(marks, dict) else None
        code = number if isinstance(number, int) and not isinstance(number, bool) else None
        if code is None and isinstance(value.get("success"), bool):
            code = 0 if value["success"] else 1
        value = value.get("output", value.get("content", value))
    whole = flatten(value)
    lines = whole[:_HEAD_CHARS].split("\n")[:_HEAD_LINES]
    if _OUTPUT not in lines or lines[0] == _OUTPUT:
        return whole, code
    head = "\n".join(lines[: lines.index(_OUTPUT) + 1])
    found = _EXIT.search(head)
    return whole[len(head) + 1 :], int(found[1]) if found else code


def _compacted(line: dict[str, Any], payload: dict[str, Any]) -> Fact:
    found = Fact(Kind.COMPACT, "Compact:", text(payload.get("message")))
    found.identity = turn_of(line) or ""
    found.part = Part.TRANSCRIPT
    return found


def _session_start(line: dict[str, Any], meta: dict[str, Any]) -> Fact:
    found = Fact(Kind.SESSION_START, "SessionStart:startup", key="startup")
    found.part = Part.TRANSCRIPT
    found.at = text(meta.get("timestamp")) or text(line.get("timestamp"))
    found.prev_session_id = parent_of(meta)
    git = meta.get("git")
    told = {
        "version": meta.get("cli_version"),
        "branch": git.get("branch") if isinstance(git, dict) else None,
        "originator": meta.get("originator"),
    }
    found.meta = {"source": "startup"} | {
        name: value for name, value in told.items() if isinstance(value, str)
    }
    return found


def _parsed(told: str) -> Any:
    try:
        return json.loads(told, strict=False)
    except (ValueError, RecursionError):
        return told


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
