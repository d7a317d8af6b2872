"""Requests for the tests of the outbox."""

from __future__ import annotations

from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobRequest

V = "minilm-384-abc"


def request(item: str = "e1", content: str = "h1", version: str = V) -> JobRequest:
    """Return a request for one item."""
    return JobRequest(ItemKind.ENTRY, item, version, content)
