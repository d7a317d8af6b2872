from __future__ import annotations

from typing import Any

import pytest
from memory_rows import MemoryRows

from headwater.query.details import get_details
from headwater.schemas import limits
from headwater.schemas.answers import Scope
from headwater.schemas.errors import InputError
from headwater.schemas.events import Kind

ONE = Scope("/p/one")


@pytest.fixture
def turn(world: Any) -> Any:
    """A prompt with two tools and a response, and a stranger in another project."""
    world.add(
        world.event("p", "Why does it fail?\n" * 300, files=["src/a.py"]),
        world.event("t2", "```sh\nls\n```", 2, kind=Kind.TOOL, tool="Bash", parent_id="evt_p", seq=2),
        world.event(
            "t1", "read", 1, kind=Kind.TOOL, tool="Read", parent_id="evt_p", files=["b.py", "b.py", "c.py"]
        ),
        world.event("r", "Because of b.py", 3, kind=Kind.RESPONSE, parent_id="evt_p"),
        world.event("x", "secret", 1, project="/p/two", parent_id="evt_p"),
    )
    return world


def test_whole_items_in_the_order_asked(turn: Any) -> None:
    """Each item once, whole, in the order asked; what is unknown or in another project is named."""
    found = get_details(turn.stores, ["evt_r", "evt_p", "evt_nope", "evt_r", "evt_x"], ONE)
    assert [item.id for item in found.items] == ["evt_r", "evt_p"]
    assert found.items[1].content == "Why does it fail?\n" * 300
    assert found.unknown == ("evt_nope", "evt_x")


def test_relations(turn: Any) -> None:
    """A prompt has its tools and response as children, in order; each of them has the prompt as parent."""
    prompt, tool = get_details(turn.stores, ["evt_p", "evt_t1"], ONE).items
    assert prompt.relations.parent_id is None
    assert prompt.relations.child_ids == ("evt_t1", "evt_t2", "evt_r")
    assert tool.relations.parent_id == "evt_p"
    assert tool.relations.child_ids == tool.relations.related_ids == ()


def test_children_are_told_whatever_the_scope_but_the_project(turn: Any) -> None:
    """A scope of prompts still names a prompt's tools; another project's event is no child here."""
    (prompt,) = get_details(turn.stores, ["evt_p"], Scope("/p/one", kinds=("prompt",))).items
    assert len(prompt.relations.child_ids) == 3
    (prompt,) = get_details(turn.stores, ["evt_p"], Scope(None)).items
    assert "evt_x" in prompt.relations.child_ids


def test_metadata(turn: Any) -> None:
    """Tokens, code, files and tools of an item, each once; a prompt names the tools that it led to."""
    prompt, read, bash = get_details(turn.stores, ["evt_p", "evt_t1", "evt_t2"], ONE).items
    assert 900 < prompt.metadata.token_count < 2_000
    assert (prompt.metadata.has_code, read.metadata.has_code, bash.metadata.has_code) == (False, False, True)
    assert prompt.metadata.files == ("src/a.py",)
    assert prompt.metadata.tools == ("Read", "Bash")
    assert read.metadata.files == ("b.py", "c.py")
    assert read.metadata.tools == ("Read",)


def test_nothing_asked_or_nothing_there(world: Any) -> None:
    """No ids, or an empty table, give no items; too many ids are refused."""
    assert get_details(world.stores, [], ONE).items == ()
    assert get_details(world.stores, ["evt_a"], ONE).unknown == ("evt_a",)
    with pytest.raises(InputError):
        get_details(world.stores, [str(n) for n in range(limits.DETAILS_MAX + 1)], ONE)


def test_related_are_the_nearest_of_the_thread(turn: Any, rows: MemoryRows) -> None:
    """RELATED others of the same thread, nearest in time first, but for parent and children, across sessions."""
    turn.add(*(turn.event(f"n{n}", "again", 10 * n, session_id=f"s{n}") for n in range(1, 8)))
    turn.add(turn.event("z", "another thread", 5))
    thread = [
        ("evt_p", 0),
        ("evt_t1", 1),
        ("evt_t2", 2),
        ("evt_r", 3),
        *((f"evt_n{n}", 10 * n) for n in range(1, 8)),
    ]
    for event_id, minute in thread:
        rows.threaded(event_id, "thr_a", minute)
    rows.threaded("evt_z", "thr_b", 5)
    rows.threaded("evt_x", "thr_a", 1, project="/p/two")
    prompt, other = get_details(turn.stores, ["evt_p", "evt_n4"], ONE).items
    assert len(prompt.relations.related_ids) == limits.RELATED
    assert prompt.relations.related_ids == ("evt_n1", "evt_n2", "evt_n3", "evt_n4", "evt_n5")
    assert other.relations.related_ids == (
        "evt_n5",
        "evt_n3",
        "evt_n6",
        "evt_n2",
        "evt_n7",
    )  # equally near: newer
