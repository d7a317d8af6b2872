from __future__ import annotations

import json
from typing import Any

import pytest
from journal_lines import drafted, encode, envelope, payload

from headwater.flows.event_writer import EMBEDDED_KINDS, EventWriter, RepeatCounter, vector_requests
from headwater.schemas.events import Event, Kind, Part, ToolCall
from headwater.storage.journal import RawLine
from headwater.storage.known_ids import KnownIds

PROMPT = payload("UserPromptSubmit", prompt="find the leak", prompt_id="p1")
CALL: dict[str, Any] = {
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_use_id": "u1",
    "prompt_id": "p1",
}
BEFORE = payload("PreToolUse", **CALL)
AFTER = payload("PostToolUse", tool_response={"stdout": "a.txt"}, **CALL)
ANSWER = payload("Stop", last_assistant_message="found it", prompt_id="p1")
NOISE = payload("Notification", message="m")
UNKNOWN = "no object"


def lines(*told: Any, every_s: float = 3.0) -> list[RawLine]:
    """Return journal lines of payloads, so many seconds apart; a pair of (payload, seconds) says when itself."""
    made: list[RawLine] = []
    offset = 0
    for n, one in enumerate(told):
        content, at_s = one if isinstance(one, tuple) else (one, n * every_s)
        data = encode(envelope(content, at_s))
        made.append(RawLine("f@1", offset, data))
        offset += len(data) + 1
    return made


ALL = lines(PROMPT, BEFORE, AFTER, AFTER, ANSWER, NOISE, UNKNOWN)
ALL_FATES = {"event": 3, "merged": 1, "duplicate": 1, "noise": 1, "quarantined": 1}


def test_each_fact_is_one_event_and_each_line_has_one_fate(bench: Any) -> None:
    """Prompt, call and answer are three events; the other lines are merged, told twice, noise or set aside."""
    bench.run(ALL)
    events = sorted(bench.events().values(), key=lambda event: event.at)
    assert [event.kind for event in events] == [Kind.PROMPT, Kind.TOOL, Kind.RESPONSE]
    assert events[1].parts == Part.HOOK_BEFORE | Part.HOOK
    assert events[1].tool == ToolCall("Bash", "u1", ok=True)
    assert events[1].parent_id == events[2].parent_id == events[0].id
    assert bench.fates() == ALL_FATES
    assert sum(bench.fates().values()) == len(ALL)


def test_every_text_gets_one_job(bench: Any) -> None:
    """Each event with a text asks for a vector of the text it has in the end."""
    bench.run(ALL)
    assert bench.jobs() == {event.id: event.content_hash for event in bench.events().values()}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_batches_cut_anywhere_give_the_same(bench: Any, size: int) -> None:
    """However the lines fall into batches, events, jobs and fates are the same."""
    for start in range(0, len(ALL), size):
        bench.run(ALL[start : start + size])
    assert bench.fates() == ALL_FATES
    assert len(bench.events()) == 3
    assert bench.jobs() == {event.id: event.content_hash for event in bench.events().values()}


def test_same_lines_again_change_nothing(bench: Any) -> None:
    """Lines with a fate are passed over: table, jobs and counts stay as they are."""
    bench.run(ALL)
    events, jobs, version = bench.events(), bench.jobs(), bench.table.version
    bench.start()
    bench.run(ALL)
    assert (bench.events(), bench.jobs(), bench.fates()) == (events, jobs, ALL_FATES)
    assert bench.table.version == version
    assert len(bench.quarantine.read_text().splitlines()) == 1


def test_result_before_its_call_gives_the_same_event(bench: Any) -> None:
    """An order turned round by parallel hooks changes neither the event nor the number of them."""
    bench.run(lines((AFTER, 1), (BEFORE, 0)))
    (event,) = bench.events().values()
    assert bench.fates() == {"event": 1, "merged": 1}
    assert (event.content, event.tool) == ("$ ls\na.txt", ToolCall("Bash", "u1", ok=True))
    assert event.parts == Part.HOOK_BEFORE | Part.HOOK


def test_call_without_a_result_stays_open(bench: Any) -> None:
    """A PreToolUse alone is an event whose outcome is unknown."""
    bench.run(lines(BEFORE))
    (event,) = bench.events().values()
    assert event.tool == ToolCall("Bash", "u1")


def test_call_that_fails_is_one_failed_event(bench: Any) -> None:
    """A failure closes its call."""
    bench.run(lines(BEFORE, payload("PostToolUseFailure", error="Exit code 1", **CALL)))
    (event,) = bench.events().values()
    assert event.tool == ToolCall("Bash", "u1", ok=False, error="Exit code 1")


