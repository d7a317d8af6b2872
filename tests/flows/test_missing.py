from __future__ import annotations

from pathlib import Path

import pytest
from journal_lines import drafted, payload

from headwater.flows.missing import enqueue_missing, missing_vectors
from headwater.schemas.columns import EVENTS, events_to_arrow
from headwater.schemas.jobs import JobCounts
from headwater.storage.home import Home
from headwater.storage.outbox import VectorOutbox
from headwater.storage.tables import LanceStore

VERSION = "test-4-abc"


@pytest.fixture
def filled(tmp_path: Path) -> Home:
    """A home with a prompt, an answer, a session mark and two texts of nothing."""
    home = Home.open(tmp_path / "home")
    told = [
        payload("UserPromptSubmit", prompt="one", prompt_id="p1"),
        payload("Stop", last_assistant_message="two", prompt_id="p1"),
        payload("UserPromptSubmit", prompt="", prompt_id="p2"),
        payload("UserPromptSubmit", prompt=" \n\t\u3000", prompt_id="p3"),
    ]
    LanceStore(home.lance).open(EVENTS).add(events_to_arrow([drafted(one).event for one in told]))
    return home


def test_texts_without_vectors_are_missing(filled: Home) -> None:
    """Prompt and answer want a vector; empty texts and blanks do not."""
    rows = missing_vectors(filled, VERSION)
    wanted = [drafted(payload("UserPromptSubmit", prompt="one", prompt_id="p1")).event]
    wanted.append(drafted(payload("Stop", last_assistant_message="two", prompt_id="p1")).event)
    assert set(rows.select("item_id", "content_hash").iter_rows()) == {(e.id, e.content_hash) for e in wanted}


def test_enqueue_is_idempotent(filled: Home) -> None:
    """Asking again for what is missing asks for nothing new."""
    outbox = VectorOutbox(filled.outbox_file)
    assert enqueue_missing(filled, outbox, VERSION) == 2
    assert enqueue_missing(filled, outbox, VERSION) == 0
    assert outbox.counts(VERSION) == JobCounts(pending=2)
    outbox.close()


def test_home_without_tables_misses_nothing(tmp_path: Path) -> None:
    """A look at a new home makes no table."""
    home = Home.open(tmp_path / "home")
    assert missing_vectors(home, VERSION).height == 0
    assert LanceStore(home.lance).names() == []
