"""A home with two projects, made through the stores: what recall is tried on, by words alone."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from memory_rows import MemoryRows

from headwater.schemas import clock
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.events import Event, FileOp, FileRef, Kind
from headwater.storage.home import Home
from headwater.storage.tables import LanceStore

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
SECRET = "thornbush"  # stands in every text of the other project, and nowhere else


def event(name: str, content: str, minute: float, **more: Any) -> Event:
    """Return an event `evt_<name>` of project /p/one, so many minutes after the start."""
    values: dict[str, Any] = {
        "agent": "claude-code", "session_id": "s1", "project": "/p/one", "kind": Kind.PROMPT, "seq": 0, **more,
    }  # fmt: skip
    return Event(id=f"evt_{name}", content=content, at=AT + timedelta(minutes=minute), **values)


def recall_home(root: Path) -> Home:
    """Return a home with a session of 40 turns, one of them long, and the same of a stranger; a memory of each."""
    shutil.copytree(_model(), root)
    return Home.open(root)


@cache
def _model() -> Path:
    """Return the home that others are copies of, made once a process: making it takes a second or two."""
    folder = Path(tempfile.mkdtemp(prefix="headwater-recall-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _made(folder / "home").root


def _made(root: Path) -> Home:
    home = Home.open(root)
    lance = LanceStore(home.lance)
    events = []
    for project, session, word in (("/p/one", "s1", "webhook"), ("/p/two", "s2", SECRET)):
        of = {"project": project, "session_id": session}
        for n in range(40):
            name = f"{session}p{n}"
            files = (FileRef("src/retry.py", FileOp.EDIT),) if n % 10 == 0 else ()
            events.append(event(name, f"Why does the {word} retry number {n}?", 10 * n, files=files, **of))
            text = f"Because the {word} waits. 웹훅 재시도 {n}. "
            kind, parent = Kind.RESPONSE, f"evt_{name}"
            events.append(event(f"{session}r{n}", text, 10 * n + 1, kind=kind, parent_id=parent, **of))
        long = "\n".join(f"line {n} of the {word} log: 재시도 하나 둘 셋" for n in range(1500))
        events.append(event(f"{session}long", long, 500, kind=Kind.TOOL, **of))
    lance.open(EVENTS).add(events_to_arrow(events))
    rows = MemoryRows(lance)
    rows.memory("one", "The webhook waits for the ledger.", 401, source_events=["evt_s1p39", "evt_s1r39"])
    rows.memory("two", f"The {SECRET} waits.", 401, project="/p/two", source_events=["evt_s2p39"])
    rows.session("s1", "Asked about webhook retries.", 402)
    rows.session("s2", f"Asked about {SECRET}.", 402, project="/p/two")
    now = clock.SYSTEM.now()  # what is active is so now
    active: dict[str, Any] = {"at": now, "added_at": now, "expires_at": now + timedelta(hours=24)}
    rows.member("s1p39", **active)
    rows.member("s2p39", project="/p/two", session_id="s2", topics=[SECRET], **active)
    return home
