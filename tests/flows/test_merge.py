from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.flows.merge import merge
from headwater.schemas.events import Event, FileOp, FileRef, Kind, Part, ToolCall

AT = datetime(2026, 3, 1, tzinfo=UTC)
ENDS = {Part.HOOK: Part.HOOK_BEFORE, Part.TRANSCRIPT: Part.TRANSCRIPT_BEFORE}
PARTS = (Part.HOOK_BEFORE, Part.HOOK, Part.TRANSCRIPT, Part.TRANSCRIPT_BEFORE)
WORDS = st.sampled_from(["", "a", "b", "c"])
EMPTY = {"host": "", "project": "", "files": ()}
MAYBE = st.sampled_from([None, "a", "b"])


def delivery(part: Part, **fields: object) -> Event:
    """Return one delivery of one tool call."""
    event = Event(
        id="e",
        agent="a",
        session_id="s",
        project="/p",
        at=AT,
        kind=Kind.TOOL,
        content=f"told by {part!r}",
        content_hash=f"hash {part!r}",
        tool=ToolCall("Bash", "u"),
        parts=part,
    )
    return replace(event, **fields)  # type: ignore[arg-type]


@st.composite
def told(draw: st.DrawFn, part: Part) -> Event:
    """Draw a delivery."""
    return delivery(
        part,
        at=AT + timedelta(seconds=draw(st.integers(0, 3))),
        at_source=draw(st.sampled_from(["hook", "transcript"])),
        seq=draw(st.integers(0, 3)),
        content=draw(st.sampled_from(["x", "y"])),
        host=draw(WORDS),
        project=draw(WORDS),
        cwd=draw(MAYBE),
        turn_id=draw(MAYBE),
        parent_id=draw(MAYBE),
        agent_id=draw(MAYBE),
        role=draw(MAYBE),
        tool=ToolCall(
            "Bash",
            draw(MAYBE),
            draw(st.sampled_from([None, True, False])),
            draw(MAYBE),
            draw(st.sampled_from([None, 1, 2])),
        ),
        files=draw(st.sampled_from([(), (FileRef("a", FileOp.READ),)])),
        meta=draw(st.dictionaries(st.sampled_from(["m", "n"]), st.sampled_from(["1", "2"]))),
    )


@st.composite
def deliveries(draw: st.DrawFn) -> list[Event]:
    """Draw up to four deliveries of one fact; an announcement tells a part of what its end tells."""
    found = {part: draw(told(part)) for part in PARTS}
    for end, before in ENDS.items():
        found[before] = announce(draw, found[before], found[end])
    return [found[part] for part in draw(st.sets(st.sampled_from(PARTS), min_size=1))]


def announce(draw: st.DrawFn, before: Event, end: Event) -> Event:
    """Return an announcement that leaves out some of the fields of its end, and agrees in the others."""
    names = ("host", "project", "cwd", "turn_id", "parent_id", "agent_id", "files")
    fields: dict[str, Any] = {
        name: getattr(end, name) if draw(st.booleans()) else EMPTY.get(name) for name in names
    }
    tool = end.tool if draw(st.booleans()) else ToolCall("Bash")
    return replace(before, **fields, tool=tool, meta=end.meta if draw(st.booleans()) else {})


def test_call_and_result_are_one_event() -> None:
    """The result brings text, outcome and time; nothing of the call is lost."""
    before = delivery(Part.HOOK_BEFORE, files=(FileRef("a", FileOp.READ),))
    after = delivery(
        Part.HOOK, at=AT + timedelta(seconds=2), seq=9, tool=ToolCall("Bash", "u", ok=True, duration_ms=5)
    )
    one = merge(before, after)
    assert one.content == after.content
    assert one.content_hash == after.content_hash
    assert (one.at, one.seq) == (after.at, 9)
    assert one.tool == after.tool
    assert one.files == before.files
    assert one.parts == Part.HOOK_BEFORE | Part.HOOK


def test_time_is_the_transcripts_and_text_the_hooks() -> None:
    """Hook and transcript of one fact share out what each tells best, whichever came first."""
    hook = delivery(Part.HOOK, at=AT + timedelta(seconds=1))
    transcript = delivery(Part.TRANSCRIPT, at_source="transcript")
    for one in (merge(hook, transcript), merge(transcript, hook)):
        assert one.content == hook.content
        assert (one.at, one.at_source) == (AT, "transcript")


@given(deliveries())
def test_order_never_matters(events: list[Event]) -> None:
    """All orders of merging one after the other give the same event."""
    results = []
    for order in permutations(events):
        held = order[0]
        for event in order[1:]:
            held = merge(held, event)
        results.append(held)
    assert all(result == results[0] for result in results)


@given(deliveries())
def test_grouping_never_matters(events: list[Event]) -> None:
    """Merging merged halves gives what merging one by one gives."""
    if len(events) < 3:
        return
    one, two, three = events[:3]
    assert merge(merge(one, two), three) == merge(one, merge(two, three))


@given(told(Part.HOOK), told(Part.HOOK))
def test_two_of_one_rank_merge_alike_in_both_orders(one: Event, two: Event) -> None:
    """Even two different deliveries of the same part have one result."""
    assert merge(one, two) == merge(two, one)


@given(deliveries())
def test_telling_again_changes_nothing(events: list[Event]) -> None:
    """Merging a delivery a second time leaves the event as it is."""
    held = events[0]
    for event in events[1:]:
        held = merge(held, event)
    assert merge(held, held) == held
    assert all(merge(held, event) == held for event in events)
