from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headwater.query import expansion
from headwater.query.asked import Days
from headwater.query.expansion import Decision, decide, hint, on_days, on_request, score_frame, suggested
from headwater.schemas import limits
from headwater.schemas.answers import IndexItem
from headwater.schemas.config import AutoExpandConfig, ProgressiveDisclosureConfig

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
SETTINGS = AutoExpandConfig()


def items(*scores: float, prefix: str = "evt_") -> list[IndexItem]:
    """Return rows `evt_0, evt_1, ...` with these scores, each an hour older than the one before."""
    return [
        IndexItem(f"{prefix}{n}", f"row {n}", score, "prompt", AT - timedelta(hours=n), "s", "/p")
        for n, score in enumerate(scores)
    ]


def decided(*scores: float, min_score: float = 0.7) -> tuple[str, str, str]:
    """Return the reason, the places of the timeline and those of the details, of mapped scores."""
    found = decide(score_frame(items(*scores), is_mapped=True), SETTINGS, min_score)
    return found.reason, *places(found.timeline, found.details)


def places(timeline: tuple[str, ...], details: tuple[str, ...]) -> tuple[str, str]:
    """Return the numbers of ids."""
    return "".join(one[-1] for one in timeline), "".join(one[-1] for one in details)


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ((), ("no_results", "", "")),
        ((0.92,), ("high_confidence_single", "0", "0")),
        ((0.95, 0.69, 0.6), ("high_confidence_single", "0", "0")),  # what is weak counts as not found
        ((0.9199,), ("suggested", "", "")),
        ((0.85, 0.75), ("clear_winner", "0", "0")),
        ((0.95, 0.85), ("clear_winner", "0", "0")),  # before three that are as good
        ((0.95, 0.85, 0.8), ("clear_winner", "0", "0")),
        ((0.85, 0.7501), ("suggested", "", "")),
        ((0.8499, 0.7), ("suggested", "", "")),
        ((0.88, 0.86, 0.8), ("ambiguous_multiple_high", "012", "")),
        ((0.97, 0.96, 0.95, 0.94), ("ambiguous_multiple_high", "012", "")),  # before the high threshold
        ((0.88, 0.86, 0.7999), ("suggested", "", "")),
        ((0.95, 0.94), ("high_confidence", "0", "0")),
        ((0.92, 0.9, 0.79), ("high_confidence", "0", "0")),
        ((0.75,), ("suggested", "", "")),
        ((0.7499, 0.72), ("low_confidence", "", "")),
        ((0.4, 0.3), ("low_confidence", "", "")),
    ],
)
def test_rules_in_their_order(scores: tuple[float, ...], wanted: tuple[str, str, str]) -> None:
    """Each rule at its bounds, the first that holds wins: reason, whose timeline, what is shown whole."""
    assert decided(*scores) == wanted


def test_a_gap_of_a_tenth_is_one() -> None:
    """0.95 and 0.85 differ by 0.1, whatever binary fractions make of it."""
    assert 0.95 - 0.85 < 0.1
    assert decided(0.95, 0.85)[0] == "clear_winner"


def test_scores_that_mean_nothing_expand_nothing() -> None:
    """Unmapped scores give an index and a hint, however high they are; so do those of summaries."""
    assert decide(score_frame(items(0.99), is_mapped=False), SETTINGS, 0.7) == Decision("suggested")
    memories = score_frame(items(0.99, 0.98, prefix="mem_"), is_mapped=True)
    assert decide(memories, SETTINGS, 0.7) == Decision("suggested")


def test_a_summary_is_no_rival() -> None:
    """A memory beside the event that it is made of does not keep that event from being shown."""
    rows = score_frame([*items(0.93), *items(0.9, prefix="mem_")], is_mapped=True)
    assert decide(rows, SETTINGS, 0.7).reason == "high_confidence_single"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (AutoExpandConfig(high_confidence_threshold=0.99), "suggested"),
        (AutoExpandConfig(score_gap_threshold=0.02), "clear_winner"),
        (AutoExpandConfig(max_auto_expand_count=0), "suggested"),
        (AutoExpandConfig(), "high_confidence"),
    ],
)
def test_settings_are_honoured(settings: AutoExpandConfig, wanted: str) -> None:
    """Thresholds and the count come from the settings."""
    rows = score_frame(items(0.95, 0.92), is_mapped=True)
    found = decide(rows, settings, 0.7)
    assert found.reason == wanted
    assert settings.max_auto_expand_count or found == Decision("suggested")


