"""The question sets of the retrieval benchmark: documents as events, questions with gold event ids.

A set is one home; a group in it is one project: one conversation, chat, story or recorded project. How documents and
gold are counted: LoCoMo, document `Speaker: text [shares image: caption]`, gold by turn; BEAM, document a message,
gold by message, asked among all messages and among those of the user; DevMemBench, gold by session; stories and our
own set, gold by event, through the real ingest flow.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headwater.schemas.events import Event, Kind
from headwater.schemas.ids import content_hash

LOCOMO_KINDS = {1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: "adversarial"}
_START = datetime(2025, 1, 6, 9, tzinfo=UTC)
_STEP = timedelta(seconds=30)


@dataclass(frozen=True)
class Question:
    """A question; `gold`: event ids, of any or all of which it is answered; `sessions`: those they lie in.

    `project` None: asked among all; `kinds`: event kinds that it is asked among, empty: all; `block`: figures are
    counted apart for each.
    """

    id: str
    text: str
    project: str | None
    gold: frozenset[str]
    sessions: frozenset[str]
    kind: str
    lang: str = "en"
    kinds: tuple[str, ...] = ()
    block: str = "all"
    part: str = "tune"


@dataclass
class DataSet:
    """Events of all groups, questions, and hook or transcript files to be ingested in place of events."""

    name: str
    events: list[Event] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)


def _json(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def event(group: str, session: str, n: int, kind: Kind, *, text: str, at: datetime) -> Event:
    """Return one message as an event of a group's project."""
    return Event(
        id=f"evt_{group}_{session}_{n}",
        agent="claude-code",
        session_id=f"{group}-{session}",
        project=f"/bench/{group}",
        at=at,
        kind=kind,
        seq=n,
        content=text,
        content_length=len(text),
        content_hash=content_hash(text),
    )


