from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.query import confidence, ranking
from headwater.query.evidence import level_scripts
from headwater.query.ranking import Weights
from headwater.query.scripts import reads_all, scripts
from headwater.query.when import day_shares, days_named, times_named
from headwater.schemas import limits

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
COLUMNS = tuple(one.name for one in fields(Weights))
NOTHING = Weights(**dict.fromkeys(COLUMNS, 0.0))


def evidence(*rows: dict[str, Any]) -> pl.DataFrame:
    """A frame of evidence; what a row does not say is 0."""
    return pl.DataFrame(
        [
            {"id": f"r{n}", **dict.fromkeys(COLUMNS, 0.0), "said": 0.0, "cosine": 0.0, **row}
            for n, row in enumerate(rows)
        ]
    )


def raws(frame: pl.DataFrame) -> dict[str, float]:
    """Raw strength by id."""
    return dict(frame.select("id", "raw").iter_rows())


def test_weighted_sum_from_0_to_1() -> None:
    """All that speaks for a row and nothing against it is 1, the opposite is 0, parts of it lie between."""
    weights = Weights(**{**dict.fromkeys(COLUMNS, 0.0), "words": 1.0, "meaning": 2.0, "tiny": -1.0})
    rows = evidence({"words": 1, "meaning": 1}, {"tiny": 1}, {"words": 1}, {"meaning": 0.5, "tiny": 0.5})
    assert raws(ranking.blend(rows, None, weights)) == pytest.approx(
        {"r0": 1.0, "r1": 0.0, "r2": 0.5, "r3": 0.375}
    )


def test_all_exact_words_come_before_everything() -> None:
    """A row with all of the query's identifiers is above the best row without; one with some lies between."""
    rows = evidence({}, {"words": 1, "meaning": 1, "day": 1, "covered": 1}, {})
    exact = pl.DataFrame({"id": ["r0", "r2"], "share": [1.0, 0.5]})
    found = raws(ranking.blend(rows, exact))
    assert found["r0"] > found["r1"]
    assert found["r0"] > found["r2"] > raws(ranking.blend(evidence({}), None))["r0"] / 3


def test_what_speaks_against_a_row() -> None:
    """Output of a tool is behind what was said; a question is behind an answer with as many words."""
    rows = evidence({"words": 0.5, "call": 1}, {"words": 0.4}, {"words": 0.5, "question": 1})
    found = raws(ranking.blend(rows, None))
    assert found["r1"] > found["r2"] > found["r0"]


def test_repeats_are_folded_into_the_best() -> None:
    """Texts that differ in case, space and signs are one, counted; in another project they are another."""
    rows = pl.DataFrame(
        {
            "id": ["a", "b", "c", "d", "e"],
            "project": ["p", "p", "q", "p", "p"],
            "content": ["Retry it!", "retry  it", "retry it", "other", ""],
            "content_hash": ["1", "2", "2", "3", "4"],
        }
    )
    found = ranking.folded(rows)
    assert list(found.select("id", "folded").iter_rows()) == [("a", 1), ("c", 0), ("d", 0), ("e", 0)]


def test_long_texts_that_begin_alike() -> None:
    """Of texts longer than FOLD_CHARS only those of equal length repeat each other."""
    head = "x" * limits.FOLD_CHARS
    rows = pl.DataFrame(
        {
            "id": ["a", "b", "c"],
            "project": ["p"] * 3,
            "content": [head + "one", head + "two", head + "four"],
            "content_hash": ["1", "2", "3"],
        }
    )
    assert list(ranking.folded(rows).select("id", "folded").iter_rows()) == [("a", 1), ("c", 0)]


def test_equal_rows_by_newer_then_id() -> None:
    """Equal strength is ordered by time, then by id."""
    rows = pl.DataFrame({"id": ["b", "a", "c", "d"], "raw": [0.5, 0.5, 0.5, 0.9], "at": [1, 1, 2, 0]})
    assert ranking.best_first(rows).get_column("id").to_list() == ["d", "c", "a", "b"]


@pytest.mark.parametrize(
    ("ids", "newer", "wanted"),
    [
        ("abc", {"a": ["c"]}, "cab"),
        ("abc", {"c": ["a"]}, "abc"),
        ("abc", {"a": ["x"]}, "abc"),
        ("abc", {"a": ["b"], "b": ["c"]}, "cba"),
        ("abcd", {"a": ["c"], "b": ["c", "d"]}, "cadb"),
        ("abc", {"a": ["b"], "b": ["a"]}, "bac"),
    ],
)
def test_what_supersedes_stands_before(ids: str, newer: dict[str, list[str]], wanted: str) -> None:
    """The best of what reverses a row comes right before it, in a chain the newest first; a circle ends."""
    assert "".join(ranking.newest_first(list(ids), newer)) == wanted


@given(
    st.permutations("abcdef"),
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdefx"))),
)
def test_nothing_is_lost_by_what_supersedes(ids: list[str], newer: dict[str, list[str]]) -> None:
    """Whatever supersedes what, all rows are there once."""
    assert sorted(ranking.newest_first(ids, newer)) == sorted(ids)


def test_scripts_of_texts() -> None:
    """Code with some Korean, Japanese or Chinese in it is of that language; no letters are Latin."""
    texts = [
        "plain English",
        "HeartbeatScheduler 주기는 25초",
        "PMTiles への移行",
        "审批流程",
        "",
        "一 in a long English line",
    ]
    assert scripts(pl.Series(texts)).to_list() == ["latin", "hangul", "kana", "han", "latin", "latin"]
    assert reads_all("multilingual-e5-small-q4-384-491a")
    assert not reads_all("minilm-384-0a1d")


