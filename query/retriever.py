"""The way in for whoever asks: three layers, and a search that puts them together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from headwater.query import asked as asked_module
from headwater.query import details as details_module
from headwater.query import expansion
from headwater.query import search as search_module
from headwater.query import timeline as timeline_module
from headwater.query.answer_budget import AnswerBudget
from headwater.query.cache import ProgressiveCache, state_of
from headwater.query.expansion import Decision
from headwater.query.formatter import ContextFormatter, Style
from headwater.query.short_ids import resolved
from headwater.query.summaries import with_summaries
from headwater.query.summary import first_sentence
from headwater.schemas import clock, limits
from headwater.schemas.answers import Reason, SearchAnswer, SearchMeta
from headwater.schemas.clock import local
from headwater.schemas.errors import InputError
from headwater.schemas.events import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from headwater.query.asked import Asked, Days
    from headwater.query.details import Details
    from headwater.query.search import Found
    from headwater.query.stores import QueryEncoder, Stores
    from headwater.query.timeline import Timeline
    from headwater.schemas.answers import Detail, IndexItem, Scope
    from headwater.schemas.clock import Clock
    from headwater.schemas.config import Config

Disclosure = Literal["auto", "index", "timeline", "details"]
TOKENS_MIN = 100  # of an answer: less holds no row with its id
_TOLD = (Kind.PROMPT.value, Kind.RESPONSE.value, Kind.INSIGHT.value)


@dataclass(frozen=True, slots=True)
class SmartSearchOptions:
    """How a search answers; None: as the settings say.

    `disclosure`: by the rules, or up to this layer. `expand_timeline` and `expand_details`: True asks for it, False
    forbids it. `style` is the one whose size is kept within `max_total_tokens`.
    """

    min_score: float | None = None
    max_total_tokens: int | None = None
    disclosure: Disclosure = "auto"
    expand_timeline: bool | None = None
    expand_details: bool | None = None
    style: Style = "terminal"


class ProgressiveRetriever:
    """Three layers of recall over the stores of a home; safe to share between threads.

    Each call looks at what is current then: a switch of generation or embedding version needs no restart.
    """

    def __init__(
        self,
        stores: Stores,
        encoder: QueryEncoder | None,
        config: Config,
        cache: ProgressiveCache | None = None,
        now: Clock = clock.SYSTEM,
    ) -> None:
        """Remember where to read; without an encoder, search is by words alone. A cache may be shared by several."""
        self._stores = stores
        self.encoder = encoder
        self._config = config.progressive_disclosure
        self._cache = ProgressiveCache(self._config.cache, now) if cache is None else cache
        self._clock = now

    def search_index(self, query: str, scope: Scope, top_k: int | None = None) -> list[IndexItem]:
        """Return layer 1: the best items, one line each; `top_k` None means the configured one."""
        return list(self._find(query, scope, top_k).items)

    def get_timeline(
        self, ids: Sequence[str], scope: Scope, window: int = timeline_module.WINDOW
    ) -> Timeline:
        """Return layer 2: what happened around some items, and which ids are unknown.

        The beginning of an id will do. Raises InputError.
        """
        stores = self._current()
        key = ("around", tuple(ids), scope, window, state_of(stores))

        def make() -> Timeline:
            return timeline_module.timeline(stores, resolved(stores, ids, scope), scope, window)

        return self._cache.get(2, key, make)

    def get_timeline_between(self, scope: Scope, limit: int, targets: Sequence[str] = ()) -> Timeline:
        """Return layer 2 of a scope's stretch of time. Raises InputError."""
        return timeline_module.timeline_between(self._current(), scope, limit, targets)

    def get_details(self, ids: Sequence[str], scope: Scope) -> Details:
        """Return layer 3: whole items, and which ids are unknown; beginnings of ids will do. Raises InputError."""
        stores = self._current()
        key = ("details", tuple(ids), scope, state_of(stores))

        def make() -> Details:
            return details_module.get_details(stores, resolved(stores, ids, scope), scope)

        return self._cache.get(3, key, make, _is_small)

    def smart_search(
        self,
        query: str,
        scope: Scope,
        top_k: int | None = None,
        options: SmartSearchOptions | None = None,
    ) -> SearchAnswer:
        """Return an answer of as many layers as its results deserve, within its budget of tokens. Raises InputError."""
        asked = SmartSearchOptions() if options is None else options
        says = asked_module.read(query, local(self._clock.now()))
        found = self._find(says.subject, scope, top_k)
        if not self._config.enabled:
            return self._flat(found, scope, asked)
        min_score = self._config.layer1.min_score if asked.min_score is None else asked.min_score
        decision, details = self._decide(says, found, scope, asked, min_score)
        timeline = self._timeline(decision, scope)
        rows = expansion.score_frame(found.items, is_mapped=found.score_is_mapped)
        meta = SearchMeta(
            total_matches=found.total_matches,
            expanded_count=len(details),
            estimated_tokens=0,
            expansion_reason=decision.reason or None,
            suggested=expansion.suggested(rows, decision, self._config.auto_expand),
            hint=expansion.hint(decision, [item.id for item in found.items], len(details)),
            min_score=min_score,
        )
        shown = None if timeline is None else timeline.items
        answer = SearchAnswer(found.items, shown or None, details or None, meta)
        return self._within(answer, asked)

    # --- deciding ---

    def _decide(
        self, says: Asked, found: Found, scope: Scope, options: SmartSearchOptions, min_score: float
    ) -> tuple[Decision, tuple[Detail, ...]]:
        """Return what to show, and the whole items of it."""
        settings = self._config.auto_expand
        rows = expansion.score_frame(found.items, is_mapped=found.score_is_mapped)
        if options.disclosure == "index":
            return Decision(""), ()
        most = max(settings.max_auto_expand_count, 1)
        ids = resolved(self._current(), says.ids[:most], scope, strict=False)
        named = self.get_details(ids, scope).items if ids else ()
        if named:
            decision = Decision(Reason.EXPLICIT_ID, (), tuple(item.id for item in named))
        else:
            decision = self._by_score(rows, says, options, min_score, scope)
        decision = _as_told(decision, rows, options)
        details = self.get_details(decision.details, scope).items if decision.details else ()
        return replace(decision, details=tuple(item.id for item in details)), details

    def _by_score(
        self,
        rows: pl.DataFrame,
        says: Asked,
        options: SmartSearchOptions,
        min_score: float,
        scope: Scope,
    ) -> Decision:
        settings = self._config.auto_expand
        wanted = expansion.on_request(rows, settings.max_auto_expand_count, min_score)
        if options.disclosure != "auto":
            lowered = wanted if wanted.details else expansion.on_request(rows, 1, 0.0)
            return replace(lowered, details=lowered.details if options.disclosure == "details" else ())
        if says.wants_details and wanted.details:
            return wanted
        if not settings.enabled:
            return Decision("")
        decided = expansion.decide(rows, settings, min_score)
        if says.days is None:
            return decided
        good = rows.filter(rows.get_column("score") >= min_score)
        on_days = expansion.on_days(good, says.days, decided, settings.max_auto_expand_count)
        timeline = self._timeline(on_days, scope)
        return on_days if timeline is not None and timeline.items else decided

    def _timeline(self, decision: Decision, scope: Scope) -> Timeline | None:
        if decision.days is not None:
            inside = _within_days(scope, decision.days)
            if not decision.timeline:
                kinds = inside.kinds or _TOLD
                return self.get_timeline_between(replace(inside, kinds=kinds), _DAY_ROWS)
            return self.get_timeline(decision.timeline, inside)
        return self.get_timeline(decision.timeline, scope) if decision.timeline else None

    # --- putting together ---

    def _flat(self, found: Found, scope: Scope, options: SmartSearchOptions) -> SearchAnswer:
        """Return every result whole; within a budget only when one was asked for."""
        details = self.get_details([item.id for item in found.items][:_FLAT_MAX], scope).items
        meta = SearchMeta(found.total_matches, len(details), 0, Reason.FLAT)
        answer = SearchAnswer(found.items, None, details or None, meta)
        if options.max_total_tokens is not None:
            return self._within(answer, options)
        budget = AnswerBudget(ContextFormatter(options.style), self._config.token_budget, _NO_BUDGET)
        return replace(answer, meta=replace(meta, estimated_tokens=budget.tokens(answer)))

    def _within(self, answer: SearchAnswer, options: SmartSearchOptions) -> SearchAnswer:
        settings = self._config.token_budget
        tokens = settings.max_total_tokens if options.max_total_tokens is None else options.max_total_tokens
        if tokens < TOKENS_MIN:
            raise InputError(
                "max_tokens", f"wanted {TOKENS_MIN} or more, got {tokens}", "ask for more, or for fewer rows"
            )
        return AnswerBudget(ContextFormatter(options.style), settings, tokens).fit(answer)

    def _find(self, query: str, scope: Scope, top_k: int | None) -> Found:
        count = self._config.layer1.top_k if top_k is None else top_k
        stores, encoder = self._current(), self.encoder
        source = self._config.summary_source
        version = None if encoder is None else encoder.version
        key = ("search", query, scope, count, version, source, state_of(stores))

        def make() -> Found:
            once = None if encoder is None else _OneQuery(encoder)
            found = search_module.find(stores, query, scope, count, once)
            found = with_summaries(stores, found, query, scope, count, encoder=once)
            found = found if source == "matched" else _with_first_sentences(found)
            return replace(found, contents={})  # whole texts would fill the memory

        return self._cache.get(1, key, make)

    def _current(self) -> Stores:
        self._stores = self._stores.refreshed()
        return self._stores