def locomo(path: Path) -> DataSet:
    """Return LoCoMo; the first two conversations are for tuning, the others apart."""
    found = DataSet("locomo")
    for number, talk in enumerate(_json(path)):
        group, part = f"locomo{number + 1}", "tune" if number < 2 else "apart"
        chat, ids, sessions = talk["conversation"], {}, {}
        for name in sorted((k for k in chat if k.startswith("session_") and k[8:].isdigit()), key=_number):
            at = datetime.strptime(chat[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            for n, turn in enumerate(chat[name]):
                kind = Kind.PROMPT if turn["speaker"] == chat["speaker_a"] else Kind.RESPONSE
                image = f" [shares image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
                text = f"{turn['speaker']}: {turn['text']}{image}"
                one = event(group, name, n, kind, text=text, at=at + n * _STEP)
                found.events.append(one)
                ids[turn["dia_id"]], sessions[turn["dia_id"]] = one.id, one.session_id
        for n, row in enumerate(talk["qa"]):
            evidence = [part_ for text in row["evidence"] for part_ in text.replace(";", " ").split()]
            gold = [one for one in evidence if one in ids]
            if gold:
                found.questions.append(
                    Question(
                        f"{group}-q{n}",
                        row["question"],
                        f"/bench/{group}",
                        frozenset(ids[one] for one in gold),
                        frozenset(sessions[one] for one in gold),
                        LOCOMO_KINDS[row["category"]],
                        part=part,
                    )
                )
    return found


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


def beam(path: Path) -> DataSet:
    """Return BEAM; chats 1 to 3 are for tuning. Each question is asked among all messages and among the user's."""
    found = DataSet("beam")
    files = sorted(path.glob("100K-*.json.gz")) if path.is_dir() else [path]
    for file in files:
        number = int(file.name.split("-")[1].split(".")[0])
        data, group = _json(file), f"beam{number}"
        part = "tune" if number <= 3 else "apart"
        users, sessions = set(), {}
        n = 0
        for batch in data["chat"]:
            for turn in batch["turns"]:
                for message in turn:
                    kind = Kind.PROMPT if message["role"] == "user" else Kind.RESPONSE
                    session = f"b{batch['batch_number']}"
                    at = _START + timedelta(days=int(batch["batch_number"])) + n * _STEP
                    one = event(group, session, message["id"], kind, text=message["content"], at=at)
                    found.events.append(one)
                    sessions[message["id"]] = one
                    users |= {message["id"]} if kind is Kind.PROMPT else set()
                    n += 1
        for kind_name, rows in data["probing_questions"].items():
            for m, row in enumerate(rows):
                wanted = [one for one in _flat(row.get("source_chat_ids") or []) if one in sessions]
                for block, gold in (("all", wanted), ("user", [one for one in wanted if one in users])):
                    if gold or (kind_name == "abstention" and not wanted):
                        found.questions.append(
                            Question(
                                f"{group}-{kind_name}-{m}-{block}",
                                row["question"],
                                f"/bench/{group}",
                                frozenset(sessions[one].id for one in gold),
                                frozenset(sessions[one].session_id for one in gold),
                                kind_name,
                                kinds=("prompt",) if block == "user" else (),
                                block=block,
                                part=part,
                            )
                        )
    return found


def _flat(value: Any) -> list[int]:
    if isinstance(value, dict):
        return _flat(list(value.values()))
    if isinstance(value, list):
        return [one for item in value for one in _flat(item)]
    return [int(value)] if isinstance(value, int) or (isinstance(value, str) and value.isdigit()) else []


def devmembench(path: Path) -> DataSet:
    """Return DevMemBench, all sessions one project; gold is a question's sessions, all messages of each."""
    folder = path if path.is_dir() else path.parent
    found = DataSet("devmembench")
    for number, session in enumerate(_json(folder / "sessions.json")):
        for n, message in enumerate(session["messages"]):
            kind = Kind.PROMPT if message["role"] == "user" else Kind.RESPONSE
            at = datetime.fromisoformat(session["metadata"]["date"]).replace(tzinfo=UTC)
            at += timedelta(minutes=number) + n * _STEP
            text = message["content"]
            found.events.append(event("dev", session["sessionId"], n, kind, text=text, at=at))
    for row in _json(folder / "questions.json"):
        sessions = frozenset(f"dev-{one}" for one in row["haystackSessionIds"])
        gold = frozenset(one.id for one in found.events if one.session_id in sessions)
        found.questions.append(
            Question(row["questionId"], row["question"], "/bench/dev", gold, sessions, row["questionType"])
        )
    return found


def stories(path: Path) -> DataSet:
    """Return the stories of a folder; en-pay and ko-chat are for tuning."""
    found = DataSet("stories")
    folders = [path] if (path / "events.jsonl").exists() else sorted(p for p in path.iterdir() if p.is_dir())
    for folder in folders:
        found.paths.append(folder / "events.jsonl")
        part = "tune" if folder.name in {"en-pay", "ko-chat"} else "apart"
        for row in json_lines(folder / "questions.jsonl"):
            found.rows.append({**row, "block": folder.name, "part": part})
    return found


def own(path: Path, data: Path) -> list[DataSet]:
    """Return our own questions, a set for each recorded project, asked among all projects of its home.

    Every second question of a kind and project is kept apart.
    """
    file = path / "questions.jsonl" if path.is_dir() else path
    found = {
        "spotter": DataSet("own-spotter", paths=[data / "claude-code-spotter-en"]),
        "repiq": DataSet("own-repiq", paths=[data / "claude-code-repiq-ja"]),
        "claude-code-live": DataSet("own-live", paths=[data / "claude-code-live" / "hook_events.jsonl.gz"]),
    }
    seen: dict[tuple[str, str], int] = {}
    for row in json_lines(file):
        key = (row["project"], row["kind"])
        seen[key] = seen.get(key, 0) + 1
        part = "tune" if seen[key] % 2 else "apart"
        found[row["project"]].rows.append({**row, "block": row["project"], "part": part})
    return list(found.values())
