"""Context through the real hook process: what an agent gets on stdout."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agent import RETRY, Agent, Past, answering

from headwater.query.budget import estimate_tokens
from headwater.schemas import clock, limits
from headwater.storage.control import set_mode
from headwater.storage.home import Home
from headwater.storage.usage import Usage
from headwater.surface.operations import OPERATIONS, Context


@pytest.mark.parametrize("name", ["claude-code", "codex"])
@pytest.mark.parametrize("source", ["startup", "clear", "compact", "fork"])
def test_a_start_is_told_all(agent: Agent, made: Home, past: Past, source: str, name: str) -> None:
    """At each kind of start active events, memories and continuity are told, to each agent in the same shape."""
    with answering(made):
        text = Agent(made, name, agent.script).start(source)
    assert RETRY in text
    assert "five attempts with jitter" in text
    assert "seamless, score 0.80" in text
    assert agent.lines()[0]["payload"]["source"] == source


def test_twice_without_a_new_event_it_is_the_same_bytes(agent: Agent, made: Home, past: Past) -> None:
    """The same question gives the same bytes, for the same and for another session, after a restart too."""
    with answering(made):
        first = agent.start()
        assert first
        assert agent.start() == first
        assert agent.start(session="other") == first
        prompt = agent.prompt("how does the docker image get smaller, with slim debian?", "third")
        assert prompt
        assert agent.prompt("how does the docker image get smaller, with slim debian?", "third") == prompt
    with answering(made):  # a server that was started again
        assert agent.prompt("how does the docker image get smaller, with slim debian?", "third") == prompt
        assert agent.start("startup") == first


def test_nothing_moves_with_the_clock(
    agent: Agent, made: Home, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days later, with no new event, a new session is told the same bytes."""
    with answering(made):
        first = agent.start()
        monkeypatch.setattr(clock, "SYSTEM", clock.FakeClock(clock.SYSTEM.now() + timedelta(days=3)))
        assert agent.start(session="monday") == first != ""


def test_what_was_told_is_not_told_again(agent: Agent, made: Home, past: Past) -> None:
    """After its start a session is told nothing twice, whatever it asks, also after a restart."""
    with answering(made):
        assert RETRY in agent.start()
        assert agent.prompt("how often is a webhook delivery retried with jitter?") == ""
    with answering(made):
        assert agent.prompt("retry a webhook delivery with jitter, how often?") == ""
        past.event("c", "the signature header holds a timestamp", 5)
        past.rows.turn("c", 0.7, 5)
        news = agent.prompt("and now the signature please, with a timestamp")
        assert "signature header" in news
        assert RETRY not in news


@pytest.mark.parametrize("source", ["clear", "compact", "startup"])
def test_an_emptied_context_is_told_again(agent: Agent, made: Home, past: Past, source: str) -> None:
    """Clear and compact forget what was told: the agent forgot it as well."""
    with answering(made):
        assert RETRY in agent.start()
        assert RETRY in agent.start(source)


def test_after_a_compaction_the_sessions_own_past_is_told(agent: Agent, made: Home, past: Past) -> None:
    """What a session did before its context was compacted is told to it, not before that."""
    past.event("own", "the ledger rounds half to even", 3, session="new")
    with answering(made):
        assert "ledger" not in agent.prompt("what of the ledger, does it round half to even?")
        assert "ledger" in agent.start("compact")


def test_a_resumed_session_is_told_only_what_is_new(agent: Agent, made: Home, past: Past) -> None:
    """On resume nothing is told but what happened elsewhere since the session last did something."""
    past.event("own", "the ledger rounds half to even", 10, session="new")
    with answering(made):
        assert agent.start("resume") == ""
        past.event("c", "the signature header holds a timestamp", 20)
        past.rows.turn("c", 0.7, 20)
        news = agent.start("resume")
        assert "signature header" in news
        assert RETRY not in news
        assert agent.start("resume") == news
        assert "signature header" not in agent.prompt("what of the signature header and its timestamp?")


def test_fifty_huge_items_keep_within_the_budget(agent: Agent, made: Home, past: Past) -> None:
    """Tokens keep within `retrieval.max_tokens` and characters within what agents take, in both modes."""
    for n in range(50):
        text = f"{n} " + ("결제 토큰 만료 " if n % 2 else "retry webhook `a.b(c)` ") * 3000
        past.event(f"h{n}", text[: limits.CONTENT_CHARS], 10 + n / 10)
        past.rows.memory(f"h{n}", f"Asked: {text[:900]}\nFound: {text[:900]}", 10 + n / 10)
    for mode in ("endless", "session"):
        set_mode(made, mode)
        for max_tokens in (100, 400, limits.INJECT_TOKENS_MAX):
            made.config_file.write_text(f"[retrieval]\nmax_tokens = {max_tokens}\n", encoding="utf-8")
            with answering(made):
                for text in (
                    agent.start(),
                    agent.prompt("retry webhook 결제 토큰 만료", f"{mode}{max_tokens}"),
                ):
                    assert text or max_tokens == 100
                    assert estimate_tokens(text) <= max_tokens
                    assert len(text) <= limits.INJECT_CHARS


