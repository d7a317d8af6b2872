from __future__ import annotations

import dataclasses
import pickle
from datetime import UTC, datetime

import pytest

from headwater.schemas.answers import Scope, SearchAnswer, SearchMeta
from headwater.schemas.events import Event, Fate, Kind, Part, Position

AT = datetime(2026, 1, 5, tzinfo=UTC)


def test_values_are_frozen_and_travel() -> None:
    """An event cannot be changed, and is the same after a pickle, as between processes."""
    event = Event("evt_1", "claude-code", "s", "/p", AT, Kind.PROMPT, "hello")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.content = "other"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(event)) == event


def test_positions_sort_by_file_and_place() -> None:
    """Positions are in reading order, and can be keys."""
    places = [Position("b", 1), Position("a", 10), Position("a", 2)]
    assert sorted(places) == [Position("a", 2), Position("a", 10), Position("b", 1)]
    assert len({*places, Position("b", 1)}) == 3


def test_parts_are_bits() -> None:
    """Deliveries add up, and each is found in the sum."""
    both = Part.HOOK | Part.TRANSCRIPT
    assert Part.HOOK in both
    assert Part.HOOK_BEFORE not in both
    assert len({int(part) for part in Part}) == len(list(Part)) == 4


def test_names_are_the_stored_ones() -> None:
    """Kinds and fates are stored by their names: these must never change."""
    assert [str(kind) for kind in Kind] == [
        *("prompt", "response", "tool", "insight", "session_start", "session_end", "compact", "note")
    ]
    assert [str(fate) for fate in Fate] == ["event", "duplicate", "merged", "noise", "quarantined"]


def test_a_scope_names_its_project() -> None:
    """A read has to say one project or all of them; an answer without expansions says so by None."""
    with pytest.raises(TypeError):
        Scope()  # type: ignore[call-arg]
    assert Scope(project=None).kinds == ()
    assert SearchAnswer((), None, None, SearchMeta(0, 0, 0, "no_results")).details is None
