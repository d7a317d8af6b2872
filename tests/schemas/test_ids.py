from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas import ids

# separators and escapes among the letters, so that examples hit them
PARTS = st.lists(st.text("ab\x1e\x1f01", max_size=4), min_size=1, max_size=4)


@given(PARTS, PARTS)
def test_other_parts_give_another_id(one: list[str], other: list[str]) -> None:
    """Two lists of parts share an id only when they are equal, also when parts hold the separator."""
    assert (ids.digest(*one) == ids.digest(*other)) == (one == other)


@given(st.text(), st.text())
def test_ids_are_short_words(session: str, use_id: str) -> None:
    """An id is a prefix and 12 characters that are easy to read out, and the same each time."""
    made = ids.tool_event_id("claude-code", session, use_id)
    assert re.fullmatch(r"evt_[0-9a-hjkmnp-tv-z]{12}", made)
    assert made == ids.tool_event_id("claude-code", session, use_id)


def test_lone_surrogates_have_ids() -> None:
    """Text that UTF-8 cannot hold still has an id and a hash."""
    assert ids.digest("\ud83d") != ids.digest("\ud83e")
    assert re.fullmatch("[0-9a-f]{16}", ids.content_hash("\ud83d"))


def test_kinds_do_not_share_ids() -> None:
    """The same words as tool, prompt, compaction, response and occurrence are different facts."""
    made = {
        ids.tool_event_id("a", "s", "1"),
        ids.prompt_event_id("a", "s", "1"),
        ids.compact_event_id("a", "s", "1"),
        ids.response_event_id("a", "s", "1", ""),
        ids.occurrence_event_id(ids.occurrence_key("a", "s", "", "prompt", "1"), 0),
        ids.occurrence_event_id(ids.occurrence_key("a", "s", "", "prompt", "1"), 1),
    }
    assert len(made) == 6


def test_jobs_and_vectors_are_named_by_their_item() -> None:
    """One job per item and embedding version; a vector's id says item and chunk."""
    assert ids.job_id("entry", "e1", "v1") == ids.job_id("entry", "e1", "v1")
    assert len({ids.job_id(kind, "e1", v) for kind in ("entry", "memory") for v in ("v1", "v2")}) == 4
    assert ids.vector_id("entry", "evt_1", 2) == "entry:evt_1#2"
