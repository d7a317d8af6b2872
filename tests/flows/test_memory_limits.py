"""Every limit of features, threads and memories, reached with its own value."""

from __future__ import annotations

from datetime import timedelta

from project_events import AT, event, turn

from headwater.flows.consolidate import ConsolidationConfig, make_memory, statements_of, top_topics
from headwater.flows.threads import ThreadConfig, ThreadLogic, ThreadState
from headwater.flows.turns import short
from headwater.flows.windows import Piece, Trigger, Window, piece
from headwater.schemas import limits
from headwater.schemas.continuity import Context, TransitionType, type_by_thread
from headwater.schemas.events import Kind
from headwater.schemas.features import Features, event_features, text_features
from headwater.schemas.relevance import recency_at


def said(n: int, text: str, kind: Kind = Kind.PROMPT, **more: tuple[str, ...]) -> Piece:
    """Return the n-th piece of a window."""
    return Piece(f"e{n:03}", kind, AT + timedelta(seconds=n), "s1", text, **more)


def window(*pieces: Piece) -> Window:
    """Return a closed window."""
    return Window("thr_1", "/p", pieces, Trigger.COUNT, AT)


def test_features_are_taken_of_the_first_chars_of_a_text() -> None:
    """What a long text names behind FEATURE_CHARS is not what it is about; just before it, it is."""
    filler = "so " * (limits.FEATURE_CHARS // 3)
    assert "walrus" in text_features(filler[: limits.FEATURE_CHARS - 7] + " walrus").topics
    assert "walrus" not in text_features(filler + " " * 3 + "walrus").topics


def test_a_tools_text_is_looked_at_for_less() -> None:
    """Of a tool's text FEATURE_TOOL_CHARS are looked at and kept, of an answer FEATURE_CHARS."""
    text = "so " * (limits.FEATURE_TOOL_CHARS // 3 + 1) + "walrus_cache()"
    tool, answer = event("t", Kind.TOOL, text), event("r", Kind.RESPONSE, text)
    assert event_features(tool).entities == ()
    assert event_features(answer).entities != ()
    assert len(short(tool).content) == limits.FEATURE_TOOL_CHARS
    assert short(answer) is answer
    assert len(short(event("r", Kind.RESPONSE, "x" * 100_000)).content) == limits.FEATURE_CHARS


def test_a_context_holds_its_newest_items() -> None:
    """CONTEXT_ITEMS of each group, the newest first."""
    names = tuple(f"t{n}" for n in range(limits.CONTEXT_ITEMS + 5))
    context = Context().then(Features(topics=names), AT).then(Features(topics=("new",)), AT)
    assert context.topics == ("new", *names[: limits.CONTEXT_ITEMS - 1])


def test_a_pause_of_two_hours_makes_a_break() -> None:
    """Another thread after less than SHORT_PAUSE_S is a shift of topic, from then on a break."""
    assert type_by_thread("a", "b", limits.SHORT_PAUSE_S - 1) is TransitionType.TOPIC_SHIFT
    assert type_by_thread("a", "b", limits.SHORT_PAUSE_S) is TransitionType.BREAK


def test_recency_halves_in_its_time() -> None:
    """After RELEVANCE_HALF_LIFE_H a half is left."""
    assert recency_at(AT, AT + timedelta(hours=limits.RELEVANCE_HALF_LIFE_H)) == 0.5


def test_a_thread_is_open_for_its_time() -> None:
    """At THREAD_OPEN_S after its last turn a thread is found again, a second later it is over."""
    text = "the webhook worker must retry each delivery five times with jitter and exponential backoff"
    for late_s, same in ((0, True), (1, False)):
        logic = ThreadLogic(ThreadConfig(), ThreadState())
        again_s = 120 + limits.THREAD_OPEN_S + late_s - 120
        events = [*turn("a", text, "done"), *turn("b", text, "done", at_s=again_s, session="s2")]
        found = [one.thread_id for e in events for one in logic.on_event(e)]
        assert (found[0] == found[1]) is same


def test_open_threads_and_their_terms_are_bounded() -> None:
    """A project has at most THREADS_OPEN open threads, each with at most THREAD_TERMS terms."""
    logic = ThreadLogic(ThreadConfig(), ThreadState())
    letters = "abcdefghij"
    for n in range(limits.THREADS_OPEN + 6):
        word = "subject" + letters[n // 10] + letters[n % 10]
        text = " ".join(f"{word}{a}{b}x" for a in letters[:3] for b in letters)
        for one in turn(f"t{n}", text, word, at_s=n * 600):
            logic.on_event(one)
    assert len(logic.snapshot()["threads"]["threads"]) == limits.THREADS_OPEN
    logic = ThreadLogic(ThreadConfig(min_fit=-100.0), ThreadState())  # everything is one thread
    for n in range(60):
        word = "subject" + letters[n // 10] + letters[n % 10]
        text = " ".join(f"{word}{a}{b}x" for a in letters[:3] for b in letters)
        for one in turn(f"t{n}", text, word, at_s=n * 600):
            logic.on_event(one)
    (thread,) = logic.snapshot()["threads"]["threads"]
    assert len(thread[2]) == limits.THREAD_TERMS


def test_turns_are_remembered_for_their_time_and_number() -> None:
    """A late event finds its turn for TURN_KEEP_S and among the TURNS_KEPT newest; later it is a turn of its own."""
    for late_s, inherits in ((limits.TURN_KEEP_S - 60, True), (limits.TURN_KEEP_S + 60, False)):
        logic = ThreadLogic(ThreadConfig(), ThreadState())
        events = [*turn("a", "first subject here", "ok"), *turn("b", "second", "ok", at_s=late_s)]
        for one in events:
            logic.on_event(one)
        late = event("late", Kind.TOOL, "ls", at_s=late_s + 200, turn="a")
        assert bool(logic.on_event(late)) is inherits
    logic = ThreadLogic(ThreadConfig(), ThreadState())
    for n in range(limits.TURNS_KEPT + 20):
        for one in turn(f"t{n}", "go on", "ok", at_s=n * 130):
            logic.on_event(one)
    assert len(logic.snapshot()["threads"]["decided"]) <= limits.TURNS_KEPT + 1


def test_a_piece_keeps_the_start_of_what_was_said() -> None:
    """PIECE_CHARS of an answer wait for their window to close."""
    assert len(piece(event("r", Kind.RESPONSE, "word " * 10_000)).text) == limits.PIECE_CHARS


def test_a_memory_is_bounded() -> None:
    """A summary has at most MEMORY_CHARS, names MEMORY_FILES files, and a memory has MEMORY_TOPICS topics."""
    topics = tuple(f"topic{n}" for n in range(limits.MEMORY_TOPICS + 8))
    files = tuple(f"src/file{n}.py" for n in range(limits.MEMORY_FILES + 4))
    pieces = [
        said(n, f"Decided that value{n} of part{n} is {n} ms because of reason{n}.", topics=topics)
        for n in range(90)
    ]
    memory = make_memory(window(*pieces, said(99, "", Kind.TOOL, changed=files)), ConsolidationConfig())
    assert limits.MEMORY_CHARS - 200 < len(memory.summary) <= limits.MEMORY_CHARS
    assert sum(name in memory.summary for name in files) == limits.MEMORY_FILES
    assert len(memory.topics) == limits.MEMORY_TOPICS == len(top_topics(pieces, limits.MEMORY_TOPICS))


def test_statements_are_the_last_turns_and_their_starts() -> None:
    """STATEMENTS_KEPT turns of a window are compared later, STATEMENT_CHARS of each prompt and answer."""
    pieces = [said(n, f"keep name{n}") for n in range(limits.STATEMENTS_KEPT + 3)]
    kept = statements_of(pieces)
    assert [one.event_id for one in kept] == [one.id for one in pieces[3:]]
    long = "x" * (limits.STATEMENT_CHARS - 1)
    (one,) = statements_of([said(0, f"{long} walrus_limit is 5 s")])
    (two,) = statements_of([said(0, "walrus_limit is 5 s")])
    assert (bool(one.values), bool(two.values)) == (False, True)