def test_equal_prompts_with_ids_are_as_many_events(bench: Any) -> None:
    """The same words said three times on purpose are three prompts, at whatever pace."""
    bench.run(
        lines(
            *(payload("UserPromptSubmit", prompt="go on", prompt_id=f"p{n}") for n in range(3)), every_s=0.1
        )
    )
    assert len(bench.events()) == 3


def test_prompt_delivered_twice_is_one_event(bench: Any) -> None:
    """Two installs that send the same prompt with its id are one event, however far apart."""
    bench.run(lines(PROMPT, PROMPT, every_s=60))
    assert bench.fates() == {"event": 1, "duplicate": 1}


@pytest.mark.parametrize(("every_s", "events"), [(3.0, 3), (2.1, 3), (2.0, 1), (0.1, 1)])
def test_equal_prompts_without_ids_are_told_apart_by_time(bench: Any, every_s: float, events: int) -> None:
    """Equal words within two seconds are one delivery, further apart they were said again."""
    bench.run(lines(*[payload("UserPromptSubmit", prompt="go on")] * 3, every_s=every_s))
    assert len(bench.events()) == bench.event_count() == events
    assert sum(bench.fates().values()) == 3


def test_calls_without_ids_meet_their_results(bench: Any) -> None:
    """The first announcement belongs to the first end, the second to the second, also when the first failed."""
    asked: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "make"}}
    before, failed = payload("PreToolUse", **asked), payload("PostToolUseFailure", error="no", **asked)
    passed = payload("PostToolUse", tool_response="ok", **asked)
    bench.run(lines(before, failed, before, passed))
    calls = sorted(bench.events().values(), key=lambda event: event.at)
    assert [event.tool.ok for event in calls] == [False, True]
    assert bench.fates() == {"event": 2, "merged": 2}


def test_compactions_of_one_turn_are_several_events(bench: Any) -> None:
    """A long turn that is compacted twice keeps both summaries."""

    def compaction(summary: str) -> list[dict[str, Any]]:
        return [
            payload("PreCompact", trigger="auto", prompt_id="p1"),
            payload("PostCompact", trigger="auto", compact_summary=summary, prompt_id="p1"),
        ]

    bench.run(lines(*compaction("one"), *compaction("two")))
    assert sorted(event.content for event in bench.events().values()) == ["one", "two"]


def test_session_starts_of_one_session_are_several_events(bench: Any) -> None:
    """Two resumes of a session are two events, one told twice at once is one."""
    resume = payload("SessionStart", source="resume")
    bench.run(lines((resume, 0), (resume, 0.2), (resume, 60)))
    assert bench.fates() == {"event": 2, "duplicate": 1}


