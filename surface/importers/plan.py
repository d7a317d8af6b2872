"""In which order the files of an import are read: what happened first comes first, forks after what they copy.

A sub-agent's file is read within its session's, before the prompt that came after it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.flows.claude_transcripts import blocks_of, is_result
from headwater.schemas import limits
from headwater.schemas.clock import parse_iso
from headwater.surface.importers import claude_log, codex_log
from headwater.surface.importers.claude_log import ClaudeLog
from headwater.surface.importers.codex_log import CodexLog
from headwater.surface.importers.records import Format

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.surface.importers.run import ImportRun, LogSurvey, Told


def survey(path: Path, found: Format) -> LogSurvey:
    """Return the first look at an agent's log. Raises InputError."""
    return codex_log.survey(path) if found is Format.CODEX else claude_log.survey(path)


def read_logs(surveys: list[LogSurvey], run: ImportRun) -> Iterator[tuple[LogSurvey, Told]]:
    """Yield what becomes of every record of the files, with the file it stands in. Raises InputError."""
    run.cleared |= _cleared(surveys)
    main = sorted((one for one in surveys if not one.sub_agent), key=_order)
    of_session: dict[str, list[LogSurvey]] = {}
    for one in sorted((one for one in surveys if one.sub_agent), key=_order):
        of_session.setdefault(one.sessions[0] if one.sessions else "", []).append(one)
    for one in main:
        waiting = [sub for session in one.sessions for sub in of_session.pop(session, [])]
        yield from _read(one, waiting, run)
    for left in of_session.values():
        for one in left:
            yield from _read(one, [], run)


def _read(one: LogSurvey, waiting: list[LogSurvey], run: ImportRun) -> Iterator[tuple[LogSurvey, Told]]:
    if one.agent == codex_log.AGENT:
        for told in CodexLog(one, run).lines():
            yield one, told
        return
    run.project(one.agent, one.sessions[0] if one.sessions else "", one.cwd)
    for told in ClaudeLog(one, run).lines():
        while waiting and _is_prompt(told) and waiting[0].first_at < told.at:
            yield from _read(waiting.pop(0), [], run)
        yield one, told
    for sub in waiting:
        yield from _read(sub, [], run)


def _is_prompt(told: Told) -> bool:
    payload = told.payload
    return (
        isinstance(payload, dict)
        and payload.get("type") == "user"
        and not any(map(is_result, blocks_of(payload)))
    )


def _order(one: LogSurvey) -> tuple[str, str, str]:
    return one.first_at, one.last_at, str(one.path)


def _cleared(surveys: list[LogSurvey]) -> dict[str, str]:
    """Return session -> the one in the same folder that ended just before it, for those that begin with a /clear."""
    pairs: dict[str, str] = {}
    for one in surveys:
        if not one.cleared_at or not one.sessions:
            continue
        start = parse_iso(one.cleared_at)
        near = [
            (abs((start - parse_iso(other.last_at)).total_seconds()), other.sessions[-1])
            for other in surveys
            if other is not one
            and not other.sub_agent
            and other.sessions
            and other.last_at
            and other.cwd == one.cwd
        ]
        gap_s, session = min(near, default=(limits.CLEAR_GAP_S + 1, ""))
        if gap_s <= limits.CLEAR_GAP_S and session not in one.sessions:
            pairs[one.sessions[0]] = session
    return pairs
