from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.control import (
    PAUSED_OPEN,
    Consolidation,
    ControlState,
    Decision,
    DecisionKind,
    encode_decision,
    fold,
    make_decision,
    parse_decision,
)

NAMES = st.sampled_from(["/a", "/b", "/c", ""])
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["session", "endless", "other"]),
        "id": NAMES,
        "pinned": st.booleans(),
        "ids": st.lists(NAMES, max_size=2),
        "from": NAMES,
        "to": NAMES,
        "project": NAMES,
        "until_ns": st.none() | st.integers(-1, 5),
    },
)
DECISIONS = st.lists(
    st.builds(
        Decision,
        id=st.sampled_from(["ctl_1", "ctl_2", "ctl_3", "ctl_4", "ctl_5"]),
        at_ns=st.integers(0, 3),
        kind=st.sampled_from([*DecisionKind, "dance"]),
        args=ARGS,
        by=st.just("cli"),
        offset=st.integers(0, 3),
    ),
    max_size=8,
)


def decisions(*told: tuple[str, dict[str, Any]]) -> list[Decision]:
    """Return decisions, one per nanosecond, each at its own offset."""
    return [Decision(f"ctl_{n}", n, kind, args, "cli", offset=n * 100) for n, (kind, args) in enumerate(told)]


@given(st.data())
def test_the_order_of_arrival_means_nothing(data: st.DataObject) -> None:
    """Any permutation of the same decisions, and telling all of them twice, gives the same state."""
    told = data.draw(DECISIONS)
    mixed = data.draw(st.permutations(told))
    assert fold(mixed) == fold(told) == fold([*told, *mixed])


@given(DECISIONS)
def test_a_decision_survives_the_journal(told: list[Decision]) -> None:
    """What is written is what is read, and nothing that can be decided stops the fold."""
    again = [parse_decision(encode_decision(one), one.offset) for one in told]
    assert again == told
    assert fold(again) == fold(told)


def test_nothing_decided() -> None:
    """Without a decision there is no mode and every project has its own name."""
    assert fold([]) == ControlState()
    assert fold([]).mode is None
    assert fold([]).project("/a") == "/a"


def test_the_last_decision_holds() -> None:
    """Time decides, then the place in the file; a pin can be taken away, a forgotten id stays so."""
    state = fold(
        decisions(
            ("mode", {"mode": "endless"}),
            ("pin", {"id": "m1"}),
            ("pin", {"id": "m2", "pinned": True}),
            ("pin", {"id": "m1", "pinned": False}),
            ("forget", {"ids": ["e1", "e2"]}),
            ("forget", {"ids": ["e2", "e3"]}),
            ("consolidate", {"project": "/a"}),
            ("mode", {"mode": "session"}),
        )
    )
    assert state.mode == "session"
    assert state.pins == {"m2"}
    assert state.forgets == {"e1", "e2", "e3"}
    assert state.consolidations == (Consolidation(6, "/a"),)
    same_time = [
        Decision(f"ctl_{mode}", 5, "mode", {"mode": mode}, "cli", offset)
        for mode, offset in (("endless", 90), ("session", 10))
    ]
    assert fold(same_time).mode == "endless"


def test_projects_that_move() -> None:
    """Moves follow one another; a project that moves back is where it was."""
    there = ("project_move", {"from": "/a", "to": "/b"})
    on = ("project_move", {"from": "/b", "to": "/c"})
    back = ("project_move", {"from": "/c", "to": "/a"})
    assert fold(decisions(there, on)).moves == {"/a": "/c", "/b": "/c"}
    state = fold(decisions(there, on, back))
    assert [state.project(name) for name in ("/a", "/b", "/c", "/d")] == ["/a", "/a", "/a", "/d"]


@pytest.mark.parametrize(
    ("told", "until_ns"), [([None], PAUSED_OPEN), ([70], 70), ([None, 0], None), ([9, 80], 80)]
)
def test_pauses(told: list[int | None], until_ns: int | None) -> None:
    """A pause lasts until its time, or until it is ended."""
    assert fold(decisions(*(("pause", {"until_ns": one}) for one in told))).paused_until_ns == until_ns


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("dance", {"mode": "endless"}),
        ("mode", {"mode": "other"}),
        ("mode", {}),
        ("mode", {"mode": ["session"]}),
        ("pin", {"id": 5}),
        ("pin", {"id": "m", "pinned": "no"}),
        ("forget", {"ids": "e1"}),
        ("forget", {"ids": [1]}),
        ("consolidate", {"project": ""}),
        ("project_move", {"from": "/a"}),
        ("pause", {}),
        ("pause", {"until_ns": True}),
        ("pause", {"until_ns": -1}),
    ],
)
def test_what_means_nothing_is_kept_and_changes_nothing(kind: str, args: dict[str, Any]) -> None:
    """Unknown kinds and arguments stay on record for a version that knows them."""
    told = decisions(("mode", {"mode": "endless"}), (kind, args))
    state = fold(told)
    assert state == ControlState(mode="endless", ignored=(told[1],))


def test_the_same_decision_has_the_same_id() -> None:
    """An id is derived from what was decided, when and by whom."""
    one = make_decision("mode", {"mode": "endless"}, at_ns=5, by="cli")
    assert one.id == make_decision("mode", {"mode": "endless"}, at_ns=5, by="cli").id
    others = [
        make_decision("mode", {"mode": "session"}, at_ns=5, by="cli"),
        make_decision("mode", {"mode": "endless"}, at_ns=6, by="cli"),
        make_decision("mode", {"mode": "endless"}, at_ns=5, by="mcp"),
        make_decision("pin", {"mode": "endless"}, at_ns=5, by="cli"),
    ]
    assert len({one.id, *(other.id for other in others)}) == 5


def test_a_line_of_a_later_version_is_of_an_unknown_kind() -> None:
    """The same words may mean something else there."""
    line = json.loads(encode_decision(make_decision("mode", {"mode": "endless"}, at_ns=5, by="cli")))
    later = parse_decision(json.dumps(line | {"v": 2}).encode(), 0)
    assert later.kind == "mode@v2"
    assert fold([later]).mode is None
    assert fold([later]).ignored == (later,)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "wanted JSON"),
        (b"\xff", "wanted JSON"),
        (b"[" * 100_000, "wanted JSON"),
        (b"[]", "wanted an object"),
        (b'{"v":1}', "wanted str in 'id'"),
        (b'{"v":1,"id":"x","at_ns":true,"kind":"mode","args":{},"by":"cli"}', "wanted int in 'at_ns'"),
        (b'{"v":1,"id":"x","at_ns":1,"kind":"mode","args":[],"by":"cli"}', "wanted dict in 'args'"),
        (b'{"v":"1","id":"x","at_ns":1,"kind":"mode","args":{},"by":"cli"}', "wanted a version"),
        (b'{"v":1,"id":"","at_ns":1,"kind":"mode","args":{},"by":"cli"}', "wanted a version and an id"),
    ],
)
def test_a_line_that_is_no_decision(data: bytes, said: str) -> None:
    """The error says what was wanted."""
    with pytest.raises(ValueError, match=said):
        parse_decision(data, 0)
