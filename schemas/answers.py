"""Answers: what the query module gives back, in three layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Scope:
    """What a read may see. `project` None means all projects; every read names one or the other.

    `since` and `until` are aware UTC, since inclusive, until exclusive. Empty tuples filter nothing. `moved` are names
    that the project had: what was captured under them belongs to it (`headwater.query.stores.Stores.scope` knows them).
    """

    project: str | None
    since: datetime | None = None
    until: datetime | None = None
    kinds: tuple[str, ...] = ()
    session_id: str | None = None
    agent: str | None = None
    file: str | None = None
    moved: tuple[str, ...] = ()

    def of_project(self) -> Scope:
        """Return the scope of the same project without any other limit."""
        return Scope(self.project, moved=self.moved)

    def in_time(self) -> Scope:
        """Return the scope of the same project and time without any other limit."""
        return Scope(self.project, self.since, self.until, moved=self.moved)


@dataclass(frozen=True, slots=True)
class IndexItem:
    """Layer 1: one line of a search result; `summary` is one line of at most 100 characters, `score` in [0, 1].

    `folded` is how many near-duplicates it stands for, `superseded_by` the id of what says otherwise now, `short` the
    beginning of the id that names it in its project, "" when it is not known.
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
    short: str = ""

    @property
    def name(self) -> str:
        """What a person or an agent can ask for it by."""
        return self.short or self.id


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


class Reason(StrEnum):
    """Why an answer shows what it shows beside its index."""

    HIGH_CONFIDENCE_SINGLE = "high_confidence_single"
    CLEAR_WINNER = "clear_winner"
    AMBIGUOUS_MULTIPLE_HIGH = "ambiguous_multiple_high"
    HIGH_CONFIDENCE = "high_confidence"
    SUGGESTED = "suggested"
    LOW_CONFIDENCE = "low_confidence"
    NO_RESULTS = "no_results"
    EXPLICIT_ID = "explicit_id"
    USER_REQUEST = "user_request"
    TEMPORAL_PROXIMITY = "temporal_proximity"
    FLAT = "flat"  # progressive disclosure is switched off


@dataclass(frozen=True, slots=True)
class SearchMeta:
    """How an answer came about; `estimated_tokens` is of the formatted text.

    `expanded_count` is how many items are shown whole. `expansion_reason` is one of `Reason`, None when nothing was
    to be expanded. `suggested` are ids worth a look, `hint` the next step ("" for none). `left_out` are the first ids
    of what found no room, `left_out_more` counts the others. Rows below `min_score` are weak.
    """

    total_matches: int
    expanded_count: int
    estimated_tokens: int
    expansion_reason: str | None
    suggested: tuple[str, ...] = ()
    hint: str = ""
    left_out: tuple[str, ...] = ()
    left_out_more: int = 0
    min_score: float = 0.0


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """A search's answer: layer 1 always, the others when expanded."""

    index: tuple[IndexItem, ...]
    timeline: tuple[TimelineItem, ...] | None
    details: tuple[Detail, ...] | None
    meta: SearchMeta
