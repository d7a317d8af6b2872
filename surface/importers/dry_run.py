"""What an import would bring in and leave out, without writing anything."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from headwater.flows import claude_hooks, claude_transcripts, codex_rollouts
from headwater.flows.claude_hooks import text
from headwater.schemas import clock
from headwater.schemas.events import Kind, Part
from headwater.surface.importers import codex_log
from headwater.surface.importers.hooks import agent_of
from headwater.surface.importers.ingest import choose_files, opened_run, session_of
from headwater.surface.importers.plan import read_logs, survey
from headwater.surface.importers.records import Format, format_of, read_records
from headwater.surface.importers.run import ImportRun, SessionCount

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.flows.claude_hooks import Fact
    from headwater.storage.home import Home
    from headwater.surface.console import Progress
    from headwater.surface.importers.run import LogSurvey, Told


class DryRun:
    """Counts by session and file."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.sessions: dict[tuple[str, str, str], SessionCount] = {}
        self.records = 0

    def session(self, agent: str, session_id: str, file: str) -> SessionCount:
        """Return the counts of one session in one file."""
        key = (agent, session_id, file)
        if key not in self.sessions:
            self.sessions[key] = SessionCount(session_id, agent, file=file, project="")
        self.records += 1
        return self.sessions[key]

    def take_log(self, one: LogSurvey, told: Told, run: ImportRun) -> None:
        """Count a record of an agent's log."""
        count = self.session(one.agent, told.session_id, str(one.path))
        count.see_time(told.at)
        if told.reason:
            (count.copies if told.copy else count.skipped)[told.reason] += 1
            return
        if not isinstance(told.payload, dict):
            count.records["quarantined"] += 1
            return
        count.project = run.project(one.agent, told.session_id, text(told.payload.get("cwd")) or one.cwd)[1]
        reader = codex_rollouts if one.agent == codex_log.AGENT else claude_transcripts
        _count(count, reader.facts(told.payload, count.project))

    def take_hook(self, path: Path, value: Any) -> None:
        """Count a hook's payload."""
        found = format_of(value)
        payload = value["payload"] if found in (Format.ENVELOPE, Format.STAMPED) else value
        agent = text(value.get("agent")) if found is Format.ENVELOPE else agent_of(payload)
        count = self.session(agent, session_of(payload), str(path))
        received_at_ns = value.get("received_at_ns") if isinstance(value, dict) else None
        if isinstance(received_at_ns, int) and not isinstance(received_at_ns, bool) and received_at_ns > 0:
            count.see_time(clock.iso(clock.from_ns(received_at_ns)))
        if not isinstance(payload, dict) or "hook_event_name" not in payload:
            count.records["other"] += 1
            return
        _count(count, claude_hooks.fact(payload, ""))

    def report(self, left_out: list[dict[str, str]]) -> dict[str, Any]:
        """Return the sessions in order of time, and the sums."""
        sessions = sorted(self.sessions.values(), key=lambda one: (one.first_at, one.file))
        skipped: Counter[str] = Counter()
        copies: Counter[str] = Counter()
        records: Counter[str] = Counter()
        for one in sessions:
            skipped += one.skipped
            copies += one.copies
            records += one.records
        return {
            "dry_run": True,
            "lines": self.records,
            "records": dict(records.most_common()),
            "skipped": dict(skipped.most_common()),
            "duplicates": dict(copies.most_common()),
            "sessions": [
                {
                    "session_id": one.session_id,
                    "agent": one.agent,
                    "project": one.project,
                    "file": one.file,
                    "first_at": one.first_at or None,
                    "last_at": one.last_at or None,
                    "records": dict(one.records.most_common()),
                    "skipped": dict(one.skipped.most_common()),
                    "duplicates": one.copies.total(),
                }
                for one in sessions
            ],
            "left_out": left_out,
        }


def dry_run(
    home: Home | None, paths: list[Path], wanted: Format | None, progress: Progress
) -> dict[str, Any]:
    """Return what `append_paths` would do: sessions with times and counts, what it would skip and why. Writes nothing.

    `home` None: there is none yet, so that nothing was told before. Raises InputError.
    """
    found = DryRun()
    left_out: list[dict[str, str]] = []
    surveys: list[LogSurvey] = []
    for path, kind in choose_files(paths, wanted, left_out):
        if kind in (Format.CLAUDE, Format.CODEX):
            surveys.append(survey(path, kind))
            continue
        for record in read_records(path):
            found.take_hook(path, record.value)
            progress.update(found.records)
    with nullcontext(ImportRun(None)) if home is None else opened_run(home) as run:
        for one, told in read_logs(surveys, run):
            found.take_log(one, told, run)
            progress.update(found.records)
    return found.report(left_out)


def _count(count: SessionCount, found: list[Fact] | Fact | str) -> None:
    if isinstance(found, str):
        count.skipped[found] += 1
        return
    for fact in found if isinstance(found, list) else [found]:
        result = fact.kind is Kind.TOOL and fact.part in (Part.HOOK, Part.TRANSCRIPT)
        count.records["tool result" if result else fact.kind.value] += 1
