from __future__ import annotations

import itertools

import pytest

from headwater.schemas.errors import TransitionError
from headwater.schemas.jobs import ALLOWED, JobStatus, check_transition

MOVES = list(itertools.product(JobStatus, JobStatus))


@pytest.mark.parametrize("move", MOVES, ids=lambda move: f"{move[0]}-{move[1]}")
def test_only_the_allowed_moves(move: tuple[JobStatus, JobStatus]) -> None:
    """Six moves are allowed; each other one is an error that names job, move and fix."""
    if move in ALLOWED:
        check_transition("job_1", *move)
        return
    with pytest.raises(TransitionError) as caught:
        check_transition("job_1", *move)
    assert "job_1" in str(caught.value)
    assert f"{move[0]} -> {move[1]}" in str(caught.value)
    assert "Fix: " in str(caught.value)


def test_moves_are_those_of_the_design() -> None:
    """Nothing leaves `done` but for a changed content, and nothing gets done that was not being worked on."""
    said = {(str(old), str(new)) for old, new in ALLOWED}
    assert said == {
        ("pending", "processing"),
        ("processing", "done"),
        ("processing", "failed"),
        ("processing", "pending"),
        ("failed", "pending"),
        ("done", "pending"),
    }
