from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from project_events import event, turn

from headwater.flows.summary import _lines, summarise
from headwater.flows.windows import Piece, piece
from headwater.schemas import limits
from headwater.schemas.events import Event, Kind


def summary(events: list[Event], chars_max: int = 1000) -> str:
    """Return the summary of a window with these events."""
    return summarise([piece(one) for one in events], chars_max=chars_max, files_max=6)


def test_what_was_asked_found_changed_and_left_open() -> None:
    """Each under its name, in the words that were used, files last but for what is open."""
    text = summary(
        turn(
            "a",
            "webhooks need retries",
            "Retries use full jitter with 5 attempts. The docs page is still to write.",
        )
    )
    assert text == (
        "Asked: webhooks need retries.\nFound: Retries use full jitter with 5 attempts.\n"
        "Changed: a.py.\nOpen: The docs page is still to write."
    )


def test_never_a_list_of_tool_calls() -> None:
    """Neither commands nor their output stand in a summary."""
    tools = [event(f"x{n}", Kind.TOOL, f"$ pytest -q run{n}\nsecret output {n}", at_s=n) for n in range(20)]
    text = summary([event("p", content="make the tests pass"), *tools])
    assert text == "Asked: make the tests pass."


def test_what_is_full_of_facts_comes_first() -> None:
    """Where not all fits, sentences with names and numbers stay and chatter goes."""
    chatter = " ".join(f"Well that was quite something to look at {'so ' * 8}nice." for _ in range(1))
    answer = f"{chatter} `idempotency_keys` is kept for 72 h in Postgres (migration 0043)."
    text = summary(turn("a", "do it", answer), chars_max=120)
    assert "idempotency_keys" in text
    assert "Well that" not in text


def test_a_sentence_is_not_cut_at_a_dot_in_a_name() -> None:
    """Key points are whole sentences."""
    assert "in src/ui/app.tsx and in v1.2 too." in summary(
        turn("a", "why", "It is in src/ui/app.tsx and in v1.2 too.")
    )


def test_repeats_stand_once() -> None:
    """The same sentence said three times is told once."""
    events = [one for n in range(3) for one in turn(f"t{n}", "run the tests again", "4 tests pass.", at_s=n)]
    assert summary(events).count("4 tests pass.") == 1


@given(
    st.lists(st.tuples(st.sampled_from([Kind.PROMPT, Kind.RESPONSE]), st.text(max_size=400)), max_size=8),
    st.integers(40, 1000),
)
def test_it_is_never_longer_than_asked_for(said: list[tuple[Kind, str]], chars_max: int) -> None:
    """Whatever was said, the limit holds."""
    pieces = [piece(event(f"e{n}", kind, text)) for n, (kind, text) in enumerate(said)]
    assert len(summarise(pieces, chars_max=chars_max, files_max=6)) <= chars_max


def test_a_session_is_told_again_without_reading_it_again() -> None:
    """The same pieces give the same summary; the sentences of at most SUMMARY_PIECES_KEPT of them are kept."""
    _lines.cache_clear()
    events = [event(f"p{n}", content=f"look at part {n}. then at {n + 1}.", at_s=n) for n in range(20)]
    first = summary(events)
    assert summary(events) == first
    kept = _lines.cache_info()
    assert (kept.hits, kept.misses, kept.maxsize) == (20, 20, limits.SUMMARY_PIECES_KEPT)


def test_nothing_said_gives_no_summary() -> None:
    """A window of tools that changed nothing has nothing to tell."""
    assert summarise([Piece("a", Kind.TOOL, event("a").at, "s")], chars_max=1000, files_max=6) == ""
