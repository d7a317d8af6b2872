from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.query import lexicon
from headwater.schemas import limits


def counted(query: str, *texts: str) -> list[list[int]]:
    """How often each term of a query stands in each text."""
    terms = lexicon.terms_of_query(query)
    rows = lexicon.counts(lexicon.flat(pl.Series(texts, dtype=pl.String)), terms)
    return [[int(number) for number in row] for row in rows]


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("When did we move the retries to the queue?", ["move", "retries", "queue"]),
        ("HeartbeatScheduler", ["heartbeat", "scheduler"]),
        ("what is it", ["what", "is", "it"]),
        ("port 8080 in v1.2", ["port", "8080", "1.2"]),
        ("재연결 흐름을 검색", ["재연결", "재연", "흐름", "검색"]),
        ("", []),
    ],
)
def test_words_of_a_query(query: str, terms: list[str]) -> None:
    """Function words go unless nothing else is said; identifiers come apart; Korean loses its particles."""
    assert [term.text for term in lexicon.terms_of_query(query)] == terms


def test_a_pasted_page_has_few_terms() -> None:
    """No more than QUERY_TERMS words are counted."""
    page = " ".join(f"{chr(97 + n % 26)}{chr(97 + n // 26)}word" for n in range(200))
    assert len(lexicon.terms_of_query(page)) == limits.QUERY_TERMS


@pytest.mark.parametrize(
    ("query", "text", "times"),
    [
        ("paint", "He painted; she paints. Painting!", 3),
        ("run", "running runs ran runner", 3),
        ("run", "the runtime", 0),
        ("party", "parties and a party", 2),
        ("scheduler", "HeartbeatScheduler가 heartbeat_scheduler", 2),
        ("500", "500 of 5000, 1500", 1),
        ("검색", "검색한다면 재검색", 2),
        ("キャッシュ", "キャッシュを消す", 1),
    ],
)
def test_words_are_counted_in_their_forms(query: str, text: str, times: int) -> None:
    """Endings and identifiers do not hide a word; other words that begin alike are not it."""
    assert counted(query, text) == [[times]]


def test_only_the_start_of_a_long_text_is_counted() -> None:
    """What stands behind LEXICON_CHARS is output."""
    assert counted("needle", "x " * (limits.LEXICON_CHARS // 2) + "needle") == [[0]]


def test_bm25_by_hand() -> None:
    """A term in one of two equally long texts: frequency 1 gives 1 / (1 + k1) of the whole; rarity is BM25's."""
    terms = lexicon.terms_of_query("needle")
    found = np.array([[1.0], [0.0]])
    rare = lexicon.rarity(found, terms, 2)
    assert rare.tolist() == pytest.approx([math.log(1 + (2 - 1 + 0.5) / 1.5)])
    assert lexicon.bm25(found, np.array([10.0, 10.0]), rare).tolist() == pytest.approx([1 / 2.2, 0.0])


def test_longer_texts_count_less() -> None:
    """Of two texts with the word once, the one three times as long has the lower score, by hand."""
    found = np.array([[1.0], [1.0]])
    short, long = lexicon.bm25(found, np.array([10.0, 30.0]), np.array([1.0]))
    assert short == pytest.approx(1 / (1 + 1.2 * (0.25 + 0.75 * 10 / 20)))
    assert long == pytest.approx(1 / (1 + 1.2 * (0.25 + 0.75 * 30 / 20)))


def test_forms_for_a_search_without_endings() -> None:
    """A search by whole words is asked for the usual forms; what is no English word stays as it is."""
    words = lexicon.with_endings(lexicon.terms_of_query("retries 검색 404")).split()
    assert {"retries", "retry", "retried", "검색", "404"} <= set(words)
    assert "404s" not in words


@given(st.text(max_size=60), st.lists(st.text(max_size=40), max_size=4))
def test_no_text_raises(query: str, texts: list[str]) -> None:
    """Any query is counted in any text, and what comes out is a score."""
    terms = lexicon.terms_of_query(query)
    flat = lexicon.flat(pl.Series(texts, dtype=pl.String))
    found = lexicon.counts(flat, terms)
    lengths = flat.str.len_chars().to_numpy().astype(float)
    scores = lexicon.bm25(found, lengths, lexicon.rarity(found, terms, 100))
    assert ((scores >= 0) & (scores < 1)).all()


def test_letters_alone_are_left() -> None:
    """Case, space and signs of any script go, letters and digits stay; plain texts and others are told alike."""
    texts = pl.Series(["Retry the\tUpload!", "", "A_b-C\x1f9\x0b", "재시도 Ü。×2", "«ÀB»\u00a0c"])
    assert lexicon.letters(texts).to_list() == ["retrytheupload", "", "abc\x1f9", "재시도ü2", "àbc"]
    assert lexicon.letters(texts.head(2)).to_list() == ["retrytheupload", ""]
