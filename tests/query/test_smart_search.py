from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from headwater.query import search as search_module
from headwater.query.formatter import ContextFormatter
from headwater.query.retriever import ProgressiveRetriever, SmartSearchOptions
from headwater.query.search import Found
from headwater.schemas import limits
from headwater.schemas.answers import IndexItem, Scope
from headwater.schemas.clock import FakeClock
from headwater.schemas.config import Config, ProgressiveDisclosureConfig
from headwater.schemas.errors import InputError
from headwater.schemas.events import Kind

ONE = Scope("/p/one")
Search = Callable[..., Any]


@pytest.fixture
def search(world: Any, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Search a session of eight turns with scores given: `search(query, {"a": 0.95, ...}, settings, **options)`."""
    turns = [
        (
            world.event(name, f"What about {name}?", n * 10),
            world.event(
                f"{name}r",
                f"Because of {name}. " * 20,
                n * 10 + 1,
                kind=Kind.RESPONSE,
                parent_id=f"evt_{name}",
            ),
        )
        for n, name in enumerate("abcdefgh")
    ]
    world.add(*(event for turn in turns for event in turn))

    def run(
        query: str, scores: dict[str, float], settings: Any = None, *, mapped: bool = True, **options: Any
    ) -> Any:
        texts = world.events.by_ids([f"evt_{name}" for name in scores], ["id", "at"])
        times = dict(texts.iter_rows())
        items = tuple(
            IndexItem(f"evt_{name}", f"about {name}", score, "prompt", times[f"evt_{name}"], "s1", "/p/one")
            for name, score in scores.items()
        )
        found = Found(items, len(items), score_is_mapped=mapped)
        monkeypatch.setattr(search_module, "find", lambda *_: found)
        config = Config(progressive_disclosure=ProgressiveDisclosureConfig.model_validate(settings or {}))
        retriever = ProgressiveRetriever(
            world.stores, None, config, now=FakeClock(datetime(2026, 1, 6, 12, tzinfo=UTC))
        )
        return retriever.smart_search(query, ONE, options=SmartSearchOptions(**options))

    return run


def shape(answer: Any) -> tuple[Any, str, str]:
    """Return reason, timeline (targets in capitals) and details of an answer, ids without their prefix."""
    timeline = " ".join(
        name.upper() if item.is_target else name
        for item in answer.timeline or ()
        for name in [item.id.removeprefix("evt_")]
    )
    return (
        answer.meta.expansion_reason,
        timeline,
        " ".join(item.id.removeprefix("evt_") for item in answer.details or ()),
    )


def test_a_sure_result_is_shown_with_its_timeline_and_whole(search: Search) -> None:
    """One result that is sure: three places on each side, and its whole text."""
    answer = search("about d", {"d": 0.95})
    assert shape(answer) == ("high_confidence_single", "br c cr D dr e er", "d")
    assert answer.meta.expanded_count == 1
    assert (answer.meta.hint, answer.meta.suggested) == ("", ())
    assert answer.details[0].relations.child_ids == ("evt_dr",)


def test_several_that_are_as_good_are_told_apart_by_their_timeline(search: Search) -> None:
    """Three from 0.8 on: the timeline of all three, none whole, and a hint."""
    answer = search("about", {"a": 0.9, "d": 0.88, "g": 0.85, "h": 0.84})
    assert answer.meta.expansion_reason == "ambiguous_multiple_high"
    assert [item.id for item in answer.timeline if item.is_target] == ["evt_a", "evt_d", "evt_g"]
    assert answer.details is None
    assert 'Multiple matches found. Use "show ID" for specific details' in ContextFormatter().answer(answer)


def test_suggested_and_unmapped_give_index_and_hint(search: Search) -> None:
    """A good result that is not sure, and any whose score means nothing: no more than the index and how to go on."""
    for answer in (search("about d", {"d": 0.88}), search("about d", {"d": 0.99}, mapped=False)):
        assert shape(answer) == ("suggested", "", "")
        assert 'Use "show ID" to see details' in ContextFormatter().answer(answer)
    assert search("about d", {"d": 0.88}).meta.suggested == ("evt_d",)


def test_ids_in_the_query_are_shown_whole(search: Search) -> None:
    """What is named by its id is shown, whatever the scores; what does not exist is passed over."""
    assert shape(search("show evt_b and evt_nope", {"d": 0.95})) == ("explicit_id", "", "b")
    assert shape(search("evt_nope", {"d": 0.95}))[0] == "high_confidence_single"
    assert shape(search("evt_b 보여줘", {}, {"auto_expand": {"enabled": False}})) == ("explicit_id", "", "b")
    assert shape(search(" ".join(f"evt_{name}" for name in "abcdef"), {}))[2] == "a b c"


def test_a_wish_for_detail_is_granted(search: Search) -> None:
    """Words that ask for detail show the best result whole, though it is not sure, and others that are."""
    assert shape(search("d 자세히 알려줘", {"d": 0.72, "e": 0.71})) == (
        "user_request",
        "br c cr D dr e er",
        "d",
    )
    assert shape(search("d in detail", {"d": 0.9, "e": 0.86, "f": 0.8}))[2] == "d e"
    assert shape(search("d in detail", {"d": 0.5})) == ("low_confidence", "", "")


def test_a_day_in_the_query_gives_its_timeline(search: Search) -> None:
    """Results of a day stand in their timeline; without any, what was said that day; a day without events is none."""
    answer = search("what did we do yesterday", {"d": 0.75})
    assert shape(answer) == ("temporal_proximity", "br c cr D dr e er", "")
    answer = search("2026-01-05", {})
    assert answer.meta.expansion_reason == "temporal_proximity"
    assert len(answer.timeline) == 16
    assert shape(search("昨日 d", {"d": 0.95, "e": 0.7}))[2] == "d"
    assert shape(search("last week d", {"d": 0.95})) == ("high_confidence_single", "br c cr D dr e er", "d")
    assert shape(search("yesterday", {"d": 0.75}, {"auto_expand": {"enabled": False}})) == (None, "", "")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"disclosure": "index"}, (None, False, False)),
        ({"disclosure": "timeline"}, ("user_request", True, False)),
        ({"disclosure": "details"}, ("user_request", True, True)),
        ({"expand_timeline": False}, ("clear_winner", False, True)),
        ({"expand_details": False}, ("clear_winner", True, False)),
        ({"expand_timeline": False, "expand_details": False}, ("clear_winner", False, False)),
        ({}, ("clear_winner", True, True)),
    ],
)
def test_options_allow_and_forbid(
    search: Search, options: dict[str, Any], wanted: tuple[Any, bool, bool]
) -> None:
    """A layer is shown when it is asked for or decided, and not forbidden."""
    answer = search("about d", {"d": 0.95, "e": 0.8}, **options)
    found = answer.meta.expansion_reason, answer.timeline is not None, answer.details is not None
    assert found == wanted


def test_what_is_asked_for_by_option_is_shown_of_a_weak_result(search: Search) -> None:
    """Options that ask for a layer show that of the first result, however weak it is."""
    for options in ({"expand_timeline": True, "expand_details": True}, {"disclosure": "details"}):
        answer = search("about d", {"d": 0.2}, **options)
        assert shape(answer) == ("user_request", "br c cr D dr e er", "d")


def test_min_score_and_switches(search: Search) -> None:
    """Below `min_score` nothing counts as found; rows stay, marked weak. Expansion can be switched off."""
    answer = search("about d", {"d": 0.95, "e": 0.5}, min_score=0.96)
    assert shape(answer) == ("low_confidence", "", "")
    assert len(answer.index) == 2
    assert "weak" in ContextFormatter().answer(answer)
    assert shape(search("about d", {"d": 0.95}, {"layer1": {"min_score": 0.96}}))[0] == "low_confidence"
    off = search("about d", {"d": 0.95}, {"auto_expand": {"enabled": False}})
    assert shape(off) == (None, "", "")


def test_flat_search_gives_full_texts(search: Search) -> None:
    """Without progressive disclosure every result is shown whole, and within a budget only when one is named."""
    answer = search("about", {"ar": 0.3, "br": 0.2, "cr": 0.1}, {"enabled": False})
    assert shape(answer) == ("flat", "", "ar br cr")
    assert answer.meta.expanded_count == 3
    assert answer.meta.estimated_tokens > 300
    tight = search("about", {"ar": 0.3, "br": 0.2, "cr": 0.1}, {"enabled": False}, max_total_tokens=300)
    assert len(tight.details or ()) < 3


def test_budget_of_settings_and_of_a_call(search: Search) -> None:
    """The settings' budget holds, a call's own before it; too small a one is refused with what to do."""
    long = {"dr": 0.95}
    assert search("about", long, {"token_budget": {"max_total_tokens": 200}}).details is None
    assert search("about", long, {"token_budget": {"max_total_tokens": 200}}, max_total_tokens=2000).details
    with pytest.raises(InputError, match="wanted 100 or more, got 99"):
        search("about", long, max_total_tokens=99)


def test_options_of_a_call_leave_the_settings_alone(world: Any) -> None:
    """A budget, a bound or a layer that one call asks for is gone with the next; answers kept do not carry it over."""
    world.add(*(world.event(f"{n}", f"retry {n} " * 30, n) for n in range(6)))
    retriever = ProgressiveRetriever(world.stores, None, Config())
    before = retriever.smart_search("retry", ONE)
    tight = SmartSearchOptions(max_total_tokens=120, min_score=1.0, disclosure="index")
    assert retriever.smart_search("retry", ONE, options=tight).meta.estimated_tokens <= 120
    assert retriever.smart_search("retry", ONE) == before


def test_many_rows_leave_room(search: Search) -> None:
    """Many rows with a timeline and a whole item keep within the default budget, counted as they are written."""
    scores = {name: 0.95 if name == "d" else 0.75 for name in "dabcefgh"}
    scores |= {f"{name}r": 0.5 for name in "abcdefgh"}
    answer = search("about d", scores)
    assert len(answer.index) == 16
    assert (answer.timeline is not None, answer.details is not None) == (True, True)
    assert answer.meta.estimated_tokens <= 2000


def test_summary_source(world: Any) -> None:
    """`matched` shows the passage that matches, `first_sentence` the text's first; an empty text keeps its label."""
    world.add(world.event("a", "It began well. The cache expires too early. The end."), world.event("b", ""))
    for source, wanted in (("matched", "The cache expires too early."), ("first_sentence", "It began well.")):
        disclosure = ProgressiveDisclosureConfig.model_validate({"summary_source": source})
        config = Config(progressive_disclosure=disclosure)
        (item,) = ProgressiveRetriever(world.stores, None, config).search_index("cache expires", ONE)
        assert item.summary == wanted


def test_scope_of_days_narrows(world: Any) -> None:
    """The days of a query and those of the scope hold both."""
    world.add(world.event("a", "x", 0), world.event("b", "x", 24 * 60), world.event("c", "x", 26 * 60))
    retriever = ProgressiveRetriever(
        world.stores, None, Config(), now=FakeClock(datetime(2026, 1, 6, 20, tzinfo=UTC))
    )
    inside = replace(ONE, until=datetime(2026, 1, 6, 10, tzinfo=UTC))
    answer = retriever.smart_search("what was today", inside)
    assert [item.id for item in answer.timeline or ()] == ["evt_b"]
    assert limits.TIMELINE_ROWS <= limits.TIMELINE_ROWS_MAX
