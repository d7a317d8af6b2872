"""Panics of native libraries as ordinary errors.

A panic in a Rust library comes out as an exception that is no `Exception`: it would pass every handler of ours, end the
program with pages of traceback, and leave a client without an answer.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Let a native panic out of the block as a RuntimeError with its text; everything else passes unchanged."""
    try:
        yield
    except BaseException as error:
        # each library has a class of its own, of this name, that cannot be imported
        if type(error).__name__ != "PanicException":
            raise
        raise RuntimeError(f"panicked with message {error}") from error
