from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from memory_rows import MemoryRows, minutes

from headwater.query.details import get_details
from headwater.query.retriever import ProgressiveRetriever
from headwater.query.timeline import timeline
from headwater.schemas.answers import Scope
from headwater.schemas.config import Config

ONE = Scope("/p/one")


@pytest.fixture
def stores(world: Any, rows: MemoryRows) -> Any:
    """Two events of session s1 with the memory that is made of them, the session's summary, and strangers' rows."""
    world.add(
        world.event("p", "Why does the webhook time out?"),
        world.event("r", "The webhook waits for the ledger.", 1),
        world.event("q", "Something else", 2),
    )
    rows.memory(
        "m", "The webhook waits for the ledger; it was moved to a queue.", 1, source_events=["evt_p", "evt_r"]
    )
    rows.session("s1", "Asked why the webhook times out. Moved to a queue.", 3)
    rows.memory("x", "The webhook of another project.", 1, project="/p/two")
    rows.session("s9", "The webhook of another project.", 1, project="/p/two")
    return world.stores


def found(stores: Any, query: str, scope: Scope = ONE, top_k: int = 10) -> list[str]:
    """Return the ids of a search's rows."""
    return [
        item.id for item in ProgressiveRetriever(stores, None, Config()).search_index(query, scope, top_k)
    ]


def test_all_kinds_are_found(stores: Any) -> None:
    """Events, the memory and the session's summary stand in one index, as insights, none of another project."""
    assert set(found(stores, "webhook")) == {"evt_p", "evt_r", "mem_m", "ses_s1"}
    items = ProgressiveRetriever(stores, None, Config()).search_index("webhook", ONE)
    assert items[0].id.startswith("evt_")
    assert [item.score for item in items] == sorted((item.score for item in items), reverse=True)
    by_id = {item.id: item for item in items}
    assert (by_id["mem_m"].kind, by_id["mem_m"].session_id, by_id["mem_m"].at) == ("insight", "", minutes(1))
    assert (by_id["ses_s1"].kind, by_id["ses_s1"].session_id) == ("insight", "s1")
    assert len(found(stores, "webhook", top_k=2)) == 2
    assert set(found(stores, "webhook", Scope(None))) >= {"mem_x", "ses_s9"}


def test_summaries_alone_have_no_mapped_score(stores: Any) -> None:
    """When nothing but summaries was found, no score says how sure it is: nothing is expanded."""
    answer = ProgressiveRetriever(stores, None, Config()).smart_search(
        "queue", Scope("/p/one", kinds=("insight",))
    )
    assert {item.id for item in answer.index} == {"mem_m", "ses_s1"}
    assert (answer.timeline, answer.details) == (None, None)


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        (Scope("/p/one", kinds=("insight",)), {"mem_m", "ses_s1"}),
        (Scope("/p/one", kinds=("prompt",)), {"evt_p", "evt_r"}),
        (Scope("/p/one", session_id="s1"), {"evt_p", "evt_r", "ses_s1"}),  # a memory is of no one session
        (Scope("/p/one", agent="codex"), set()),
        (Scope("/p/one", file="a.py"), set()),
        (Scope("/p/one", since=minutes(2)), {"ses_s1"}),
        (Scope("/p/one", until=minutes(1)), {"evt_p"}),
    ],
)
def test_scope_holds_for_summaries(stores: Any, scope: Scope, wanted: set[str]) -> None:
    """Every part of a scope keeps out what is not of it; a summary's time is that of its last event."""
    assert set(found(stores, "webhook", scope)) == wanted
    asked = ["evt_p", "evt_r", "mem_m", "ses_s1"]
    assert {item.id for item in get_details(stores, asked, scope).items} == wanted
    targets = {item.id for item in timeline(stores, asked, scope, 0).items if item.is_target}
    assert targets == wanted


def test_superseded_memory_stands_below_what_holds(world: Any, rows: MemoryRows) -> None:
    """A memory that says what no longer holds comes right after the newer one, and names it."""
    rows.memory("old", "The webhook timeout is ten seconds, the webhook timeout.", superseded_by="mem_new")
    rows.memory("new", "The webhook timeout is thirty seconds now, after some talk about queues.", 5)
    items = ProgressiveRetriever(world.stores, None, Config()).search_index(
        "webhook timeout ten seconds", ONE
    )
    assert [(item.id, item.superseded_by) for item in items] == [("mem_new", None), ("mem_old", "mem_new")]


def test_timeline_of_summaries(stores: Any) -> None:
    """A summary stands behind the last of its events, and the events before it are shown."""
    around = timeline(stores, ["mem_m"], ONE, 3)
    assert [(item.id, item.is_target) for item in around.items] == [
        ("evt_p", False), ("evt_r", False), ("mem_m", True),
    ]  # fmt: skip
    assert [item.id for item in timeline(stores, ["ses_s1"], ONE, 2).items] == ["evt_r", "evt_q", "ses_s1"]
    assert [item.id for item in timeline(stores, ["mem_m", "evt_r"], ONE, 1).items if item.is_target] == [
        "evt_r",
        "mem_m",
    ]
    assert timeline(stores, ["mem_x", "ses_s9"], ONE).unknown == ("mem_x", "ses_s9")


def test_details_of_summaries(stores: Any, rows: MemoryRows) -> None:
    """A memory is shown whole with the events that it is made of, and other memories of its thread, nearest first."""
    rows.memory("far", "Webhook, later", 90)
    rows.memory("near", "Webhook, soon after", 9)
    rows.memory("other", "Another thread", 2, thread_id="thr_b")
    memory, session = get_details(stores, ["mem_m", "ses_s1"], ONE).items
    assert memory.content == "The webhook waits for the ledger; it was moved to a queue."
    assert (memory.kind, memory.session_id) == ("insight", "")
    assert memory.relations.child_ids == ("evt_p", "evt_r")
    assert memory.relations.related_ids == ("mem_near", "mem_far")
    assert (session.id, session.session_id, session.at) == ("ses_s1", "s1", minutes(3))
    assert session.at - memory.at == timedelta(minutes=2)
