"""Claude Code hook payloads, old and new: which event each one is. Pure; the tables say what each name means."""

from __future__ import annotations

import json
from typing import Any

from headwater.flows.tool_text import flatten, tool_content, tool_files
from headwater.schemas.events import Kind, Part, ToolCall
from headwater.schemas.ids import content_hash

# names that tell nothing of their own, and why
NOISE = {
    "MessageDisplay": "repeats the answer",
    "PostToolBatch": "repeats the tools",
    "Notification": "a message to the person",
    "PermissionRequest": "the call follows, or its denial",
    "UserPromptExpansion": "the prompt follows",
    "SubagentStart": "the sub-agent's tools and answer follow",
    "InstructionsLoaded": "settings",
    "ConfigChange": "settings",
    "CwdChanged": "each payload has its cwd",
    "FileChanged": "not the agent's doing",
    "DirectoryAdded": "settings",
    "PreModelSwitch": "settings",
    "PostModelSwitch": "settings",
    "Setup": "settings",
    "TeammateIdle": "no content",
    "Elicitation": "a message to the person",
    "ElicitationResult": "a message to the person",
    "WorktreeCreate": "settings",
    "WorktreeRemove": "settings",
    "PreSkillShellCommand": "the call follows",
}
_COMMON = {
    "session_id", "transcript_path", "cwd", "hook_event_name", "prompt_id", "permission_mode", "agent_id", "agent_type",
    "effort", "stop_hook_active", "background_tasks", "session_crons", "agent_transcript_path", "turn_id", "model",
}  # fmt: skip
_META = ("permission_mode", "model", "agent_type", "source", "reason", "trigger", "session_title")
_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"  # put beside a prompt by the agent
_MACHINE_TAGS = ("<task-notification>", "<local-command-", "<command-name>", "<bash-stdout>", "<bash-stderr>")


class Fact:
    """What one payload says, before ids and times: `key` is its own id (tool use or prompt), None when it has none.

    `at` is its own time (ISO 8601) when that is not its line's; `meta` and `prev_session_id` stand beside the event.
    """

    __slots__ = (
        "at", "content", "files", "identity", "key", "kind", "meta", "part", "prev_session_id", "role", "tool",
    )  # fmt: skip

    def __init__(self, kind: Kind, role: str, content: str = "", *, key: str | None = None) -> None:
        """Start with what every fact has."""
        self.kind = kind
        self.role = role
        self.content = content
        self.key = key
        self.part = Part.HOOK
        self.tool: ToolCall | None = None
        self.files: tuple[Any, ...] = ()
        self.identity = content  # what makes two facts without an id the same
        self.at = ""
        self.meta: dict[str, Any] = {}
        self.prev_session_id: str | None = None


def fact(payload: dict[str, Any], project: str) -> Fact | str:
    """Return what a payload says, or the reason why it says nothing (noise)."""
    name = text(payload.get("hook_event_name"))
    if name in NOISE:
        return f"{name}: {NOISE[name]}"
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(payload, project)
    rest = {k: v for k, v in payload.items() if k not in _COMMON}
    if not rest:
        return f"{name}: nothing but common fields"
    return Fact(Kind.NOTE, name, f"{name} {json.dumps(rest, ensure_ascii=False, default=str)}")


