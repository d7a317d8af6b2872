"""Codex rollouts: a first look at a file, then its lines with notes of what only the file tells."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from headwater.flows.claude_hooks import text
from headwater.flows.claude_transcripts import NOTES
from headwater.flows.codex_rollouts import call_of, facts, own_turn, parent_of, prompt_of
from headwater.schemas import ids, limits
from headwater.surface import guards
from headwater.surface.importers.records import Record, read_records
from headwater.surface.importers.run import OWN_FOLDER, ImportRun, LogSurvey, Told
from headwater.surface.importers.slim import slim_item

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AGENT = "codex"
_FILE_SESSION = re.compile(r"rollout-[\dT-]*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def survey(path: Path) -> LogSurvey:
    """Return what a first look at a rollout finds. Raises InputError."""
    found = LogSurvey(path, AGENT)
    for record in read_records(path):
        found.records += 1
        line = record.value
        payload = line.get("payload") if isinstance(line, dict) else None
        if not isinstance(payload, dict):
            continue
        found.see_time(text(line.get("timestamp")))
        if line.get("type") == "session_meta":
            session_id = text(payload.get("id"))
            if session_id and not found.sessions:
                found.sessions.append(session_id)
                found.cwd, found.parent = text(payload.get("cwd")), parent_of(payload) or ""
            elif session_id and session_id not in found.sessions:
                found.parent = found.parent or session_id  # a fork holds its parent's lines, with their head
        found.says_prompts = found.says_prompts or (
            line.get("type") == "event_msg" and payload.get("type") == "user_message"
        )
    if not found.sessions and (named := _FILE_SESSION.match(path.name)):
        found.sessions.append(named[1])
    return found


class CodexLog:
    """The lines of one rollout, in order."""

    def __init__(self, found: LogSurvey, run: ImportRun) -> None:
        """Begin with the first line."""
        self._found = found
        self._run = run
        self._session_id = found.sessions[0] if found.sessions else ""
        self._cwd = found.cwd
        self._turn = ""
        self._turns: set[str] = set()  # that have a prompt
        self._calls: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._own: set[str] = set()
        self._at = ""

    def lines(self) -> Iterator[Told]:
        """Yield what becomes of each record. Raises InputError."""
        for record in read_records(self._found.path):
            line = record.value
            if isinstance(line, dict):
                payload = line.get("payload")
                yield self._line(record, line, payload if isinstance(payload, dict) else {})
            elif record.torn:
                yield Told(record, reason="a last line that is not ended")
            else:
                yield Told(record, line, session_id=self._session_id)

    def _line(self, record: Record, line: dict[str, Any], payload: dict[str, Any]) -> Told:
        at = text(line.get("timestamp"))
        self._at = at or self._at
        self._see_turn(line, payload)
        reason = self._why_not(line, payload)
        if reason is not None:
            return Told(record, reason=reason, session_id=self._session_id, at=at)
        key = ids.line_key(AGENT, self._session_id, str(record.offset), at, text(payload.get("type")))
        notes: dict[str, Any] = {"line": key, "session_id": self._session_id, "cwd": self._cwd}
        turn = own_turn(line) or self._turn
        if turn:
            notes["turn_id"] = turn
        if prompt_of(payload) is not None and turn and turn not in self._turns:
            self._turns.add(turn)
            notes["first"] = True
        self._see_call(payload, notes)
        if self._run.first_told_by(key, self._session_id) is not None:
            return Told(record, reason="told before", copy=True, session_id=self._session_id, at=at)
        told = slim_item(payload)
        if line.get("type") == "session_meta" and self._found.parent:
            told["forked_from_id"] = self._found.parent
        kept = {"timestamp": at or self._at, "type": line.get("type"), "payload": told, NOTES: notes}
        return Told(record, kept, session_id=self._session_id, at=at)

    def _see_turn(self, line: dict[str, Any], payload: dict[str, Any]) -> None:
        begins = payload.get("type") == "task_started" or line.get("type") == "turn_context"
        if begins and (turn := text(payload.get("turn_id"))):
            self._turn = turn
        if line.get("type") == "turn_context":
            self._cwd = text(payload.get("cwd")) or self._cwd

    def _why_not(self, line: dict[str, Any], payload: dict[str, Any]) -> str | None:
        """Return why a line says nothing that is kept."""
        if self._run.is_ours(self._cwd):
            return OWN_FOLDER
        if line.get("type") == "session_meta" and text(payload.get("id")) not in ("", self._session_id):
            return "session_meta: of the session that this one was forked from"
        item = payload.get("item")
        if self._found.says_prompts and isinstance(item, dict) and prompt_of(payload) is not None:
            return "item_completed UserMessage: repeats a prompt"
        found = facts(line, "")
        if isinstance(found, str):
            return found
        name, asked = call_of(payload)
        call_id = text(payload.get("call_id"))
        if guards.own_call({"hook_event_name": "PostToolUse", "tool_name": name, "tool_input": asked}):
            self._own.add(call_id)
        return "a call of our own tools" if call_id and call_id in self._own else None

    def _see_call(self, payload: dict[str, Any], notes: dict[str, Any]) -> None:
        """Remember a call; note which one a result answers."""
        call_id, kind = text(payload.get("call_id")), text(payload.get("type"))
        if not call_id:
            return
        if not kind.endswith("_output"):
            name, asked = call_of(payload)
            self._calls[call_id] = {"name": name, "input": asked}
            if len(self._calls) > limits.OPEN_CALLS:
                self._calls.popitem(last=False)
        elif (call := self._calls.pop(call_id, None)) is not None:
            notes["calls"] = {call_id: call}
