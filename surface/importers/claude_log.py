"""Claude Code transcripts: a first look at a file, then its lines with notes of what only the file tells."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from headwater.flows.claude_hooks import text
from headwater.flows.claude_transcripts import (
    NOTES,
    agent_of,
    blocks_of,
    is_call,
    is_result,
    is_summary,
    says_nothing,
    why_skipped,
    words_of,
)
from headwater.schemas import ids, limits
from headwater.surface import guards
from headwater.surface.importers.records import Record, read_records
from headwater.surface.importers.run import OWN_FOLDER, ImportRun, LogSurvey, Told, is_time
from headwater.surface.importers.slim import slim_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENT = "claude-code"
_AGENT_FILE = re.compile(r"agent-([\w-]+)\.jsonl")
_CLEAR = "<command-name>/clear</command-name>"
_OWN_CALL = "a call of our own tools"
_TORN = "a last line that is not ended"


def survey(path: Path) -> LogSurvey:
    """Return what a first look at a transcript finds. Raises InputError."""
    found = LogSurvey(path, AGENT, sub_agent=_AGENT_FILE.match(path.name) is not None)
    spoken = False
    for record in read_records(path):
        found.records += 1
        line = record.value
        if not isinstance(line, dict):
            continue
        at, session_id = text(line.get("timestamp")), text(line.get("sessionId"))
        found.see_time(at)
        if session_id and session_id not in found.sessions:
            found.sessions.append(session_id)
        found.cwd = found.cwd or text(line.get("cwd"))
        spoken = spoken or line.get("type") == "assistant"
        if line.get("type") == "user" and not spoken and not found.cleared_at and is_time(at):
            found.cleared_at = (
                at if any(_CLEAR in text(block.get("text")) for block in blocks_of(line)) else ""
            )
        origin = _origin(line)
        if origin and session_id and origin != session_id:
            found.copied_from, found.copied_until = origin, record.offset
        elif found.copied_from and session_id and at and is_time(at) and at < found.first_at:
            found.copied_until = record.offset  # older than the fork, whose first line has its own time
    return found


def _origin(line: dict[str, Any]) -> str:
    """Return the session that a copied line says it comes from."""
    forked = line.get("forkedFrom")
    return text(line.get("requestSessionId")) or (
        text(forked.get("sessionId")) if isinstance(forked, dict) else ""
    )


class ClaudeLog:
    """The lines of one transcript, in order; a compaction's boundary waits for its summary."""

    def __init__(self, found: LogSurvey, run: ImportRun) -> None:
        """Begin with the first line."""
        self._found = found
        self._run = run
        name = _AGENT_FILE.match(found.path.name)
        self._agent_id = name[1] if name else ""
        self._session_id = found.sessions[0] if found.sessions else found.path.name.split(".")[0]
        self._calls: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._own: set[str] = set()
        self._turns: dict[tuple[str, str | None], str] = {}
        self._prompts: set[str] = set()
        self._firsts: dict[str, str] = {}  # session -> time of its first line here
        self._copied: dict[str, tuple[str, str]] = {}  # session -> the one it copies, time of the last copy
        self._at = ""
        self._boundary: tuple[Record, dict[str, Any]] | None = None
        self._waited = 0
        self._queue: deque[str] = deque()
        self._trigger: str | None = None  # of the boundary before the summary that comes next

    def lines(self) -> Iterator[Told]:
        """Yield what becomes of each record. Raises InputError."""
        for record in read_records(self._found.path):
            line = record.value
            if not isinstance(line, dict):
                yield (
                    Told(record, reason=_TORN)
                    if record.torn
                    else Told(record, line, session_id=self._session_id)
                )
                continue
            yield from self._release(line)
            told = self._line(record, line)
            if told is not None:
                yield told
        yield from self._release(None)

    def _line(self, record: Record, line: dict[str, Any]) -> Told | None:
        session_id = text(line.get("sessionId")) or self._session_id
        at = text(line.get("timestamp"))
        self._at = at or self._at
        if at:
            self._firsts.setdefault(session_id, at)
        typed = self._typed_ahead(line) if line.get("type") == "queue-operation" else ""
        reason = None if typed else why_skipped(line) or self._why_not(line)
        if reason is not None:
            self._note_turn(line, session_id)
            return Told(record, reason=reason, session_id=session_id, at=at)
        origin = self._origin_of(record, line, session_id)
        key = _key(line, session_id)
        # a copy of a line that nobody told is kept under a name of its own, so that the line itself can still be told
        earlier = self._run.first_told_by(key, session_id, is_copy=bool(origin))
        if origin and earlier is None:
            own_key = ids.line_key(AGENT, "copy", session_id, key)
            earlier = self._run.first_told_by(own_key, session_id)
        copied_from = origin or (earlier if earlier and earlier != session_id else "")
        if copied_from:
            self._copied[session_id] = (copied_from, self._at)
        kept = self._noted(line, session_id, copy=bool(copied_from))
        if earlier is not None:
            return Told(record, reason="told before", copy=True, session_id=session_id, at=at)
        if typed and kept is not None:
            kept[NOTES]["typed"] = typed
        if kept is None:
            return Told(record, reason=_OWN_CALL, session_id=session_id, at=at)
        if origin:
            kept[NOTES] |= {"line": own_key, "copy_of": origin, "copy_line": key}
        if line.get("type") == "system":
            self._boundary, self._waited = (record, kept), 0
            return None
        if not origin:
            self._begin(kept, session_id)
        return Told(record, kept, session_id=session_id, at=at)

    def _why_not(self, line: dict[str, Any]) -> str | None:
        """Return why a line of a conversation says nothing that is kept."""
        if self._run.is_ours(text(line.get("cwd"))):
            return OWN_FOLDER
        blocks = blocks_of(line)
        if line.get("type") == "assistant":
            return says_nothing(line)
        if line.get("type") != "user" or is_summary(line) or any(is_result(block) for block in blocks):
            return None
        if agent_of(line) is not None or self._agent_id:
            return "user sub-agent: its task, as in the call that began it"
        return words_of(line)[1] or None

    def _typed_ahead(self, line: dict[str, Any]) -> str:
        """Return what was typed ahead when it is handed to the agent in the middle of a turn.

        Taken at the end of a turn (dequeue) it comes again as a prompt; newer agents name it a prompt of its own.
        """
        operation = line.get("operation")
        if operation == "enqueue":
            words = text(line.get("content"))
            if words and not words.lstrip().startswith("<"):  # a task's message is taken without a word
                self._queue.append(words)
        elif operation == "popAll":
            self._queue.clear()
        elif operation in ("dequeue", "remove") and self._queue:
            words = self._queue.popleft()
            own = operation == "remove" and not self._prompts and not words.lstrip().startswith("/")
            return words if own else ""
        return ""

    def _origin_of(self, record: Record, line: dict[str, Any], session_id: str) -> str:
        """Return the session that a fork's line was copied from by its file's own word, "" for a line of its own."""
        if not self._found.copied_from or record.offset > self._found.copied_until:
            return ""
        named = _origin(line) or self._found.copied_from
        return named if named != session_id else ""

    def _noted(self, line: dict[str, Any], session_id: str, *, copy: bool) -> dict[str, Any] | None:
        """Return the line as it goes into the journal, None when it only calls our own tools."""
        kept = slim_line(line)
        kept["sessionId"] = session_id
        if self._agent_id and not text(kept.get("agentId")):
            kept["agentId"] = self._agent_id
        if not text(kept.get("timestamp")):
            kept["timestamp"] = self._at
        notes: dict[str, Any] = {"line": _key(line, session_id)}
        if self._trigger is not None and is_summary(line):
            notes["trigger"], self._trigger = self._trigger, None
        if copy:  # a fork's copies all name the fork's own prompt
            kept.pop("promptId", None)
            return kept | {NOTES: notes} if self._note_calls(kept, notes) else None
        turn_id = self._note_turn(line, session_id)
        prompt_id = text(line.get("promptId"))
        if prompt_id and self._is_prompt(line):
            if prompt_id in self._prompts:  # a second text of one turn has no id of its own
                del kept["promptId"]
            self._prompts.add(prompt_id)
        if turn_id and not text(kept.get("promptId")):
            notes["turn_id"] = turn_id
        if not self._note_calls(kept, notes):
            return None
        kept[NOTES] = notes
        return kept

    def _note_turn(self, line: dict[str, Any], session_id: str) -> str:
        """Return the running turn; user lines name it, answers do not."""
        place = (session_id, text(line.get("agentId")) or self._agent_id or None)
        prompt_id = text(line.get("promptId"))
        if prompt_id and line.get("type") == "user":
            self._turns[place] = prompt_id
        return prompt_id or self._turns.get(place, "")

    def _is_prompt(self, line: dict[str, Any]) -> bool:
        said = line.get("type") == "user" and not is_summary(line)
        return said and not any(is_result(block) for block in blocks_of(line))

    def _note_calls(self, kept: dict[str, Any], notes: dict[str, Any]) -> bool:
        """Remember calls, note which ones the results of a line answer, leave out those of our own tools."""
        blocks, calls = [], {}
        message = kept.get("message")
        for block in message.get("content", []) if isinstance(message, dict) else []:
            use_id = text(block.get("id") or block.get("tool_use_id"))
            if is_call(block):
                if _is_own(block):
                    self._own.add(use_id)
                    continue
                self._calls[use_id] = {"name": block.get("name"), "input": block.get("input")}
                if len(self._calls) > limits.OPEN_CALLS:
                    self._calls.popitem(last=False)
            elif is_result(block):
                if use_id in self._own:
                    continue
                if (call := self._calls.pop(use_id, None)) is not None:
                    calls[use_id] = call
            blocks.append(block)
        if isinstance(message, dict):
            if message.get("content") and not blocks:
                return False
            message["content"] = blocks
        if calls:
            notes["calls"] = calls
        return True

    def _begin(self, kept: dict[str, Any], session_id: str) -> None:
        """Note on the first line of a session that it begins there, and which one it goes on from."""
        if session_id in self._run.begun or agent_of(kept) is not None:
            return
        self._run.begun.add(session_id)
        first_at = self._firsts.get(session_id, self._at)
        start: dict[str, Any] = {"at": first_at, "source": "startup"}
        copied = self._copied.get(session_id)
        cleared = self._run.cleared.get(session_id)
        if copied is not None:
            start = {"at": first_at if first_at > copied[1] else kept["timestamp"], "source": "fork"}
            if copied[0] and copied[0] != session_id:
                start["prev_session_id"] = copied[0]
        elif self._found.cleared_at:
            start["source"] = "clear"
            if cleared:
                start["prev_session_id"] = cleared
        kept[NOTES]["session_start"] = start

    def _release(self, line: dict[str, Any] | None) -> Iterator[Told]:
        """Yield a waiting boundary: with the turn of its summary, or when none comes."""
        if self._boundary is None:
            return
        record, kept = self._boundary
        self._waited += 1
        trigger = text((kept.get("compactMetadata") or {}).get("trigger"))
        summary = line is not None and line.get("type") == "user" and is_summary(line)
        if summary and line is not None:
            if (prompt_id := text(line.get("promptId"))) and "copy_of" not in kept[NOTES]:
                kept[NOTES]["turn_id"] = prompt_id
            self._trigger = trigger
        elif line is not None and self._waited <= limits.RESTORED_LINES and line.get("type") != "assistant":
            return
        self._boundary = None
        yield Told(record, kept, session_id=text(kept.get("sessionId")), at=text(kept.get("timestamp")))


def _key(line: dict[str, Any], session_id: str) -> str:
    uuid = text(line.get("uuid"))
    return ids.line_key(AGENT, uuid) if uuid else ids.line_key(AGENT, session_id, text(line))


def _is_own(block: dict[str, Any]) -> bool:
    return guards.own_call(
        {"hook_event_name": "PostToolUse", "tool_name": block.get("name"), "tool_input": block.get("input")}
    )
