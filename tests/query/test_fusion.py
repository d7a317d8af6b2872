from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.query import fusion


def arm(**scores: float) -> pl.DataFrame:
    """One arm of a search."""
    return pl.DataFrame(
        {"id": list(scores), "score": list(scores.values())}, schema={"id": pl.String, "score": pl.Float64}
    )


def scores(frame: pl.DataFrame) -> dict[str, float]:
    """Scores by id."""
    return dict(frame.select("id", "score").iter_rows())


def test_weak_best_counts_less() -> None:
    """A search whose best row is weak gives less than one whose best is strong; order and proportion stay."""
    weak = scores(fusion.bm25_arm(pl.DataFrame({"id": ["a", "b"], "_score": [0.5, 0.25]})))
    strong = scores(fusion.bm25_arm(pl.DataFrame({"id": ["a", "b"], "_score": [10.0, 5.0]})))
    assert weak["a"] < strong["a"] < 1
    assert weak["a"] == pytest.approx(2 * weak["b"])


def test_vectors_are_measured_from_where_the_arm_was_cut() -> None:
    """The last of a full arm counts nothing, of an arm that is not full it counts what it is worth."""
    found = pl.DataFrame({"id": ["a", "b"], "_distance": [0.2, 0.6]})
    assert scores(fusion.vector_arm(found, 2)) == pytest.approx({"a": 1.0, "b": 0.0})
    assert scores(fusion.vector_arm(found, 3)) == pytest.approx({"a": 1.0, "b": 0.5})
    assert scores(fusion.vector_arm(found.head(1), 1)) == pytest.approx({"a": 1.0})


def test_best_chunk_counts() -> None:
    """An item that is found twice in one arm has its better score."""
    found = pl.DataFrame({"id": ["a", "a"], "_distance": [0.7, 0.4]})
    assert scores(fusion.vector_arm(found, 9)) == pytest.approx({"a": 0.75})


def test_each_arm_alone() -> None:
    """An arm that found nothing leaves the other as it is."""
    empty = fusion.bm25_arm(pl.DataFrame(schema={"id": pl.String, "_score": pl.Float32}))
    full = arm(a=0.8)
    assert scores(fusion.fuse(full, empty)) == scores(fusion.fuse(empty, full)) == {"a": 0.8}
    assert fusion.fuse(empty, empty).is_empty()
    assert fusion.fuse_text([]).is_empty()


def test_weighted_sum() -> None:
    """Rows of both arms have the sum, rows of one arm their share."""
    assert scores(fusion.fuse(arm(a=0.8, b=0.8), arm(a=0.6, c=0.6))) == pytest.approx(
        {"a": 0.7, "b": 0.4, "c": 0.3}
    )


def test_all_exact_words_come_before_everything() -> None:
    """A row with all identifiers is above every row without, one with some is lifted."""
    exact = pl.DataFrame({"id": ["a", "b", "c"], "share": [1.0, 0.5, 0.0]})
    found = scores(fusion.prefer_exact(arm(a=0.01, b=0.5, c=0.5, d=1.0), exact))
    assert found["a"] > found["d"] > found["b"] > found["c"]


def test_ranking_of_equals() -> None:
    """Equal scores are ordered by newer, then by id."""
    rows = pl.DataFrame({"id": ["b", "a", "c", "d"], "score": [0.5, 0.5, 0.5, 0.9], "at": [1, 1, 2, 0]})
    assert fusion.ranked(rows).get_column("id").to_list() == ["d", "c", "a", "b"]


@given(
    st.lists(st.floats(0, 1e4), max_size=20),
    st.lists(st.floats(0, 2), max_size=20),
    st.lists(st.floats(0, 1), min_size=20, max_size=20),
)
def test_scores_stay_between_0_and_1(bm25: list[float], distances: list[float], shares: list[float]) -> None:
    """Whatever the arms say, what comes out is a score."""
    words = pl.DataFrame(
        {"id": [str(n) for n in range(len(bm25))], "_score": bm25},
        schema={"id": pl.String, "_score": pl.Float64},
    )
    near = pl.DataFrame(
        {"id": [str(n) for n in range(len(distances))], "_distance": distances},
        schema={"id": pl.String, "_distance": pl.Float64},
    )
    fused = fusion.fuse(fusion.fuse_text([fusion.bm25_arm(words)]), fusion.vector_arm(near, 20))
    lifted = fusion.prefer_exact(fused, pl.DataFrame({"id": [str(n) for n in range(20)], "share": shares}))
    for frame in (fused, lifted):
        assert all(0 <= score <= 1 for score in scores(frame).values())
