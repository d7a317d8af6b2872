"""How the command line speaks: results on stdout, progress on stderr, both plain when it is no terminal."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from headwater.schemas import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress as RichProgress

_STDERR = 2
_SILENT_S = 2.0  # work that takes longer shows progress
_PLAIN_EVERY_S = 5.0  # between progress lines when stderr is no terminal


def say(text: str) -> None:
    """Print one line, or several, to stdout."""
    print(text)


def note(text: str) -> None:
    """Print one line to stderr: what is good to know beside the result."""
    print(text, file=sys.stderr)


def show_json(data: Any) -> None:
    """Print data as JSON: indented for a terminal, one line else."""
    print(json.dumps(data, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None, default=str))


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep what native libraries write to stderr out of the terminal while the block runs.

    A panic in them reaches us as an exception and is told in one line; their own pages of stack are of no use to
    anybody. Python's `sys.stderr` goes on as before.
    """
    try:
        is_ours = sys.stderr.fileno() == _STDERR
    except (AttributeError, OSError, ValueError):
        is_ours = False  # closed, or replaced by somebody: nothing to keep apart
    if not is_ours:
        yield
        return
    before = sys.stderr
    before.flush()
    copy = os.dup(_STDERR)
    sink = os.open(os.devnull, os.O_WRONLY)
    sys.stderr = os.fdopen(copy, "w", encoding=before.encoding, errors=before.errors, buffering=1)
    os.dup2(sink, _STDERR)
    os.close(sink)
    try:
        yield
    finally:
        with suppress(OSError, ValueError):  # its reader has gone
            sys.stderr.flush()
        os.dup2(copy, _STDERR)
        with suppress(OSError, ValueError):
            sys.stderr.close()
        sys.stderr = before


class Progress:
    """Shows how far something is, on stderr, once it has taken longer than two seconds.

    In a terminal a bar that goes away at the end; elsewhere a plain line every few seconds.
    """

    def __init__(self, what: str, now_s: Callable[[], float] = clock.SYSTEM.monotonic_s) -> None:
        """Begin to count the time."""
        self._what = what
        self._now_s = now_s
        self._start_s = self._said_s = now_s()
        self._bar: RichProgress | None = None

    def update(self, done: int, total: int | None = None) -> None:
        """Tell how many are done, of how many when that is known; may be called as often as you like."""
        now_s = self._now_s()
        if now_s - self._start_s < _SILENT_S:
            return
        if sys.stderr.isatty():
            self._draw(done, total)
        elif now_s - self._said_s >= _PLAIN_EVERY_S or self._said_s == self._start_s:
            self._said_s = now_s
            note(f"{self._what}: {self._text(done, total, now_s - self._start_s)}")

    def rename(self, what: str) -> None:
        """Tell what is done now; the figures go on."""
        self._what = what
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=what)

    def close(self) -> None:
        """Leave a clean line."""
        if self._bar is not None:
            self._bar.stop()

    def _draw(self, done: int, total: int | None) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task(self._what, total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    @staticmethod
    def _text(done: int, total: int | None, elapsed_s: float) -> str:
        rate = done / elapsed_s if elapsed_s > 0 else 0.0
        if not total:
            return f"{done:,} ({rate:,.0f}/s)" if done else f"{elapsed_s:.0f} s"
        left = f", {(total - done) / rate:,.0f} s left" if rate > 0 and done < total else ""
        return f"{done:,} of {total:,} ({done / total:.0%}, {rate:,.0f}/s{left})"


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """Yield a progress line for a piece of work."""
    line = Progress(what)
    try:
        yield line
    finally:
        line.close()