def meta(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the small fields worth keeping beside an event."""
    found = {key: payload[key] for key in _META if isinstance(payload.get(key), str) and payload[key]}
    effort = payload.get("effort")
    if isinstance(effort, dict) and isinstance(effort.get("level"), str):
        found["effort"] = effort["level"]
    elif isinstance(effort, str):
        found["effort"] = effort
    return found


def text(value: Any) -> str:
    """Return a field as text, whatever its type."""
    return value if isinstance(value, str) else flatten(value)


def turn_of(payload: dict[str, Any]) -> str | None:
    """Return the id of the prompt that a payload belongs to: Claude Code names it `prompt_id`, Codex `turn_id`."""
    return text(payload.get("prompt_id") or payload.get("turn_id")) or None


def _tool(payload: dict[str, Any], project: str) -> Fact:
    name = text(payload.get("tool_name")) or "unknown"
    event = text(payload.get("hook_event_name"))
    tool_input, response = payload.get("tool_input"), payload.get("tool_response")
    error = None
    if event in _ENDS_BADLY:
        error = text(payload.get("error") or payload.get("reason")) or None
        if error is None and payload.get("is_interrupt") is True:
            error = "interrupted"
    use_id = text(payload.get("tool_use_id")) or None
    found = Fact(Kind.TOOL, event, tool_content(name, tool_input, response, error), key=use_id)
    if event == "PreToolUse":
        ok, found.part = None, Part.HOOK_BEFORE
    elif event in _ENDS_BADLY:
        ok = False
    else:
        interrupted = isinstance(response, dict) and response.get("interrupted") is True
        ok = None if payload.get("turn_id") and "prompt_id" not in payload else not interrupted
        error = "interrupted" if interrupted else None
    found.tool = ToolCall(name, use_id, ok, error, _milliseconds(payload.get("duration_ms")))
    found.files = tool_files(name, tool_input, project)
    if use_id is None:
        asked = json.dumps(tool_input, ensure_ascii=False, sort_keys=True, default=str)
        found.identity = f"{name}\n{content_hash(asked)}"  # the same for a call's announcement and its result
    return found


def _milliseconds(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value) if 0 <= value < 2**63 else None


def _prompt(payload: dict[str, Any], project: str) -> Fact | str:
    """Return what the person said; what the agent sends itself in its place is a note, never the person's words."""
    del project
    whole = text(payload.get("prompt"))
    words = own_words(whole)
    if whole and not words:
        return "UserPromptSubmit: nothing but reminders"
    if payload.get("source") == "system" or words.startswith(_MACHINE_TAGS):
        return Fact(Kind.NOTE, "UserPromptSubmit:system", words, key=turn_of(payload))
    return Fact(Kind.PROMPT, "user", words, key=turn_of(payload))


def own_words(prompt: str) -> str:
    """Return a prompt without the reminders that the agent put before and after it."""
    words = prompt
    while words.lstrip().startswith(_REMINDER) and (end := words.find(_REMINDER_END)) >= 0:
        words = words[end + len(_REMINDER_END) :]
    while words.rstrip().endswith(_REMINDER_END) and (start := words.rfind(_REMINDER)) >= 0:
        words = words[:start]
    return words if words == prompt else words.strip()


def _response(payload: dict[str, Any], project: str) -> Fact | str:
    del project
    name = text(payload.get("hook_event_name"))
    if name == "SubagentStop" and payload.get("agent_type") == "":
        return "SubagentStop: the agent's own summariser"
    answer = text(payload.get("last_assistant_message"))
    if not answer.strip():
        return f"{name}: no text"
    return Fact(Kind.RESPONSE, "assistant", answer)


def _stop_failure(payload: dict[str, Any], project: str) -> Fact:
    del project
    said = [text(payload.get(key)) for key in ("error", "error_details", "last_assistant_message")]
    return Fact(Kind.NOTE, "StopFailure", "\n".join(part for part in said if part))


def _session_start(payload: dict[str, Any], project: str) -> Fact:
    del project
    source = text(payload.get("source"))
    # a session begins once; it can be resumed, and compacted, many times
    found = Fact(Kind.SESSION_START, f"SessionStart:{source}", key=source if source in _BEGINNINGS else None)
    found.identity = _whole(payload)
    return found


def _session_end(payload: dict[str, Any], project: str) -> Fact:
    del project
    reason = text(payload.get("reason"))
    found = Fact(Kind.SESSION_END, f"SessionEnd:{reason}")
    found.identity = _whole(payload)
    return found


def _compact(payload: dict[str, Any], project: str) -> Fact:
    del project
    before = payload.get("hook_event_name") == "PreCompact"
    trigger = text(payload.get("trigger"))
    content = text(payload.get("custom_instructions" if before else "compact_summary"))
    found = Fact(Kind.COMPACT, f"Compact:{trigger}", content)
    # the same before and after; a long turn can have several, which are told apart by their count
    found.identity = f"{turn_of(payload) or ''}\n{trigger}"
    if payload.get("turn_id") and "prompt_id" not in payload:
        found.identity = turn_of(payload) or ""  # what is written of it elsewhere does not tell the trigger
    if before:
        found.part = Part.HOOK_BEFORE
    return found


def _task(payload: dict[str, Any], project: str) -> Fact:
    del project
    name = text(payload.get("hook_event_name"))
    words = [text(payload.get("task_subject")), text(payload.get("task_description"))]
    return Fact(Kind.NOTE, name, f"{name}: " + " - ".join(word for word in words if word))


def _whole(payload: dict[str, Any]) -> str:
    """Return all of a payload: deliveries of one fact are alike in everything, two resumes within a second are not."""
    return json.dumps(payload, ensure_ascii=False, sort_keys=True, default=str)


_BEGINNINGS = ("startup", "clear", "fork")
_ENDS_BADLY = ("PostToolUseFailure", "PermissionDenied")
_HANDLERS = {
    "UserPromptSubmit": _prompt,
    "PreToolUse": _tool,
    "PostToolUse": _tool,
    "PostToolUseFailure": _tool,
    "PermissionDenied": _tool,
    "Stop": _response,
    "SubagentStop": _response,
    "StopFailure": _stop_failure,
    "SessionStart": _session_start,
    "SessionEnd": _session_end,
    "PreCompact": _compact,
    "PostCompact": _compact,
    "TaskCreated": _task,
    "TaskCompleted": _task,
}
