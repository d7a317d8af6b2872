"""What agents really sent, played in order through the very command lines that `install` wrote."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent import BASE, answering
from import_bench import bring_in
from installed import handlers, install
from journal_lines import DATA, live, read_jsonl
from stage import Stage

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.storage.control import set_mode
from headwater.storage.home import Home
from headwater.surface.hook import read_failures
from headwater.surface.install_parts import EVENTS

PROJECT = "/home/dev/live/proj"
FIRST, CLEARED, AFTER_CLEAR, FORKED = "af004aec", "80ded3a5", "fec6f471", "035f7ddd"
ASKING = {"SessionStart", "UserPromptSubmit"}


class Player:
    """An agent that does what its settings say: each event to the command lines that stand there for it."""

    def __init__(self, settings: Path, env: dict[str, str]) -> None:
        self._handlers = handlers(settings.read_bytes())
        self._env = env
        self.calls = 0

    def play(self, payload: dict[str, Any]) -> str:
        """Send an event and return the context that came back, "" for none."""
        said = ""
        for handler in self._handlers.get(payload["hook_event_name"], []):
            self.calls += 1
            done = subprocess.run(
                ["sh", "-c", handler["command"]],
                input=json.dumps(payload).encode(),
                env=self._env,
                cwd="/",
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, b"")
            if done.stdout:
                answer = json.loads(done.stdout)["hookSpecificOutput"]
                assert answer.keys() == {"hookEventName", "additionalContext"}
                assert answer["hookEventName"] == payload["hook_event_name"]
                said += answer["additionalContext"]
        return said


@contextmanager
def patiently(patient: Path) -> Iterator[None]:
    """Let `install` write the line of a hook that waits for its answer: a slow machine must not change what is told."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "headwater.surface.install_places.hook_command",
            lambda home, agent: [BASE, "-I", "-S", str(patient), "--home", str(home), "--agent", agent],
        )
        yield


def read(opened: Home) -> None:
    """Run the flow to the end of the journal."""
    run_ingest(opened, IngestOptions(None, until_idle=True))


def test_claude_code_from_its_settings_to_memory(user: Path, opened: Home, patient: Path) -> None:
    """Every event once, in its session and turn; context where an agent takes it; nothing of ours comes back."""
    set_mode(opened, "endless")
    with patiently(patient):
        install(opened)
    player = Player(user / ".claude" / "settings.json", {"CLAUDE_PROJECT_DIR": PROJECT, "HOME": str(user)})
    payloads = [one["payload"] for one in live()]
    before, after = payloads[:48], payloads[48:]
    assert [player.play(one) for one in before] == [""] * 48  # nobody answers yet
    read(opened)
    told: dict[str, list[str]] = {}
    with answering(opened):
        for payload in after:
            said = player.play(payload)
            if said:
                told.setdefault(payload["hook_event_name"], []).append(said)
                assert "agent_id" not in payload
        start = {"hook_event_name": "SessionStart", "source": "startup", "cwd": PROJECT}
        fresh = [player.play({**start, "session_id": name}) for name in ("x1", "x2", "x1")]
        _send_back(player, fresh[0])
    assert player.calls == sum(one["hook_event_name"] in EVENTS["claude-code"] for one in payloads) + 7
    assert set(told) <= ASKING
    assert "Please write b.txt (DOMAIN test 안녕)" in told["SessionStart"][0]
    assert fresh[0] == fresh[1] == fresh[2] != ""
    assert read_failures(str(opened.root)) == 0
    read(opened)
    _check_events(Stage(opened.root))
    _check_fork(opened)


def _send_back(player: Player, context: str) -> None:
    """Play what an agent does with what it was told: quotes it, and asks us for more."""
    tool = {"hook_event_name": "PostToolUse", "session_id": "x1", "cwd": PROJECT}
    player.play({**tool, "tool_use_id": "a", "tool_name": "mcp__headwater__search", "tool_response": context})
    player.play({**tool, "tool_use_id": "b", "tool_name": "mcp__plugin_headwater_headwater__timeline"})
    player.play(
        {
            **tool,
            "tool_use_id": "c",
            "tool_name": "Bash",
            "tool_input": {"command": "headwater search DOMAIN"},
        }
    )
    prompt = f"{context}\nand what now?"
    player.play({**tool, "hook_event_name": "UserPromptSubmit", "prompt_id": "p", "prompt": prompt})


