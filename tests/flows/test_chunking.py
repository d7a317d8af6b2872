from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flows.chunking import chunk_text, windows
from headwater.schemas import limits

LIMITS = st.tuples(st.integers(1, 60), st.integers(0, 59), st.integers(1, 16)).filter(
    lambda one: one[1] < one[0]
)


def words(text: str) -> list[tuple[int, int]]:
    """Spans of words, as a tokenizer tells them."""
    return [found.span() for found in re.finditer(r"\w+|[^\w\s]", text)]


@given(st.integers(0, 5_000), LIMITS)
def test_windows_keep_their_limits(tokens: int, given_limits: tuple[int, int, int]) -> None:
    """No chunk is empty or too long, there are not too many, and each starts after the one before."""
    tokens_max, overlap, chunks_max = given_limits
    found = windows(tokens, tokens_max, overlap, chunks_max)
    assert len(found) <= chunks_max
    assert all(0 <= first < end <= tokens and end - first <= tokens_max for first, end in found)
    starts = [first for first, _ in found]
    assert starts == sorted(set(starts))
    assert bool(found) == bool(tokens)


@given(st.integers(1, 5_000), LIMITS)
def test_windows_start_and_end_with_the_text(tokens: int, given_limits: tuple[int, int, int]) -> None:
    """The first chunk begins at the start and, when there may be two, the last one ends at the end."""
    tokens_max, overlap, chunks_max = given_limits
    found = windows(tokens, tokens_max, overlap, chunks_max)
    assert found[0][0] == 0
    if chunks_max > 1 or tokens <= tokens_max:
        assert found[-1][1] == tokens


@given(st.integers(1, 500), LIMITS)
def test_short_texts_are_covered_with_overlap(tokens: int, given_limits: tuple[int, int, int]) -> None:
    """When enough chunks are allowed, every token is in one, and neighbours share at least the overlap."""
    tokens_max, overlap, _ = given_limits
    found = windows(tokens, tokens_max, overlap, 1_000)
    assert {n for first, end in found for n in range(first, end)} == set(range(tokens))
    assert all(end - first >= overlap for (_, end), (first, _) in itertools.pairwise(found))


def test_a_little_too_long_gives_two_halves() -> None:
    """One token too many does not make a full chunk and a useless rest."""
    assert windows(221, 220, 32, 16) == [(0, 127), (94, 221)]


def test_tools_give_head_and_tail() -> None:
    """Of a long tool text, the two chunks are its beginning and its end."""
    assert windows(9_000, 220, 32, limits.CHUNKS_TOOL) == [(0, 220), (8_780, 9_000)]


def test_long_items_are_covered_evenly() -> None:
    """An item longer than its chunks has them evenly from start to end."""
    found = windows(50_000, 220, 32, limits.CHUNKS_ITEM)
    assert len(found) == limits.CHUNKS_ITEM
    assert (found[0], found[-1]) == ((0, 220), (49_780, 50_000))
    gaps = {after[0] - before[0] for before, after in itertools.pairwise(found)}
    assert max(gaps) - min(gaps) <= 1


@given(st.text(), st.integers(1, 16))
def test_chunks_are_pieces_of_the_text_in_order(text: str, chunks_max: int) -> None:
    """Each chunk stands in the text, after the start of the one before; the same text gives the same chunks."""
    found = chunk_text(text, words(text), chunks_max=chunks_max, tokens_max=5, overlap_tokens=2)
    at = 0
    for piece in found:
        at = text.index(piece, at)
    assert bool(found) == bool(text.strip())
    assert len(found) <= chunks_max
    assert found == chunk_text(text, words(text), chunks_max=chunks_max, tokens_max=5, overlap_tokens=2)


@given(st.text(min_size=1).filter(lambda text: words(text) != []))
def test_short_text_is_one_chunk(text: str) -> None:
    """A text that fits is one chunk, from its first token to its last."""
    spans = words(text)
    found = chunk_text(text, spans, chunks_max=2, tokens_max=len(spans), overlap_tokens=0)
    assert found == (text[spans[0][0] : spans[-1][1]],)


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000"])
def test_text_without_words_has_no_chunks(text: str) -> None:
    """Nothing is embedded of an empty text or of white space, whatever a tokenizer makes of it."""
    assert chunk_text(text, words(text), chunks_max=16) == ()
    assert chunk_text(text, [(0, len(text))] if text else [], chunks_max=16) == ()


def test_text_that_a_tokenizer_drops_is_still_an_item() -> None:
    """Signs without a token give one short piece, so that the item is not found missing again and again."""
    assert chunk_text(" \u200b\u200b\u200b", [], chunks_max=16, tokens_max=2) == ("\u200b\u200b",)


def test_overlap_larger_than_the_chunk_is_cut_down() -> None:
    """A model that reads less than the usual overlap is still served."""
    assert chunk_text("a b c", words("a b c"), chunks_max=9, tokens_max=2) == ("a b", "b c")
