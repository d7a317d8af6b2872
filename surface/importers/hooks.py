"""Records of hooks to journal lines: redacted, clipped and stamped like live ones, with where they came from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headwater.schemas import clock, limits
from headwater.surface import capture
from headwater.surface.cleaning import valid_text
from headwater.surface.importers.records import Format, Record, count_records, format_of

if TYPE_CHECKING:
    from pathlib import Path

# between records that carry no time: further apart than one delivery's repeats
_SPACING_NS = 3 * clock.NS_PER_S
_OLDEST_NS = clock.to_ns(datetime(limits.OLDEST_YEAR, 1, 1, tzinfo=UTC))  # for files whose own time is lost


class HookImporter:
    """Makes envelopes of one file after the other; a session keeps the project it was first seen in."""

    def __init__(self) -> None:
        """Start with no session seen."""
        self._projects: dict[str, str] = {}
        self._start_ns: dict[Path, int] = {}

    def envelope(self, record: Record) -> dict[str, Any]:
        """Return the envelope of a record. The same record of the same file gives the same ids later on."""
        value = record.value
        found = format_of(value)
        # the whole path: two files of one name count their equal facts apart
        source: dict[str, Any] = {
            "file": valid_text(str(record.file)),
            "offset": record.offset,
            "n": record.n,
        }
        received_at_ns = value.get("received_at_ns") if isinstance(value, dict) else None
        if not isinstance(received_at_ns, int) or isinstance(received_at_ns, bool) or received_at_ns <= 0:
            received_at_ns = self._spaced(record)
            source["time"] = "synthetic"
        if found is Format.ENVELOPE:
            return self._again(value, received_at_ns, source)
        payload = value["payload"] if found is Format.STAMPED else value
        agent = agent_of(payload)
        project_dir = self._project_dir(agent, payload)
        return capture.build_envelope(
            payload, received_at_ns=received_at_ns, agent=agent, project_dir=project_dir, source=source
        )

    def _again(self, value: dict[str, Any], received_at_ns: int, source: dict[str, Any]) -> dict[str, Any]:
        """Return an envelope of ours from elsewhere: redacted again by today's rules, with its own source if any."""
        clipped, own = value.get("clipped"), value.get("source")
        made = capture.build_envelope(
            value["payload"],
            received_at_ns=received_at_ns,
            agent=str(value["agent"]),
            project_dir=str(value.get("project_dir") or ""),
            project=str(value["project"]) if value.get("project") else None,
            format=str(value.get("format") or "") or None,
            source=own if isinstance(own, dict) and isinstance(own.get("file"), str) else source,
        )
        made["host"] = str(value.get("host") or made["host"])
        made["clipped"] = {**(clipped if isinstance(clipped, dict) else {}), **made["clipped"]}
        return made

    def _project_dir(self, agent: str, payload: Any) -> str:
        if not isinstance(payload, dict):
            return ""
        cwd = payload.get("cwd")
        session = f"{agent}\n{payload.get('session_id')}"
        if session in self._projects or not isinstance(cwd, str) or not cwd:
            return self._projects.get(session, "")
        return self._projects.setdefault(session, cwd)

    def _spaced(self, record: Record) -> int:
        """Return a time for a record without one: file order, 3 s apart, the last when the file was changed."""
        start_ns = self._start_ns.get(record.file)
        if start_ns is None:
            end_ns = record.file.stat().st_mtime_ns
            start_ns = max(end_ns - count_records(record.file) * _SPACING_NS, _OLDEST_NS)
            self._start_ns[record.file] = start_ns
        return start_ns + (record.n + 1) * _SPACING_NS


def agent_of(payload: Any) -> str:
    """Return which agent sent a payload: Codex names its turns and its rollout files."""
    if isinstance(payload, dict):
        path = payload.get("transcript_path")
        if isinstance(path, str) and ("/.codex/" in path or "/rollout-" in path):
            return "codex"
        if "turn_id" in payload and "model" in payload and "prompt_id" not in payload:
            return "codex"
    return "claude-code"
