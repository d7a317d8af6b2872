"""Events of a project for the tests of what is derived from them: by hand, generated, and of a story."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import strategies as st

from headwater.flows.normalise import normalise
from headwater.flows.parse import parse
from headwater.flows.project_memory import in_order
from headwater.schemas.events import Draft, Event, FileOp, FileRef, Kind
from headwater.storage.journal import RawLine

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
STORY = Path(__file__).resolve().parents[1] / "data" / "story_en_pay.jsonl.gz"
TEXTS = (
    "the webhook worker must retry each delivery five times with jitter and exponential backoff",
    "webhook deliveries now retry 8 times with jitter, backoff lives in app/webhooks/worker.py",
    "docker image of the build is too large, alpine base with musl wheels instead of debian",
    "forget alpine, the slim debian image builds without musl wheels",
    "결제 토큰을 레디스에 저장하고 만료 시간은 60초로 두자",
    "토큰 만료 시간을 5분으로 바꾸자 레디스 저장은 그대로",
    "タイルのキャッシュ上限を512 MiBにして、古いタイルは消す",
    "离线缓存的上限改成200MB，断电后自动恢复",
    "go on",
    "",
)


def event(
    id_: str,
    kind: Kind = Kind.PROMPT,
    content: str = "",
    *,
    at_s: float = 0.0,
    session: str = "s1",
    turn: str | None = "t1",
    files: tuple[str, ...] = (),
    agent_id: str | None = None,
    seq: int = 0,
) -> Event:
    """Return one event of the project /p, so many seconds after the start; its files were edited."""
    return Event(
        id_,
        "claude-code",
        session,
        "/p",
        AT + timedelta(seconds=at_s),
        kind,
        content,
        turn_id=turn,
        agent_id=agent_id,
        seq=seq,
        files=tuple(FileRef(path, FileOp.EDIT) for path in files),
    )


def turn(name: str, asked: str, answered: str, *, at_s: float = 0.0, session: str = "s1") -> list[Event]:
    """Return a prompt, an edit and an answer, a minute apart."""
    return [
        event(f"{name}-p", Kind.PROMPT, asked, at_s=at_s, session=session, turn=name),
        event(
            f"{name}-t", Kind.TOOL, "Edit a.py", at_s=at_s + 60, session=session, turn=name, files=("a.py",)
        ),
        event(f"{name}-r", Kind.RESPONSE, answered, at_s=at_s + 120, session=session, turn=name),
    ]


def story() -> list[Event]:
    """Return the events of the payments story, in order."""
    with gzip.open(STORY, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    found = []
    for offset, line in enumerate(lines):
        envelope = {
            "v": 1, "id": str(offset), "received_at_ns": line["received_at_ns"], "agent": "claude-code", "host": "h",
            "project_dir": "/p", "project": line["payload"]["cwd"], "format": "claude-hook", "source": None,
            "payload": line["payload"], "clipped": {},
        }  # fmt: skip
        for record in parse(RawLine("story.jsonl", offset, json.dumps(envelope).encode())):
            found += [one.event for one in normalise(record) if isinstance(one, Draft) and one.event.id]
    return in_order(found)


_KINDS = st.sampled_from(
    [Kind.PROMPT, Kind.RESPONSE, Kind.TOOL, Kind.TOOL, Kind.NOTE, Kind.SESSION_START, Kind.SESSION_END]
)


@st.composite
def projects(draw: st.DrawFn) -> list[Event]:
    """Return events of a few sessions side by side, in order: pauses of seconds to weeks, turns that never end."""
    drawn = draw(
        st.lists(
            st.tuples(
                _KINDS,
                st.sampled_from(TEXTS),
                st.sampled_from(["s1", "s2", "s3"]),
                st.sampled_from([0, 1, 30, 600, 1800, 1801, 3600, 8000, 90_000, 1_300_000]),
                st.integers(0, 3),
            ),
            max_size=40,
        )
    )
    at_s, turns = 0.0, {"s1": 0, "s2": 0, "s3": 0}
    events = []
    for n, (kind, text, session, pause_s, back) in enumerate(drawn):
        at_s += pause_s
        turns[session] += kind is Kind.PROMPT
        name = f"{session}-{max(0, turns[session] - (0 if kind is Kind.PROMPT else back))}"
        is_border = kind in (Kind.SESSION_START, Kind.SESSION_END)
        events.append(
            event(
                f"e{n}",
                kind,
                "" if is_border else text,
                at_s=at_s,
                session=session,
                turn=None if is_border or back == 3 else name,
                files=("app/x.py",) if kind is Kind.TOOL else (),
                agent_id="sub" if back == 2 else None,
                seq=n,
            )
        )
    return in_order(events)
