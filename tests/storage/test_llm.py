from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lance_rows import NOW
from stub_llm import Stub, chat, endpoint

from headwater.schemas import limits
from headwater.schemas.config import ConsolidationSection
from headwater.schemas.errors import ConfigError, StoreError
from headwater.storage.llm import LlmClient
from headwater.storage.llm_texts import LlmTexts


@pytest.fixture
def stub() -> Iterator[Stub]:
    """An endpoint."""
    with endpoint() as made:
        yield made


def client(stub: Stub, timeout_ms: int = 20_000) -> LlmClient:
    """Return a client of the endpoint."""
    return LlmClient.of(
        ConsolidationSection(llm_url=stub.url + "/", llm_model="small", llm_timeout_ms=timeout_ms)
    )


def test_a_summary_comes_back(stub: Stub) -> None:
    """One request in the usual form, at the usual place; the text of its answer is the summary, cut to its bound."""
    stub.body = chat("  재시도는 8번. \ud83d It works.\n")
    assert client(stub).summarise("what was said", 1000).startswith("재시도는 8번.")
    (asked,) = stub.asked
    assert stub.paths == ["/v1/chat/completions"]
    assert asked["model"] == "small"
    assert [one["role"] for one in asked["messages"]] == ["system", "user"]
    assert asked["messages"][1]["content"] == "what was said"
    assert "1000 characters" in asked["messages"][0]["content"]
    stub.body = chat("x" * 5000)
    assert client(stub).summarise("x" * 99_999, 200) == "x" * 200
    assert len(stub.asked[-1]["messages"][1]["content"]) == limits.LLM_SOURCE_CHARS


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"oops", 500, "HTTP 500"),
        (b"{}", 404, "HTTP 404"),
        (b"", 200, "none"),
        (b"garbage", 200, "none"),
        (b"\xff\xfe", 200, "none"),
        (b"[" * 100_000, 200, "none"),
        (b"{}", 200, "choices"),
        (b'{"choices": []}', 200, "choices"),
        (b'{"choices": [{"message": {"content": null}}]}', 200, "wanted a text"),
        (chat(7), 200, "wanted a text"),
        (chat("  \n"), 200, "without text"),
        (b'"' + b"x" * (limits.LLM_ANSWER_BYTES + 9), 200, "at most"),
    ],
)
def test_whatever_is_no_summary_is_told(stub: Stub, body: bytes, status: int, said: str) -> None:
    """An error, garbage, an empty or endless answer: one error with where, what, and the fix."""
    stub.body, stub.status = body, status
    with pytest.raises(StoreError, match=said) as error:
        client(stub).summarise("x", 1000)
    assert "model small at http://127.0.0.1" in error.value.where
    assert "use_llm_summarization" in error.value.fix


def test_a_dead_endpoint_is_told() -> None:
    """Nobody there is an error like the others."""
    with endpoint() as stub:
        gone = client(stub)
    with pytest.raises(StoreError, match="no answer"):
        gone.summarise("x", 1000)


@pytest.mark.parametrize("pieces", [1, 1000])
def test_the_time_is_that_of_the_whole_answer(stub: Stub, pieces: int) -> None:
    """An answer that does not begin, and one that trickles in, are given up when the time is over."""
    stub.body, stub.pieces, stub.pause_s = chat("x" * 3000), pieces, 30.0 if pieces == 1 else 0.05
    start_s = time.monotonic()
    with pytest.raises(StoreError, match=r"timed out|not whole"):
        client(stub, timeout_ms=300).summarise("x", 1000)
    assert time.monotonic() - start_s < 15


def test_no_proxy_stands_between_us_and_this_machine(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment is not asked for a model on this machine."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert client(stub).summarise("x", 1000) == "In short: it works."


@pytest.mark.parametrize(
    ("url", "model", "said"),
    [
        ("", "m", "llm_url"),
        ("ftp://x", "m", "llm_url"),
        ("file:///etc/passwd", "m", "llm_url"),
        ("http://", "m", "llm_url"),
        ("http://x", "", "llm_model"),
    ],
)
def test_settings_must_name_a_model(url: str, model: str, said: str) -> None:
    """Without an address of the web or a name of a model nothing is asked, and the error names the setting."""
    with pytest.raises(ConfigError, match=said):
        LlmClient.of(ConsolidationSection(llm_url=url, llm_model=model))


def test_texts_are_those_of_a_summary_as_it_is(tmp_path: Path) -> None:
    """A text is given for the content it was made of, not for a later one; a reader makes no file."""
    texts = LlmTexts(tmp_path / "llm.sqlite")
    assert texts.get([("m1", "h1")]) == {}
    assert (texts.count(), texts.failure()) == (0, None)
    texts.remove(["m1"])
    assert list(tmp_path.iterdir()) == []
    texts.put("m1", "h1", "small", "one", NOW)
    texts.put("m2", "h2", "small", "two", NOW)
    assert texts.get([("m1", "h1"), ("m2", "other"), ("m3", "h3")]) == {"m1": "one"}
    texts.put("m1", "h9", "small", "newer", NOW)
    assert texts.get([("m1", "h1")]) == {}
    assert texts.get([("m1", "h9")]) == {"m1": "newer"}
    assert texts.count() == 2
    texts.remove(["m1", "m9"])
    assert texts.count() == 1


def test_the_last_failure_is_kept_until_one_works(tmp_path: Path) -> None:
    """What went wrong last is told until a summary comes."""
    texts = LlmTexts(tmp_path / "llm.sqlite")
    texts.fail("first", NOW)
    texts.fail("second", NOW)
    failure = texts.failure()
    assert failure is not None
    assert (failure.why, failure.at) == ("second", NOW)
    texts.put("m1", "h1", "small", "one", NOW)
    assert texts.failure() is None