def test_other_scripts_come_up_to_the_query_s_own() -> None:
    """The best of another script comes 0.8 of the way to the best of the query's own, the rest of it with it."""
    cosine = np.array([0.9, 0.8, 0.4, 0.3, np.nan])
    script = pl.Series(["hangul", "hangul", "latin", "latin", "latin"])
    assert level_scripts(cosine, script, "hangul")[:4].tolist() == pytest.approx([0.9, 0.8, 0.8, 0.7])
    assert level_scripts(cosine, script, "latin")[:2].tolist() == [0.9, 0.8]
    assert level_scripts(cosine, script, "han")[:2].tolist() == [0.9, 0.8]


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("what broke on 2025-06-05?", [(2025, 6, 5)]),
        ("the session on 3 March", [(None, 3, 3)]),
        ("done on Friday March 14th, 2025", [(2025, 3, 14)]),
        ("3월 11일 저녁에 어떤 작업", [(None, 3, 11)]),
        ("4月8日下午", [(None, 4, 8)]),
        ("週明けの月曜日 (6/9) に何を", [(None, 6, 9)]),
        ("a/b 31/31 1/2/3 version 1.2", []),
        ("February 30", []),
    ],
)
def test_days_that_a_query_names(query: str, days: list[tuple[int | None, int, int]]) -> None:
    """Days are read in four languages; what is no day is none."""
    assert days_named(query) == days


def test_share_of_a_day() -> None:
    """A time on the day by UTC counts whole, one that is on it elsewhere half, others nothing; no year: the nearest."""
    at = pl.Series([NOW, NOW + timedelta(hours=20), NOW + timedelta(days=3)])
    assert day_shares(at, [(None, 1, 5)]).to_list() == [1.0, 0.5, 0.0]
    assert day_shares(at, [(2025, 1, 5)]).to_list() == [0.0, 0.0, 0.0]
    assert day_shares(at.head(1), [(None, 2, 29)]).to_list() == [0.0]


def test_time_of_day() -> None:
    """At the time that is named a row counts whole, half an hour off three quarters, an hour off a half."""
    at = pl.Series([NOW, NOW + timedelta(minutes=30), NOW + timedelta(hours=2), NOW + timedelta(days=3)])
    assert times_named("around 9:00, not 25:00 or 1:2:3") == [540]
    assert day_shares(at, [(2026, 1, 5)], [540]).to_list() == [1.0, 0.75, 0.5, 0.0]


@pytest.mark.parametrize(
    ("query", "minutes"),
    [
        ("asked at 9 pm or 12:30 AM", [21 * 60, 30]),
        ("19時16分ごろ、朝6時台", [19 * 60 + 16, 6 * 60 + 30]),
        ("저녁 7시 30분에, 3시간 동안", [19 * 60 + 30]),
        ("4月9日11点半, 两点", [11 * 60]),
        ("5 apm, 13 pm, 26時", []),
    ],
)
def test_times_of_day_in_four_languages(query: str, minutes: list[int]) -> None:
    """Times with am and pm, and those of Korean, Japanese and Chinese; how long something took is no time of day."""
    assert times_named(query) == minutes


def test_score_of_a_strength() -> None:
    """Between two points the score is in proportion, outside them it is that of the nearest."""
    points = [[-2.0, 0.0], [0.0, 0.85], [1.0, 0.92], [3.0, 1.0]]
    found = [confidence.score_of(strength, points) for strength in (-9, -1, 0, 0.5, 1, 2, 9)]
    assert found == pytest.approx([0.0, 0.425, 0.85, 0.885, 0.92, 0.96, 1.0])


def test_features_by_hand() -> None:
    """The gap is to the second; first by words but not by meaning is half agreed; of two candidates is 0.5 short."""
    rows = ranking.blend(evidence({"words": 0.8, "meaning": 0.2}, {"words": 0.4, "meaning": 0.4}), None)
    ordered = rows.with_columns(pl.Series("raw", [0.55, 0.5]))
    found = dict(zip(confidence.FEATURES, confidence.features(ordered).tolist(), strict=True))
    assert found["gap"] == pytest.approx(0.3)
    assert (found["agreed"], found["short"], found["words"], found["raw"]) == (0.5, 0.5, 0.8, 0.55)


def test_unmapped_version_says_so() -> None:
    """Scores of a version that was never measured are strengths, and do not stand for precision."""
    rows = ranking.blend(evidence({"words": 0.8}, {"words": 0.4}), None)
    found = confidence.scored(rows, "never-measured-8-0")
    assert not found.is_mapped
    assert found.rows.get_column("score").to_list() == rows.get_column("raw").to_list()
    assert confidence.scored(rows, None).is_mapped


@given(st.lists(st.tuples(*(st.floats(0, 1) for _ in COLUMNS)), min_size=1, max_size=8))
def test_scores_stay_between_0_and_1_and_fall(values: list[tuple[float, ...]]) -> None:
    """Whatever the evidence, scores are scores, best first, and the same each time."""
    rows = evidence(*(dict(zip(COLUMNS, row, strict=True)) for row in values))
    ordered = ranking.best_first(ranking.blend(rows, None).with_columns(pl.lit(0).alias("at")))
    scores = confidence.scored(ordered, None).rows.get_column("score").to_list()
    assert all(0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert confidence.scored(ordered, None).rows.get_column("score").to_list() == scores