def test_lines_without_a_turn_inherit_it(bench: Any) -> None:
    """Old payloads without ids are joined to the prompt before them."""
    bench.run(
        lines(
            payload("UserPromptSubmit", prompt="x"),
            payload("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}),
        )
    )
    prompt, call = sorted(bench.events().values(), key=lambda event: event.at)
    assert (call.parent_id, call.turn_id, prompt.turn_id) == (prompt.id, prompt.id, prompt.id)


# --- crashes ---


class Crash(BaseException):
    """The process dies here."""


STEPS = [
    ("known", "occurrence"),
    ("known", "fates"),
    ("known", "lookup"),
    ("known", "forget"),
    ("known", "intend"),
    ("table", "by_ids"),
    ("table", "add"),
    ("table", "upsert"),
    ("outbox", "enqueue_batch"),
    ("known", "settle"),
]
STORY = [
    ALL[:2],  # a prompt, and a call that is open
    ALL[2:],  # its result, told twice; an answer; noise; a bad line
    lines(  # words said twice, a call that is told whole in one batch, an end
        *[payload("UserPromptSubmit", prompt="go on")] * 2,
        BEFORE | {"tool_use_id": "u2"},
        AFTER | {"tool_use_id": "u2"},
        payload("SessionEnd", reason="other"),
    ),
]
STORY[2] = [RawLine("g@2", line.offset, line.data) for line in STORY[2]]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", [0, 1, 2])
@pytest.mark.parametrize("step", STEPS, ids=".".join)
def test_crash_between_any_two_steps_changes_nothing(
    bench: Any, monkeypatch: pytest.MonkeyPatch, step: tuple[str, str], call: int, when: str
) -> None:
    """Dying before or after any write and beginning again gives each event once, each line a fate, each text a job."""
    place, method = step
    target = getattr(bench, place)
    real = getattr(target, method)
    left = call

    def dying(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0 and when == "before":
            raise Crash
        value = real(*args, **kwargs)
        if left < 0:
            raise Crash
        return value

    type_ = type(target)
    with monkeypatch.context() as patch:
        patch.setattr(type_, method, lambda self, *args, **kwargs: dying(*args, **kwargs))
        try:
            for batch in STORY:
                bench.run(batch)
        except Crash:
            pass
    for _ in range(2):  # what was read after the last snapshot is read again; here: everything
        bench.start()
        for batch in STORY:
            bench.run(batch)
    events = bench.events()
    assert len(events) == 7
    assert bench.fates() == {**ALL_FATES, "event": 7, "merged": 2}
    assert sum(bench.fates().values()) == sum(map(len, STORY))
    embedded = {event.id: event.content_hash for event in events.values() if event.kind in EMBEDDED_KINDS}
    assert bench.jobs() == embedded
    assert sorted(event.tool.ok for event in events.values() if event.tool is not None) == [True, True]
    assert 1 <= len(bench.quarantine.read_text().splitlines()) <= 2
    assert bench.known.intents() == []
    assert bench.known.count_ids() == 7


# --- when one of the stores is lost ---


def test_lost_register_is_made_again(bench: Any) -> None:
    """Without ids.sqlite the table's ids are adopted; reading everything again adds nothing, with the same fates."""
    for batch in STORY:
        bench.run(batch)
    events, fates = bench.events(), bench.fates()
    bench.close()
    for path in bench.folder.glob("ids.sqlite*"):
        path.unlink()
    bench.known = KnownIds(bench.folder / "ids.sqlite")
    bench.start()
    assert bench.writer.complete
    assert bench.known.count_ids() == len(events)
    for batch in STORY:
        bench.run(batch)
    assert bench.events() == events
    assert bench.fates() == fates


def test_lost_rows_are_noticed(bench: Any) -> None:
    """A table that lost rows is not complete, and the register does not claim them any more."""
    bench.run(ALL)
    victim = next(iter(bench.events()))
    bench.table.delete(f"id = '{victim}'")
    writer = EventWriter(bench.table, bench.known)
    assert not writer.complete
    assert victim not in bench.known.all_ids()
    assert EventWriter(bench.table, bench.known).complete


def test_intents_that_did_not_reach_the_table_are_dropped(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id that was only meant to be written is not known after a restart."""

    def die(rows: object) -> None:
        raise Crash

    monkeypatch.setattr(bench.table, "add", die)
    with pytest.raises(Crash):
        bench.run(ALL)
    assert bench.known.intents()
    monkeypatch.undo()
    bench.start()
    assert bench.known.intents() == []
    assert bench.known.count_ids() == 0


# --- counting and dropping ---


def test_counter_leaves_final_ids_alone(bench: Any) -> None:
    """A fact with an id of its own is not counted."""
    draft = drafted(PROMPT)
    assert RepeatCounter(bench.known).number_repeats(draft) is draft


def test_counter_gives_a_record_the_same_number_again(bench: Any) -> None:
    """A replay of a record gets the number it had, and equal facts of other files begin anew."""
    counter = RepeatCounter(bench.known)
    go_on = payload("UserPromptSubmit", prompt="go on")
    first, second = drafted(go_on, 0, 0), drafted(go_on, 10, 500)
    numbered = [counter.number_repeats(draft).event.id for draft in (first, second, first, second)]
    assert numbered[0] == numbered[2] != numbered[1] == numbered[3]
    other = drafted(go_on, 0, 9, source={"file": "copy.json", "offset": 0, "n": 0})
    assert counter.number_repeats(other).event.id == numbered[0]


def test_quarantine_holds_place_reason_and_beginning(bench: Any) -> None:
    """What was set aside can be looked up: where, why, and how it begins."""
    bench.run(lines(UNKNOWN))
    (line,) = bench.quarantine.read_text(encoding="utf-8").splitlines()
    found = json.loads(line)
    assert (found["file"], found["offset"], found["excerpt"]) == ("f@1", 0, UNKNOWN)
    assert "wanted an object" in found["reason"]
    assert found["at"].endswith("Z")


def test_jobs_are_for_texts_alone() -> None:
    """Session marks and empty texts get no vector."""
    event = drafted(PROMPT).event
    from dataclasses import replace

    made: list[Event] = [
        event,
        replace(event, id="e2", kind=Kind.SESSION_START),
        replace(event, id="e3", content=" \n"),
        replace(event, id="e4", content=""),
    ]
    assert [request.item_id for request in vector_requests(made, "v")] == [event.id]


def test_without_a_model_nothing_is_enqueued(bench: Any) -> None:
    """No embedding version, no jobs: they are found when there is one."""
    bench.settler._version = None
    bench.run(ALL)
    assert bench.jobs() == {}
    assert bench.fates() == ALL_FATES
