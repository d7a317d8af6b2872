"""Journal lines as tests make them: envelopes around payloads, and the recorded ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from headwater.flows.normalise import normalise
from headwater.flows.parse import parse
from headwater.schemas.events import Draft, Dropped
from headwater.storage.journal import RawLine

DATA = Path(__file__).resolve().parent.parent / "data"
START_NS = 1_772_000_000_000_000_000  # February 2026
S = 1_000_000_000


def payload(name: str, **fields: Any) -> dict[str, Any]:
    """Return a Claude Code payload of session s1."""
    return {"session_id": "s1", "cwd": "/p", "hook_event_name": name, **fields}


def envelope(content: Any, at_s: float = 0.0, **fields: Any) -> dict[str, Any]:
    """Return a journal line's object around a payload, received `at_s` after START_NS."""
    return {
        "v": 1,
        "id": "d1",
        "received_at_ns": START_NS + int(at_s * S),
        "agent": "claude-code",
        "host": "h",
        "project_dir": "/p",
        "project": "/p",
        "format": "claude-hook",
        "source": None,
        "payload": content,
        "clipped": {},
        **fields,
    }


def encode(value: Any) -> bytes:
    """Return the JSON of an envelope without a newline."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def raw(data: bytes, offset: int = 0) -> RawLine:
    """Return a line as the journal's reader gives it."""
    return RawLine("f@1", offset, data)


def told(content: Any, at_s: float = 0.0, offset: int = 0, **fields: Any) -> Draft | Dropped:
    """Return what a payload becomes, by way of a journal line."""
    records = parse(raw(encode(envelope(content, at_s, **fields)), offset))
    assert len(records) == 1
    [made] = normalise(records[0])
    return made


def drafted(content: Any, at_s: float = 0.0, offset: int = 0, **fields: Any) -> Draft:
    """Return the draft that a payload becomes."""
    made = told(content, at_s, offset, **fields)
    assert isinstance(made, Draft), made
    return made


def dropped(content: Any, **fields: Any) -> Dropped:
    """Return why a payload becomes no event."""
    made = told(content, **fields)
    assert isinstance(made, Dropped), made
    return made


def live() -> list[dict[str, Any]]:
    """Return the recorded payloads with their receive times, in order."""
    return read_jsonl(DATA / "claude_code_live.jsonl.gz")


def story() -> list[dict[str, Any]]:
    """Return the payloads of an invented project with their times, in order."""
    return read_jsonl(DATA / "story_en_pay.jsonl.gz")


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a gzipped file of lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def append(journal: Path, stamped: dict[str, Any], **fields: Any) -> None:
    """Append one stamped payload to its session's journal file."""
    content = stamped["payload"]
    line = envelope(content, received_at_ns=stamped["received_at_ns"], **fields)
    with (journal / f"claude-code-{content['session_id']}.jsonl").open("ab") as file:
        file.write(encode(line) + b"\n")
