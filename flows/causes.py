"""What is under the errors of the stream engine."""

from __future__ import annotations

from bytewax.errors import BytewaxRuntimeError

from headwater.schemas.errors import HeadwaterError, StoreError


def cause_of(error: BaseException, what: str = "ingest flow") -> HeadwaterError:
    """Return our error from under what Bytewax wraps around it."""
    return ours_in(error) or StoreError(what, f"ended: {error}", "run: headwater doctor")


def is_fault(error: HeadwaterError) -> bool:
    """Return whether an error of `cause_of` stands for an exception that nobody expected: trying again is no use."""
    return isinstance(error.__cause__, BytewaxRuntimeError) and ours_in(error.__cause__) is None


def ours_in(error: BaseException) -> HeadwaterError | None:
    """Return our error from under another, None when none of ours is there."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, HeadwaterError):
            return inner
        inner = inner.__cause__
    return None
