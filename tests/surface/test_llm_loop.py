"""Summaries in a model's words: off unless asked for, beside the extract, never in its way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent import wait_for
from memory_rows import PROJECT, MemoryRows, minutes
from stub_llm import Stub, chat, endpoint

from headwater.schemas import clock, limits
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.events import Event, Kind
from headwater.storage.home import Home
from headwater.storage.llm_texts import LlmTexts
from headwater.storage.tables import LanceStore
from headwater.surface import doctor, status
from headwater.surface.llm_loop import LlmLoop, summarise_new
from headwater.surface.operations import OPERATIONS, Context

GO_ON = threading.Event()


@pytest.fixture
def stub() -> Iterator[Stub]:
    """An endpoint."""
    with endpoint() as made:
        yield made


@pytest.fixture
def kept(home: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with three memories, the last of long ago, whose settings name the endpoint."""
    monkeypatch.setattr(clock, "SYSTEM", clock.FakeClock(minutes(60)))
    made = Home.open(home)
    lance = LanceStore(made.lance)
    said = [
        ("a", Kind.PROMPT, "retry it"),
        ("b", Kind.TOOL, "raw output"),
        ("c", Kind.RESPONSE, "done, 8 times"),
    ]
    events = [
        Event(f"evt_{name}", "claude-code", "s1", PROJECT, minutes(n), kind, text)
        for n, (name, kind, text) in enumerate(said)
    ]
    lance.open(EVENTS).add(events_to_arrow(events))
    rows = MemoryRows(lance)
    rows.memory("m", "Asked: retry it.", 0, source_events=["evt_c", "evt_a", "evt_b"])
    rows.memory("n", "Asked: more.", 5)
    rows.memory("old", "Asked: long ago.", -limits.LLM_NEW_S / 60 - 60)
    switch(made, stub)
    return made


def switch(home: Home, stub: Stub, *, on: bool = True, timeout_ms: int = 20_000) -> None:
    """Write the settings."""
    home.config_file.write_text(
        f'[endless.consolidation]\nuse_llm_summarization = {str(on).lower()}\nllm_url = "{stub.url}"\n'
        f'llm_model = "small"\nllm_timeout_ms = {timeout_ms}\n',
        encoding="utf-8",
    )


def texts(home: Home) -> LlmTexts:
    """Return the texts of a home."""
    return LlmTexts(home.llm_file)


def test_off_unless_asked_for(kept: Home, stub: Stub) -> None:
    """By default nothing leaves the machine, and nothing is said about it."""
    kept.config_file.unlink()
    assert summarise_new(kept, texts(kept), GO_ON) == 0
    assert stub.asked == []
    assert status.llm_state(kept) is None
    assert list(doctor._llm(kept)) == []


def test_new_memories_get_a_text_beside_their_extract(kept: Home, stub: Stub) -> None:
    """The newest first, each once; what was said is sent, output of tools is not; the extract stays what it is."""
    assert summarise_new(kept, texts(kept), GO_ON) == 2
    assert summarise_new(kept, texts(kept), GO_ON) == 0
    sent = [asked["messages"][1]["content"] for asked in stub.asked]
    assert sent == ["Asked: more.", "Asked: retry it.\n\nprompt: retry it\n\nresponse: done, 8 times"]
    args = {"project": PROJECT, "top_k": 3, "text": True}
    answer = OPERATIONS["memories"](Context(kept), args)
    assert [(row["summary"], row["llm_summary"]) for row in answer["memories"]] == [
        ("Asked: more.", "In short: it works."),
        ("Asked: retry it.", "In short: it works."),
        ("Asked: long ago.", None),
    ]
    assert "In a model's words: In short: it works." in answer["text"]
    assert status.llm_state(kept) == {"summaries": 2, "error": None}
    assert [check.level for check in doctor._llm(kept)] == ["ok"]


def test_a_changed_memory_is_asked_for_again(kept: Home, stub: Stub) -> None:
    """The text of an older content is not shown, and a new one is asked for."""
    summarise_new(kept, texts(kept), GO_ON)
    MemoryRows(LanceStore(kept.lance)).memory("n", "Asked: more, and then some.", 5)
    rows = OPERATIONS["memories"](Context(kept), {"project": PROJECT})["memories"]
    assert rows[0]["llm_summary"] is None
    assert summarise_new(kept, texts(kept), GO_ON) == 1


def test_a_models_words_are_cleaned(kept: Home, stub: Stub) -> None:
    """Secrets and our own tags do not come in through a model either."""
    tags = "<private>x</private> <headwater-context>y</headwater-context>"
    stub.body = chat(f"key sk-ant-api03-{'a1B2' * 24} {tags} ok")
    summarise_new(kept, texts(kept), GO_ON)
    row = OPERATIONS["memories"](Context(kept), {"project": PROJECT})["memories"][0]
    assert "sk-ant" not in row["llm_summary"]
    assert "<" not in row["llm_summary"]
    assert row["llm_summary"].endswith("ok")


@pytest.mark.parametrize("how", ["error", "garbage", "slow", "no model"])
def test_it_falls_back_and_says_so(kept: Home, stub: Stub, how: str) -> None:
    """When no text comes the extract stands alone, and status and doctor say why, until one comes."""
    if how == "error":
        stub.status = 500
    elif how == "garbage":
        stub.body = b"garbage"
    elif how == "slow":
        stub.pause_s = 30.0
        switch(kept, stub, timeout_ms=200)
    else:
        kept.config_file.write_text(
            "[endless.consolidation]\nuse_llm_summarization = true\n", encoding="utf-8"
        )
    with pytest.raises(HeadwaterError):
        summarise_new(kept, texts(kept), GO_ON)
    rows = OPERATIONS["memories"](Context(kept), {"project": PROJECT})["memories"]
    assert [row["summary"] for row in rows[:2]] == ["Asked: more.", "Asked: retry it."]
    assert [row["llm_summary"] for row in rows] == [None] * 3
    state = status.llm_state(kept)
    assert state is not None
    assert state["error"]
    (check,) = doctor._llm(kept)
    assert (check.level, bool(check.fix)) == ("warn", True)
    stub.status, stub.body, stub.pause_s = 200, chat("fine"), 0.0
    switch(kept, stub)
    assert summarise_new(kept, texts(kept), GO_ON) == 2
    assert status.llm_state(kept) == {"summaries": 2, "error": None}


def test_few_are_asked_for_at_a_look(kept: Home, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look asks for at most LLM_PER_LOOK, and for none any more once the server stops."""
    monkeypatch.setattr(limits, "LLM_PER_LOOK", 1)
    assert summarise_new(kept, texts(kept), GO_ON) == 1
    stop = threading.Event()
    stop.set()
    assert summarise_new(kept, texts(kept), stop) == 0
    assert len(stub.asked) == 1


def test_the_server_asks_in_the_background(kept: Home, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread looks every LLM_LOOK_S, waits longer after a failure (LLM_BACKOFF_S), and goes on."""
    monkeypatch.setattr(limits, "LLM_LOOK_S", 0.01)
    monkeypatch.setattr(limits, "LLM_BACKOFF_S", (0.05, 0.1))
    stub.status = 500
    stop = threading.Event()
    LlmLoop(kept, stop).start()
    try:
        wait_for(lambda: len(stub.asked) >= 3)
        stub.status = 200
        wait_for(lambda: texts(kept).count() == 2)
    finally:
        stop.set()
