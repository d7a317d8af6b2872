from __future__ import annotations

import pickle

import pytest

from headwater.schemas import errors

ALL = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.HeadwaterError)
]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_one_line_with_place_problem_and_fix(kind: type[errors.HeadwaterError]) -> None:
    """Every error reads as one line, whatever came in, and keeps its three parts, also through a pickle."""
    error = kind("journal/a.jsonl", "wanted a line,\ngot  none", "wait")
    assert str(error) == "journal/a.jsonl: wanted a line, got none. Fix: wait"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.where, again.problem, again.fix) == (
        kind,
        error.where,
        error.problem,
        error.fix,
    )


def test_each_error_says_whether_it_may_pass() -> None:
    """Each error but the roots is transient or terminal, not both."""
    roots = {errors.HeadwaterError, errors.TransientError, errors.TerminalError}
    for kind in set(ALL) - roots:
        assert issubclass(kind, errors.TransientError) != issubclass(kind, errors.TerminalError)