def _check_events(stage: Stage) -> None:
    """Compare the events with what the golden file says of each payload, and the recorded order of sessions."""
    rows = stage.rows()
    golden = [
        line.split()
        for line in (DATA / "claude_code_live.golden.txt").read_text(encoding="utf-8").splitlines()
    ]
    wanted = Counter(kind for _, _, fate, kind in golden if fate == "event")
    mine = [row for row in rows if row["session_id"] not in ("x1", "x2")]
    assert Counter(row["kind"] for row in mine) == wanted
    assert {row["project"] for row in rows} == {PROJECT}
    assert stage.fates().get("quarantined", 0) == 0

    def of(session: str) -> list[dict[str, Any]]:
        return [row for row in mine if row["session_id"].startswith(session)]

    starts = [row["role"] for row in of(FIRST) if row["kind"] == "session_start"]
    assert starts == [
        f"SessionStart:{source}" for source in ("startup", "resume", "resume", "resume", "compact")
    ]
    assert [row["content"] for row in of(FIRST) if row["kind"] == "prompt"][1:] == ["SAY hello twice"] * 2
    links = {
        row["session_id"][:8]: (row["prev_session_id"] or "")[:8] for row in mine if row["prev_session_id"]
    }
    assert links == {AFTER_CLEAR: CLEARED}
    assert next(row["role"] for row in of(FORKED)) == "SessionStart:fork"
    inner = {row["agent_id"] for row in mine if row["agent_id"]}
    assert inner == {"a07cb74b863583ea3", "a154eed7379b1bce2", "aafa50924f43dee22", "a04261880a2821652"}
    inside = [(row["kind"], row["turn_id"]) for row in of(FIRST) if row["agent_id"]]
    outside = {row["turn_id"] for row in of(FIRST) if row["kind"] == "response" and not row["agent_id"]}
    assert [kind for kind, _ in inside] == ["tool", "response"]
    assert {turn for _, turn in inside} < outside  # in the turn that it was sent out in
    turns = {row["turn_id"] for row in of(FIRST) if row["kind"] in ("prompt", "tool", "response")}
    assert len(turns) == 3
    back = [row for row in rows if row["session_id"] == "x1" and row["kind"] != "session_start"]
    assert [(row["kind"], row["content"].strip()) for row in back] == [("prompt", "and what now?")]
    assert not any("headwater-context" in row["content"] for row in rows)


def _check_fork(opened: Home) -> None:
    """No hook tells where a fork comes from; its transcript does, and adds what hooks do not tell."""
    logs = DATA / "claude_code_live_transcripts" / "-home-dev-live-proj"
    before = {row["id"] for row in Stage(opened.root).rows()}
    paths = [path for path in sorted(logs.glob("*.jsonl.gz")) if path.name.startswith((FIRST, FORKED))]
    bring_in(opened, *paths)
    rows = Stage(opened.root).rows()
    (start,) = [
        row for row in rows if row["session_id"].startswith(FORKED) and row["kind"] == "session_start"
    ]
    assert start["prev_session_id"].startswith(FIRST)
    more = [(row["kind"], row["content"]) for row in rows if row["id"] not in before]
    between, typed = "I will write a file and run a command.", "/compact keep the file names"
    assert more == [("response", between), ("prompt", typed)]
    assert before <= {row["id"] for row in rows}


def test_codex_from_its_hooks_file(user: Path, opened: Home, patient: Path) -> None:
    """Its five subscribed events, each once, under its own name, in its project."""
    with patiently(patient):
        install(opened, agent="codex")
    player = Player(user / ".codex" / "hooks.json", {"HOME": str(user)})
    payloads = [one["payload"] for one in read_jsonl(DATA / "codex_live" / "hook_events.jsonl.gz")]
    for payload in payloads * 2:  # installed twice
        player.play(payload)
    read(opened)
    rows = Stage(opened.root).rows()
    assert [row["kind"] for row in rows] == ["session_start", "prompt", "tool", "response", "session_end"]
    assert {(row["agent"], row["project"]) for row in rows} == {("codex", "/home/dev/live/cxproj")}
    assert rows[2]["tool"]["name"] == "Bash"
    assert len({row["turn_id"] for row in rows[1:4]}) == 1