def test_a_session_has_a_cap(agent: Agent, made: Home, past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """When INJECT_SESSION_TOKENS were told, nothing more is, until the context is emptied."""
    with answering(made):
        spent_tokens = estimate_tokens(agent.start())
        monkeypatch.setattr(limits, "INJECT_SESSION_TOKENS", spent_tokens + limits.INJECT_TOKENS_MIN - 1)
        past.event("c", "the signature header holds a timestamp", 5)
        past.rows.turn("c", 0.7, 5)
        assert agent.prompt("and now the signature please") == ""
        assert "signature header" in agent.start("clear")


def test_ten_rounds_of_inject_and_capture_add_nothing(agent: Agent, made: Home, past: Past) -> None:
    """What was told comes back in prompts, answers and tool output, and leaves no trace in the journal."""
    told = ""
    with answering(made):
        for n in range(10):
            told += agent.start("clear", f"s{n}")
            wrapped = f"<system-reminder>\nSessionStart hook additional context: {told}\n</system-reminder>"
            agent.call("UserPromptSubmit", f"s{n}", prompt=f"hello {wrapped} {n}")
            agent.call("Stop", f"s{n}", last_assistant_message=f"done {told} {n}")
            agent.call(
                "PostToolUse", f"s{n}", tool_name="Bash", tool_use_id=f"t{n}", tool_input={"command": "cat log"},
                tool_response={"stdout": wrapped + told, "stderr": ""},
            )  # fmt: skip
    assert RETRY in told
    journal = b"".join(path.read_bytes() for path in made.journal.glob("claude-code-s*.jsonl"))
    assert b"headwater-context" not in journal
    assert b"jitter" not in journal
    by_round = [len(json.dumps(line["payload"])) for line in agent.lines() if "prompt" in line["payload"]]
    assert len(set(by_round)) == 1


def test_silent_when_nothing_is_good(agent: Agent, made: Home, past: Past) -> None:
    """A prompt that nothing matches is answered with nothing, not with an empty frame, in both modes."""
    with answering(made):
        agent.start()
        for mode in ("endless", "session"):
            set_mode(made, mode)
            assert agent.prompt("why is the sky over the harbour so green in winter mornings?") == ""
            assert agent.prompt("go on") == ""
            assert agent.prompt("") == ""


def test_another_project_is_told_nothing(agent: Agent, made: Home, past: Past) -> None:
    """A session in another folder gets nothing of this project."""
    with answering(made):
        assert agent.call("SessionStart", cwd="/p/two", source="startup") == ""


def test_only_two_events_ask(agent: Agent, made: Home, past: Past) -> None:
    """Other events, and those of a sub-agent, print nothing, with a server that has something to tell."""
    with answering(made):
        for event in ("Stop", "PostToolUse", "SessionEnd", "PreCompact", "SubagentStart"):
            assert agent.call(event, source="startup", prompt=RETRY) == ""
        assert agent.call("SessionStart", source="startup", agent_id="sub") == ""


def test_session_mode_tells_lines_of_a_search(agent: Agent, made: Home, past: Past) -> None:
    """In session mode a prompt is told one line per good match, a start the newest sessions and memories."""
    set_mode(made, "session")
    with answering(made):
        start = agent.start()
        assert "Earlier sessions:" in start
        assert "five attempts" in start
        assert "Active now" not in start
        found = agent.prompt("how often must the webhook worker retry a delivery?")
        assert f"prompt: {RETRY} (evt_a)" in found


def test_a_home_with_a_long_path_is_found(patient: Path, tmp_path: Path) -> None:
    """The socket of a home whose path is too long for one lies elsewhere, and the hook finds it."""
    far = Home.open(tmp_path / ("long" * 40))
    set_mode(far, "endless")
    Past(far).event("a", RETRY)
    with answering(far):
        assert far.socket.parent != far.run
        assert RETRY in Agent(far, script=patient).start()


def test_memories_that_were_told_are_counted_as_read(agent: Agent, made: Home, past: Past) -> None:
    """A memory that was told has one more access, once, however often the same answer is given."""
    with answering(made):
        agent.prompt("how does the docker image get smaller, with slim debian?")
        agent.prompt("how does the docker image get smaller, with slim debian?")
    with closing(Usage(made.usage_file)) as usage:
        assert {id_: one.access_count for id_, one in usage.accesses(["mem_n", "mem_m"]).items()} == {
            "mem_n": 1
        }


def test_a_redacted_prompt_is_sent(
    agent: Agent, made: Home, past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is private in a prompt does not reach the server either."""
    seen: list[dict[str, Any]] = []
    real = OPERATIONS["context"]

    def look(context: Context, args: dict[str, Any]) -> dict[str, Any]:
        seen.append(args)
        return real(context, args)

    monkeypatch.setitem(OPERATIONS, "context", look)
    with answering(made):
        agent.prompt("retry <private>hunter2</private> the webhook")
    assert "hunter2" not in json.dumps(seen)
    assert "webhook" in seen[0]["prompt"]