def test_at_most_the_configured_count_is_expanded() -> None:
    """Of many that are as good, and of many that were asked for, three; the setting goes up to EXPAND_MAX."""
    rows = score_frame(items(*[0.9] * 8), is_mapped=True)
    assert len(decide(rows, SETTINGS, 0.7).timeline) == 3
    assert len(decide(rows, AutoExpandConfig(max_auto_expand_count=2), 0.7).timeline) == 2
    assert on_request(rows, 3, 0.7).details == ("evt_0", "evt_1", "evt_2")
    with pytest.raises(ValueError, match="less than or equal"):
        AutoExpandConfig(max_auto_expand_count=limits.EXPAND_MAX + 1)


def test_what_is_asked_for_needs_no_high_score() -> None:
    """Who asks for detail gets the first result, and others from 0.85 on whose score is mapped."""
    assert on_request(score_frame(items(0.72, 0.71), is_mapped=True), 3, 0.7).details == ("evt_0",)
    assert on_request(score_frame(items(0.9, 0.85, 0.84), is_mapped=True), 3, 0.7).details == (
        "evt_0",
        "evt_1",
    )
    assert on_request(score_frame(items(0.9, 0.9), is_mapped=False), 3, 0.7).details == ("evt_0",)
    assert on_request(score_frame(items(0.5), is_mapped=True), 3, 0.7) == Decision("low_confidence")
    assert on_request(score_frame([], is_mapped=True), 3, 0.7) == Decision("no_results")


def test_days_restrict_the_timeline() -> None:
    """Of the results those of the days are targets; whole stays what was decided when it falls into them."""
    rows = score_frame(items(0.95, 0.8, 0.75), is_mapped=True)
    days = Days(AT - timedelta(hours=1), AT)
    found = on_days(rows, days, Decision("clear_winner", ("evt_0",), ("evt_0",)), 3)
    assert found == Decision("temporal_proximity", ("evt_1",), (), days)
    days = Days(AT, AT + timedelta(days=1))
    found = on_days(rows, days, Decision("clear_winner", ("evt_0",), ("evt_0",)), 3)
    assert found == Decision("temporal_proximity", ("evt_0",), ("evt_0",), days)


def test_suggested_are_good_and_not_shown() -> None:
    """From 0.75 to below 0.92, but for what is expanded."""
    rows = score_frame(items(0.95, 0.91, 0.75, 0.74), is_mapped=True)
    assert suggested(rows, Decision("high_confidence", ("evt_0",), ("evt_0",)), SETTINGS) == (
        "evt_1",
        "evt_2",
    )
    assert suggested(rows, Decision("x", ("evt_1",)), SETTINGS) == ("evt_2",)


def test_hints() -> None:
    """Nothing whole: how to see more; several as good: that there are several; else none, and none without a row."""
    assert hint(Decision("suggested"), ["evt_0"], 0) == 'Use "show ID" to see details'
    many = 'Multiple matches found. Use "show ID" for specific details'
    assert hint(Decision("ambiguous_multiple_high", ("evt_0",)), ["evt_0"], 0) == many
    assert hint(Decision("clear_winner", ("evt_0",), ("evt_0",)), ["evt_0"], 1) == ""
    assert hint(Decision("no_results"), [], 0) == ""


def test_defaults_are_the_published_ones() -> None:
    """Every key has its published default."""
    found = ProgressiveDisclosureConfig().model_dump()
    assert found["auto_expand"] == {
        "enabled": True,
        "high_confidence_threshold": 0.92,
        "score_gap_threshold": 0.1,
        "max_auto_expand_count": 3,
    }
    assert found["cache"] == {"layer1_ttl": 60000, "layer2_ttl": 300000, "layer3_ttl": 1800000}
    assert found["layer1"] == {"top_k": 10, "min_score": 0.7}
    budget = {"max_total_tokens": 2000, "layer1_per_item": 50, "layer2_per_item": 40, "layer3_per_item": 500}
    assert found["token_budget"] == {"estimator": "script"} | budget
    assert (found["enabled"], found["summary_source"]) == (True, "matched")
    assert (expansion.WINNER, expansion.RIVAL, expansion.SUGGESTED) == (0.85, 0.8, 0.75)
