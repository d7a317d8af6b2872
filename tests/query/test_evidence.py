from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
import pytest

from headwater.query import lexicon
from headwater.query.candidates import Candidates
from headwater.query.evidence import evidence
from headwater.schemas import limits

if TYPE_CHECKING:
    from headwater.query.positions import Positions

MONDAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
TEXTS = (
    ("prompt", "Which retry limit do we take?", None),
    ("response", "We take the retry limit 5.", None),
    ("tool", "$ grep retry src", "Bash"),
    ("tool", "Edit src/retry.py", "Edit"),
    ("response", "x" * 30_000, None),
)


def candidates(query: str) -> Candidates:
    """Five events of one session in a row, an hour apart; nearness 1.0, 0.8, 0.6, 0.4 and unknown."""
    rows = pl.DataFrame(
        [
            {
                "id": f"e{n}",
                "at": MONDAY + timedelta(hours=n),
                "kind": kind,
                "content": text,
                "tool": {"name": tool},
                "passage": None,
            }
            for n, (kind, text, tool) in enumerate(TEXTS)
        ]
    )
    terms = tuple(lexicon.terms_of_query(query))
    texts = lexicon.flat(rows.get_column("content"))
    return Candidates(
        rows=rows,
        terms=terms,
        counted=lexicon.counts(texts, terms),
        paired=lexicon.presence(texts, lexicon.pairs_of_query(query)),
        lengths=texts.str.len_chars().to_numpy().astype(float),
        cosine=np.array([1.0, 0.8, 0.6, 0.4, np.nan]),
        before=np.array([-1, 0, 1, 2, 3]),
        after=np.array([1, 2, 3, 4, -1]),
        session=np.zeros(5, dtype=np.int64),
        inside=np.array([True, True, True, True, True]),
        total=100,
        known=cast("Positions", None),  # no column of the evidence looks at it
    )


def column(name: str, query: str, **options: Any) -> list[float]:
    """One column of the evidence, rounded."""
    found = evidence(candidates(query), query, reads_all=False, **options)
    return [round(value, 3) for value in found.get_column(name)]


def test_words_of_neighbours_cover_a_query() -> None:
    """A row beside one with all the words has them through it; one two away has not."""
    # of 100 events 4 have `retry`, 2 `limit`: ln(1 + 96.5 / 4.5) = 3.11 of 3.11 + ln(1 + 98.5 / 2.5) = 3.70
    assert column("covered", "retry limit") == [1.0, 1.0, 0.457, 0.457, 0.0]
    assert column("covered_near", "retry limit")[:3] == [1.0, 1.0, 1.0]
    assert column("covered_near", "retry limit")[3] < 1.0


def test_words_two_off() -> None:
    """The row two after the best by words has half of it, for nothing stands two after it."""
    words = column("words", "limit")
    assert words.index(1.0) == 1
    assert column("words_beside", "limit")[3] == 0.5
    assert column("words_beside", "limit")[4] == 0.0


def test_pairs_of_words() -> None:
    """Two words side by side count where they stand side by side."""
    assert column("phrase", "retry limit") == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert column("phrase", "limit the retry") == [0.0] * 5


def test_meaning_of_the_nearer_neighbour() -> None:
    """Nearness goes from 0, the farthest that is known, to 1; each row has the better of its neighbours'."""
    assert column("meaning", "anything") == [1.0, 0.667, 0.333, 0.0, 0.0]
    assert column("meaning_beside", "anything") == [0.667, 1.0, 0.667, 0.333, 0.0]


def test_what_a_row_is() -> None:
    """A question, a prompt, a number where one is wanted, and a call, which is none of it where code is asked for."""
    assert column("question", "anything") == [1, 0, 0, 0, 0]
    assert column("prompt", "anything") == [1, 0, 0, 0, 0]
    assert column("asked", "anything") == [0, 0, 0, 0, 0]
    assert column("asked", "What did I ask for?") == [1, 0, 0, 0, 0]
    assert column("number", "how many retries") == [0, 1, 0, 0, 0]
    assert column("number", "retries") == [0] * 5
    assert column("call", "anything") == [0, 0, 1, 1, 0]
    assert column("call", "anything", is_exact=True) == [0] * 5
    assert column("look", "anything", is_exact=True) == [0, 0, 1, 0, 0]


def test_far_from_the_usual_length() -> None:
    """LEXICON_CHARS are 1.4 powers of ten above 316, where 2 are as far as can be; 30 are one below."""
    assert limits.LEXICON_CHARS == 8000
    assert column("off_length", "anything")[4] == 0.702
    assert column("off_length", "anything")[0] == pytest.approx(0.51, abs=0.01)


def test_the_last_of_a_day() -> None:
    """Where the last of a named day is wanted the later count more, where the first, the earlier; else none."""
    assert column("edge", "the last change on 2026-01-05") == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert column("edge", "the first change on 2026-01-05") == [1.0, 0.8, 0.6, 0.4, 0.2]
    assert column("edge", "the change on 2026-01-05") == [0.0] * 5
    assert column("edge", "the last change on 2025-01-05") == [0.0] * 5


def test_many_pairs() -> None:
    """No more than QUERY_PAIRS pairs are looked for, and empty words are no side of one."""
    assert len(lexicon.pairs_of_query(" ".join(f"word{n}" for n in range(50)))) == limits.QUERY_PAIRS
    assert lexicon.pairs_of_query("where is the limit") == []
