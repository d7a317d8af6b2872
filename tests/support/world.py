"""A seeded world: facts, the odd ways in which their lines reach a journal, and what must be true in the end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory_check import check_memory

from headwater.schemas.columns import EVENTS
from headwater.schemas.events import Fate, ItemKind
from headwater.storage.home import Home
from headwater.storage.known_ids import KnownIds
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore
from headwater.storage.vectors import VectorStore
from headwater.surface import capture

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
WORDS = (
    "ledger",
    "webhook",
    "retry",
    "migration",
    "타임아웃",
    "冪等",
    "rounding",
    "deadlock",
    "index",
    "cursor",
)


@dataclass
class World:
    """One run: a home, a source of chance, and what was told so far."""

    root: Path
    seed: int
    chance: random.Random = field(init=False)
    home: Home = field(init=False)
    facts: set[tuple[str, str]] = field(default_factory=set)  # (session, own id) of every event there must be
    texts: int = 0
    lines: int = 0
    bad: int = 0
    number: int = 0
    torn: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the home."""
        self.chance = random.Random(self.seed)
        self.home = Home.open(self.root)

    def tell(self, count: int, *, finish: bool = True) -> None:
        """Append `count` lines: new facts, repeated ones, calls before and after, noise, torn and broken ones.

        Without `finish`, lines that a stopped writer left torn stay so until the next round.
        """
        sessions = [f"s{n}" for n in range(self.chance.randint(1, 4))]
        sent: list[tuple[str, dict[str, Any]]] = []
        for _ in range(count):
            session = self.chance.choice(sessions)
            dice = self.chance.random()
            if dice < 0.12 and sent:
                self._write(
                    *self.chance.choice(sent)
                )  # the same payload again: installed twice, or delivered twice
            elif dice < 0.18:
                self._write(
                    session, {"hook_event_name": "MessageDisplay", "session_id": session, "delta": "hi"}
                )
            elif dice < 0.23:
                self._broken(session)
            else:
                payload = self._fact(session)
                sent.append((session, payload))
                self._write(session, payload)
        for session in list(self.torn) if finish else []:
            self._finish(session)

    def tell_broken(self) -> None:
        """Append a line that cannot be used."""
        self._broken("s0")

    def _fact(self, session: str) -> dict[str, Any]:
        self.number += 1
        own = f"{session}-{self.number}"
        text = " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, 12))) + f" n{self.number}"
        payload: dict[str, Any] = {
            "session_id": session,
            "cwd": "/home/dev/p",
            "prompt_id": f"turn-{self.number // 5}",
        }
        if self.chance.random() < 0.4:
            payload |= {"hook_event_name": "UserPromptSubmit", "prompt": text, "prompt_id": own}
        else:
            name = self.chance.choice(("PostToolUse", "PostToolUse", "PreToolUse", "PostToolUseFailure"))
            payload |= {"hook_event_name": name, "tool_name": "Bash", "tool_use_id": own}
            payload |= {"tool_input": {"command": text}}
            if name == "PostToolUse":
                payload["tool_response"] = {"stdout": text * self.chance.choice((1, 1, 40)), "stderr": ""}
            elif name == "PostToolUseFailure":
                payload["error"] = "Exit code 3"
            if name != "PreToolUse" and self.chance.random() < 0.3:
                before = {
                    key: value for key, value in payload.items() if key not in ("tool_response", "error")
                }
                self._write(session, before | {"hook_event_name": "PreToolUse"})
        self.facts.add((session, own))
        return payload

    def _write(self, session: str, payload: dict[str, Any]) -> None:
        self._finish(session)
        self.lines += 1
        at = START + timedelta(seconds=self.chance.uniform(-30, 30) + self.lines)
        envelope = capture.build_envelope(
            payload,
            agent="claude-code",
            received_at_ns=int(at.timestamp() * 1e9),
            project_dir="/home/dev/p",
            project="/p",
        )
        line = capture.encode_line(envelope)
        if self.chance.random() < 0.1:  # a writer is stopped in the middle of its line, and goes on later
            cut = self.chance.randint(1, len(line) - 1)
            self._append(session, line[:cut])
            self.torn[session] = line[cut:]
            return
        self._append(session, line)

    def _broken(self, session: str) -> None:
        self._finish(session)
        junk = self.chance.choice(
            (b"not json\n", b'{"v":2}\n', b'{"v":1,"agent":\n', b"[1,2]\n", b"\xff\xfe{}\n")
        )
        self._append(session, junk)
        self.lines += 1
        self.bad += 1
        if self.chance.random() < 0.3:
            self._append(session, b"\n")  # a blank line is nothing

    def _finish(self, session: str) -> None:
        if session in self.torn:
            self._append(session, self.torn.pop(session))

    def _append(self, session: str, data: bytes) -> None:
        with (self.home.journal / capture.journal_name("claude-code", session)).open("ab") as file:
            file.write(data)

    def check(self) -> None:
        """Fail unless every fact is stored once, every line has one fate, and every text one vector set."""
        table = LanceStore(self.home.lance).open(EVENTS, create=False)
        rows = table.scan(["id", "session_id", "turn_id", "tool", "kind", "content", "content_hash"])
        found = [
            (r["session_id"], r["tool"]["use_id"] if r["kind"] == "tool" else r["turn_id"])
            for r in rows.to_dicts()
        ]
        assert sorted(found) == sorted(self.facts), self._why("facts are lost or stored twice")
        known = KnownIds(self.home.ids_file)
        fates = known.count_fates()
        assert known.count_ids() == len(self.facts), self._why("known ids differ from the table")
        assert known.intents() == [], self._why("an intent was left")
        known.close()
        assert sum(fates.values()) == self.lines, self._why(
            f"lines without one fate: {fates}, wrote {self.lines}"
        )
        assert fates[Fate.QUARANTINED] == self.bad, self._why(f"wanted {self.bad} quarantined: {fates}")
        version = self.home.current().embedding_version
        assert version is not None
        sets = VectorStore(self.home).item_ids(version)
        wanted = rows.select("id", "content_hash").rows()
        have = sets.filter(sets["item_kind"] == ItemKind.ENTRY.value).select("item_id", "content_hash").rows()
        assert sorted(have) == sorted(wanted), self._why("vector sets differ from the items")
        outbox = VectorOutbox(self.home.outbox_file)
        jobs = outbox.counts(version)
        outbox.close()
        assert (jobs.pending, jobs.processing, jobs.failed) == (0, 0, 0), self._why(f"jobs are left: {jobs}")
        check_memory(self.home, self._why("memory differs from what the events give"))

    def _why(self, what: str) -> str:
        return f"{what} (seed {self.seed})"
