from __future__ import annotations

from datetime import datetime, timedelta

from project_events import AT, event

from headwater.flows.windows import Piece, Trigger, Window, WindowConfig, WindowLogic, WindowState, piece
from headwater.schemas.events import Event, Kind


def logic(config: WindowConfig | None = None, state: WindowState | None = None) -> WindowLogic:
    """Return the windows of one thread."""
    return WindowLogic("thr_1", "/p", config or WindowConfig(), state or WindowState())


def tools(number: int, first: int = 0) -> list[Event]:
    """Return tool calls, one a second."""
    return [event(f"x{n}", Kind.TOOL, "ls", at_s=n) for n in range(first, first + number)]


def at(seconds: float) -> datetime:
    """Return a time so many seconds after the start."""
    return AT + timedelta(seconds=seconds)


def ids(windows: list[Window]) -> list[tuple[Trigger, int]]:
    """Return why each window closed and how many events it has."""
    return [(window.trigger, len(window.pieces)) for window in windows]


def test_a_hundred_events() -> None:
    """The hundredth closes the window; what follows begins the next one."""
    windows = logic()
    assert ids(windows.on_events(tools(250), AT)) == [(Trigger.COUNT, 100), (Trigger.COUNT, 100)]
    assert len(windows.open_events) == 50


def test_half_an_hour_of_silence() -> None:
    """Exactly at its time, dated then, however late the timer comes."""
    windows = logic()
    windows.on_events(tools(3), AT)
    assert windows.on_time(at(1799.9)) == []
    (window,) = windows.on_time(at(90_000))
    assert (window.trigger, window.closed_at) == (Trigger.IDLE, at(1800))
    assert windows.due_at() is None


def test_an_hour_since_the_last_one() -> None:
    """Work that never pauses is remembered each hour, also without a timer: the next event implies it."""
    windows = logic()
    closed = [ids(windows.on_events([event(f"e{n}", Kind.TOOL, "x")], at(n * 600))) for n in range(8)]
    assert closed == [[], [], [], [], [], [], [(Trigger.INTERVAL, 6)], []]


def test_too_little_stays_open() -> None:
    """Below three content events nothing closes the window, and nothing of it is lost; notes do not count."""
    windows = logic()
    windows.on_events([*tools(2), event("n", Kind.NOTE, "x")], AT)
    assert windows.on_time(at(10**7)) == []
    assert windows.on_break(at(10**7)) == []
    assert windows.on_session_end("s1", at(10**7)) == []
    assert windows.by_hand(at(10**7)) == []
    assert windows.open_events == ("x0", "x1", "n")
    assert windows.on_events(tools(1, 5), at(10**7)) == []
    assert ids(windows.on_time(at(10**7 + 1800))) == [(Trigger.IDLE, 4)]


def test_a_session_end_closes_the_windows_that_hold_its_events() -> None:
    """The thread itself goes on; another session's end does nothing."""
    windows = logic()
    windows.on_events(tools(3), AT)
    assert windows.on_session_end("s2", at(1)) == []
    assert ids(windows.on_session_end("s1", at(2))) == [(Trigger.SESSION_END, 3)]
    assert ids(logic(WindowConfig(on_session_end=False)).on_session_end("s1", at(2))) == []


def test_a_break_and_a_person_close_it() -> None:
    """Both at once; each can be asked for on an empty window."""
    windows = logic()
    windows.on_events(tools(3), AT)
    assert ids(windows.on_break(at(5))) == [(Trigger.BREAK, 3)]
    windows.on_events(tools(3, 10), at(20))
    assert ids(windows.by_hand(at(30))) == [(Trigger.BY_HAND, 3)]
    assert windows.by_hand(at(31)) == []
    off = logic(WindowConfig(on_break=False))
    off.on_events(tools(3), AT)
    assert off.on_break(at(5)) == []


def test_a_snapshot_goes_on_where_it_was() -> None:
    """State is plain data and comes back whole; an unknown version is none."""
    windows = logic()
    windows.on_events(tools(2), AT)
    again = logic(state=WindowState.from_plain(windows.snapshot()))
    assert again.snapshot() == windows.snapshot()
    assert ids(again.on_events(tools(1, 2), at(5))) == ids(windows.on_events(tools(1, 2), at(5)))
    assert again.on_time(at(9000)) == windows.on_time(at(9000))
    assert WindowState.from_plain({"v": 2}).pieces == []


def test_a_piece_holds_no_tool_output() -> None:
    """Of a tool only the files it changed; of what was said, text and features."""
    tool = piece(event("x", Kind.TOOL, "cat secret\noutput", files=("app/a.py",)))
    assert (tool.text, tool.topics, tool.changed) == ("", (), ("app/a.py",))
    said = piece(event("p", Kind.PROMPT, "look at /p/app/a.py and the webhook"))
    assert said.text == "look at app/a.py and the webhook"
    assert Piece.from_plain(said.plain()) == said
