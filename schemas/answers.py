"""Answers: what the query module gives back, in three layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Scope:
    """What a read may see. `project` None means all projects; every read names one or the other.

    `since` and `until` are aware UTC, since inclusive, until exclusive. Empty tuples filter nothing.
    """

    project: str | None
    since: datetime | None = None
    until: datetime | None = None
    kinds: tuple[str, ...] = ()
    session_id: str | None = None
    agent: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class IndexItem:
    """Layer 1: one line of a search result; `summary` is one line of at most 100 characters, `score` in [0, 1].

    `folded` is how many near-duplicates it stands for, `superseded_by` the id of what says otherwise now.
    """

    id: str
    summary: str
    score: float
    kind: str
    at: datetime
    session_id: str
    project: str
    folded: int = 0
    superseded_by: str | None = None


@dataclass(frozen=True, slots=True)
class TimelineItem:
    """Layer 2: one event around a target; `preview` is one line of at most 200 characters."""

    id: str
    at: datetime
    kind: str
    preview: str
    is_target: bool
    session_id: str


@dataclass(frozen=True, slots=True)
class DetailMetadata:
    """What is known about an item's text."""

    token_count: int
    has_code: bool
    files: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relations:
    """Parent and children: prompt, its tools and response. Related: same thread, nearest."""

    parent_id: str | None = None
    child_ids: tuple[str, ...] = ()
    related_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Detail:
    """Layer 3: the whole item."""

    id: str
    content: str
    kind: str
    at: datetime
    session_id: str
    project: str
    metadata: DetailMetadata
    relations: Relations = field(default_factory=Relations)


@dataclass(frozen=True, slots=True)
class SearchMeta:
    """How an answer came about; `estimated_tokens` is of the formatted text."""

    total_matches: int
    expanded_count: int
    estimated_tokens: int
    expansion_reason: str | None


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """A search's answer: layer 1 always, the others when expanded."""

    index: tuple[IndexItem, ...]
    timeline: tuple[TimelineItem, ...] | None
    details: tuple[Detail, ...] | None
    meta: SearchMeta