_DAY_ROWS = 40  # of a day whose results are none: what fits a default budget
_FLAT_MAX = limits.DETAILS_MAX  # of a flat search: what one call of the third layer gives
_NO_BUDGET = 1_000_000_000


class _OneQuery:
    """An encoder for one search: the same text is encoded once, whoever asks."""

    def __init__(self, encoder: QueryEncoder) -> None:
        self._encoder = encoder
        self._known: dict[str, Any] = {}

    @property
    def version(self) -> str:
        return self._encoder.version

    def encode_query(self, text: str) -> Any:
        if text not in self._known:
            self._known[text] = self._encoder.encode_query(text)
        return self._known[text]


def _is_small(found: Details) -> bool:
    """Whether details may be kept: two hundred of the largest would fill the memory."""
    return sum(len(item.content) for item in found.items) <= limits.CACHE_DETAILS_CHARS


def _as_told(decision: Decision, rows: pl.DataFrame, options: SmartSearchOptions) -> Decision:
    """Return the decision with what was asked for by an option, and without what was forbidden by one."""
    top = tuple(rows.get_column("id").head(1).to_list())
    timeline, details, reason, days = decision.timeline, decision.details, decision.reason, decision.days
    if options.expand_timeline and not timeline and days is None and top:
        timeline, reason = top, Reason.USER_REQUEST
    if options.expand_details and not details and top:
        details, reason = top, Reason.USER_REQUEST
    if options.expand_timeline is False:
        timeline, days = (), None
    if options.expand_details is False:
        details = ()
    return Decision(reason, timeline, details, days)


def _within_days(scope: Scope, days: Days) -> Scope:
    """Return the scope narrowed to some days."""
    since = days.since if scope.since is None else max(scope.since, days.since)
    until = days.until if scope.until is None else min(scope.until, days.until)
    return replace(scope, since=since, until=until)


def _with_first_sentences(found: Found) -> Found:
    return replace(
        found,
        items=tuple(
            replace(item, summary=first_sentence(found.contents.get(item.id, ""), label=item.summary))
            for item in found.items
        ),
    )
