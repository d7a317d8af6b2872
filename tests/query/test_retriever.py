from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from headwater.query import format as fmt
from headwater.query.formatter import ContextFormatter
from headwater.query.retriever import ProgressiveRetriever, SmartSearchOptions
from headwater.schemas.answers import Scope
from headwater.schemas.config import Config
from headwater.schemas.events import Kind

ONE = Scope("/p/one")
INDEX = SmartSearchOptions(disclosure="index")


@pytest.fixture
def retriever(world: Any) -> ProgressiveRetriever:
    """A retriever over one turn."""
    world.add(
        world.event("p", "왜 검색이 실패하나요? Why does the search fail?", files=["src/a.py"]),
        world.event("t", "ran it", 1, kind=Kind.TOOL, tool="Bash", parent_id="evt_p"),
        world.event(
            "r", "The search fails since the index is empty. " * 10, 2, kind=Kind.RESPONSE, parent_id="evt_p"
        ),
    )
    return ProgressiveRetriever(world.stores, None, Config())


def test_three_layers(retriever: ProgressiveRetriever) -> None:
    """Index, timeline and details of the same item."""
    found = retriever.search_index("search fail", ONE)
    assert {item.id for item in found} == {"evt_p", "evt_r"}
    around = retriever.get_timeline(["evt_t", "nope"], ONE, 1)
    assert [(item.id, item.is_target) for item in around.items] == [
        ("evt_p", False),
        ("evt_t", True),
        ("evt_r", False),
    ]
    assert around.unknown == ("nope",)
    (detail,) = retriever.get_details(["evt_p"], ONE).items
    assert detail.relations.child_ids == ("evt_t", "evt_r")


def test_smart_search_of_the_index_alone(retriever: ProgressiveRetriever) -> None:
    """The answer has layer 1, its size, and says that nothing was expanded."""
    answer = retriever.smart_search("search", ONE, 1, SmartSearchOptions(disclosure="index"))
    assert len(answer.index) == 1
    assert (answer.timeline, answer.details) == (None, None)
    assert answer.meta.total_matches == 2
    assert (answer.meta.expanded_count, answer.meta.expansion_reason) == (0, None)
    assert answer.meta.hint == 'Use "show ID" to see details'
    assert 10 < answer.meta.estimated_tokens < 100


def test_configured_number_of_rows(world: Any) -> None:
    """Without `top_k` the configured number is asked for."""
    world.add(*(world.event(f"{n}", f"same {n}") for n in range(12)))
    assert len(ProgressiveRetriever(world.stores, None, Config()).search_index("same", ONE)) == 10


def test_json_has_exactly_the_published_keys(retriever: ProgressiveRetriever) -> None:
    """Every layer is JSON with the published keys, times in UTC, null where nothing was expanded."""
    answer = fmt.answer_json(retriever.smart_search("search", ONE, options=INDEX))
    assert json.loads(json.dumps(answer)) == answer
    assert list(answer) == ["index", "timeline", "details", "meta"]
    assert (answer["timeline"], answer["details"]) == (None, None)
    index = ["id", "summary", "score", "kind", "at", "session_id", "project", "folded", "superseded_by"]
    assert list(answer["index"][0]) == index
    meta = ["total_matches", "expanded_count", "estimated_tokens", "expansion_reason"]
    assert list(answer["meta"]) == [*meta, "suggested", "hint", "left_out", "left_out_more"]
    (row, *_) = (fmt.timeline_json(item) for item in retriever.get_timeline(["evt_p"], ONE).items)
    assert list(row) == ["id", "at", "kind", "preview", "is_target", "session_id"]
    assert row["at"] == "2026-01-05T09:00:00.000000Z"
    (detail,) = (fmt.detail_json(item) for item in retriever.get_details(["evt_p"], ONE).items)
    assert list(detail) == ["id", "content", "kind", "at", "session_id", "metadata", "relations"]
    assert detail["metadata"] == {
        "token_count": detail["metadata"]["token_count"],
        "has_code": False,
        "files": ["src/a.py"],
        "tools": ["Bash"],
    }
    assert detail["relations"] == {"parent_id": None, "child_ids": ["evt_t", "evt_r"], "related_ids": []}


def test_text_fits_80_columns(retriever: ProgressiveRetriever) -> None:
    """What a person sees fits a terminal, wide characters counted double, weak rows marked."""
    answer = retriever.smart_search("검색 search fail", ONE, options=SmartSearchOptions(min_score=1.0))
    text = ContextFormatter().answer(answer)
    assert "weak" in text
    sure = SmartSearchOptions(min_score=0.0)
    assert "weak" not in ContextFormatter().answer(
        retriever.smart_search("검색 search fail", ONE, options=sure)
    )
    assert "evt_p" in text
    timeline = fmt.timeline_text(retriever.get_timeline(["evt_r"], ONE).items)
    assert "> " in timeline
    for line in [*text.splitlines(), *timeline.splitlines()]:
        assert fmt.width(line) <= fmt.COLUMNS


def test_what_a_row_stands_for_is_told(retriever: ProgressiveRetriever) -> None:
    """Near-duplicates are counted under their row, and what was superseded names what holds now."""
    (item,) = retriever.search_index("search", ONE, 1)
    text = fmt.index_text([replace(item, folded=2, superseded_by="mem_new")])
    assert text.splitlines()[-2:] == ["    also 2 times much the same", "    superseded by mem_new"]


def test_text_of_details_and_of_nothing(retriever: ProgressiveRetriever) -> None:
    """Details show the whole text under their facts; an empty answer says so."""
    text = fmt.details_text(retriever.get_details(["evt_p", "evt_t"], ONE).items)
    for part in (
        "왜 검색이 실패하나요?",
        "children: evt_t, evt_r",
        "parent: evt_p",
        "files: src/a.py",
        "tools: Bash",
    ):
        assert part in text
    assert ContextFormatter().answer(retriever.smart_search("zebra", ONE)) == "Nothing found."


@pytest.mark.parametrize("text", ["한" * 200, "a" * 200, "e\u0301" * 100, "", "word " * 50])
def test_wrap_loses_nothing(text: str) -> None:
    """Wrapped lines fit and hold every character but the spaces they were broken at."""
    lines = fmt.wrap(text, "    ")
    assert all(fmt.width(line) <= fmt.COLUMNS for line in lines)
    assert "".join(line.strip() for line in lines).replace(" ", "") == text.replace(" ", "")
