from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flows.working_set import Member
from headwater.schemas.continuity import NEVER, Context
from headwater.schemas.events import Kind
from headwater.schemas.features import Features
from headwater.schemas.relevance import RelevanceConfig, Scorer, groups_of, recency_at, relevance

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
Three = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
names = st.lists(st.sampled_from("abcdefgh"), max_size=6).map(tuple)


def test_the_formula() -> None:
    """0.35 recency, 0.45 overlap and 0.2 kind: half a day old, half in common, an answer."""
    found = relevance(
        Kind.RESPONSE, Features(("a", "b")), AT, Context(("a", "c", "d")), now=AT + timedelta(hours=12)
    )
    assert (found.recency, found.overlap, found.kind) == (0.5, 0.5, 1.0)
    assert found.score == pytest.approx(0.35 * 0.5 + 0.45 * 0.5 + 0.2)


def test_it_is_not_always_one() -> None:
    """Relevance tells events apart: an old tool call about something else falls below both thresholds."""
    current = Context(("a",), ("f",), ("E",))
    fresh = relevance(Kind.PROMPT, Features(("a",)), AT, current, now=AT)
    stale = relevance(Kind.TOOL, Features((), ("g",)), AT - timedelta(hours=20), current, now=AT)
    assert fresh.score >= 0.7
    assert stale.score < 0.5


def test_a_short_text_about_the_current_file_counts_in_full() -> None:
    """Overlap is a share of the smaller side: one file of one that the context holds is all of it."""
    context = Context((), ("f", "g", "h"), (), AT)
    assert relevance(Kind.TOOL, Features((), ("f",)), AT, context, now=AT).overlap == pytest.approx(1.0)
    assert relevance(Kind.TOOL, Features((), ("x",)), AT, context, now=AT).overlap == pytest.approx(0.0)


def test_what_cannot_be_compared_is_left_out() -> None:
    """Without a common group the other parts carry all the weight."""
    found = relevance(Kind.RESPONSE, Features(), AT, Context(("a",)), now=AT)
    assert found.overlap is None
    assert found.score == pytest.approx(1.0)


def test_recency_halves() -> None:
    """One for now and for a clock that is ahead, a half after each half-life."""
    assert recency_at(AT, AT - timedelta(hours=1)) == pytest.approx(1.0)
    assert recency_at(AT, AT + timedelta(hours=24), 12) == pytest.approx(0.25)


@given(st.sampled_from(Kind), names, names, names, names, st.floats(-(10**7), 10**9))
def test_a_score_is_a_share(  # noqa: PLR0917 - hypothesis hands them over by position
    kind: Kind,
    topics: tuple[str, ...],
    files: tuple[str, ...],
    known: tuple[str, ...],
    there: tuple[str, ...],
    age_s: float,
) -> None:
    """Whatever is compared, relevance lies in [0, 1]."""
    found = relevance(
        kind, Features(topics, files), AT, Context(known, there), now=AT + timedelta(seconds=age_s)
    )
    assert 0.0 <= found.score <= 1.0


@given(
    own=st.tuples(names, names, names),
    there=st.tuples(names, names, names),
    age_s=st.floats(-1e4, 1e7),
    kind=st.sampled_from(Kind),
    weights=st.tuples(*[st.sampled_from([0.0, 0.2, 1.0])] * 3),
)
def test_the_score_alone_is_the_same_number(
    own: Three,
    there: Three,
    age_s: float,
    kind: Kind,
    weights: tuple[float, float, float],
) -> None:
    """What orders a working set is, bit for bit, what its rows say."""
    current = Context(*there, AT)
    scorer = Scorer(current, AT, RelevanceConfig(*weights))
    members = [
        Member("e", "s", "t", kind, at, at, at, Features(*own))
        for at in (AT - timedelta(seconds=age_s), NEVER)
    ]
    for one in members:
        one.count(groups_of(current))
    assert scorer.scores(members) == [scorer.of(kind, one.groups, one.at).score for one in members]
