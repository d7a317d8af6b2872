from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.schemas import limits
from headwater.surface import hook

SOURCE = Path(limits.__file__).read_text(encoding="utf-8")
NAMES = [name for name in vars(limits) if name.isupper()]


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_has_a_value_and_a_reason(name: str) -> None:
    """Every limit is a positive number, or a few, and a comment at its definition says why."""
    value = getattr(limits, name)
    assert all(number > 0 for number in (value if isinstance(value, tuple) else (value,)))
    found = re.search(rf"^{name} = (?:[^\n(#]+|\((?:[^()]|\n)*?\)[^\n#]*)", SOURCE, re.MULTILINE)
    assert found is not None
    line_end = SOURCE.find("\n", found.end())
    said = re.search(r"#\s*(.+)", SOURCE[found.start() : line_end])
    assert said is not None
    assert len(said[1]) >= 10


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name in hook.__all__] or ["nothing is mirrored any more"]
)
def test_the_hooks_copies_agree(name: str) -> None:
    """The hook imports nothing of ours but its neighbours: its copies of limits have the same values."""
    assert getattr(hook, name) == getattr(limits, name)


def test_what_is_mirrored() -> None:
    """The limits of capture are in the hook; no other constant of the hook has a limit's name."""
    assert {name for name in hook.__all__ if name.isupper()} == {
        "CLIP_CHARS",
        "ENVELOPE_TEXT_CHARS",
        "FILE_NAME_CHARS",
        "NESTING_MAX",
    }


def test_events_are_not_cut_shorter_than_the_hook_clips() -> None:
    """What the hook kept of a text, an event holds."""
    assert limits.CONTENT_CHARS >= limits.CLIP_CHARS
    assert limits.LINE_BYTES > 6 * limits.ENVELOPE_TEXT_CHARS
