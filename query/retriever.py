"""The way in for whoever asks: three layers, and a search that puts them together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.query import details as details_module
from headwater.query import format as format_module
from headwater.query import search as search_module
from headwater.query import timeline as timeline_module
from headwater.query.budget import estimate_tokens
from headwater.schemas.answers import SearchAnswer, SearchMeta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.query.details import Details
    from headwater.query.stores import QueryEncoder, Stores
    from headwater.query.timeline import Timeline
    from headwater.schemas.answers import IndexItem, Scope
    from headwater.schemas.config import Config


class ProgressiveRetriever:
    """Three layers of recall over the stores of a home; safe to share between threads.

    Each call looks at what is current then: a switch of generation or embedding version needs no restart.
    """

    def __init__(self, stores: Stores, encoder: QueryEncoder | None, config: Config) -> None:
        """Remember where to read; without an encoder, search is by words alone."""
        self._stores = stores
        self.encoder = encoder
        self._config = config

    def search_index(self, query: str, scope: Scope, top_k: int | None = None) -> list[IndexItem]:
        """Return layer 1: the best items, one line each; `top_k` None means the configured one."""
        return list(self._find(query, scope, top_k).items)

    def get_timeline(
        self, ids: Sequence[str], scope: Scope, window: int = timeline_module.WINDOW
    ) -> Timeline:
        """Return layer 2: what happened around some events, and which ids are unknown. Raises InputError."""
        return timeline_module.timeline(self._current(), ids, scope, window)

    def get_details(self, ids: Sequence[str], scope: Scope) -> Details:
        """Return layer 3: whole items, and which ids are unknown. Raises InputError."""
        return details_module.get_details(self._current(), ids, scope)

    def smart_search(self, query: str, scope: Scope, top_k: int | None = None) -> SearchAnswer:
        """Return an answer with layer 1 and how it came about. Raises InputError."""
        found = self._find(query, scope, top_k)
        meta = SearchMeta(
            total_matches=found.total_matches,
            expanded_count=0,
            estimated_tokens=estimate_tokens(
                format_module.index_text(found.items),
                self._config.progressive_disclosure.token_budget.estimator,
            ),
            expansion_reason=None,
        )
        return SearchAnswer(index=found.items, timeline=None, details=None, meta=meta)

    def _find(self, query: str, scope: Scope, top_k: int | None) -> search_module.Found:
        count = self._config.progressive_disclosure.layer1.top_k if top_k is None else top_k
        return search_module.find(self._current(), query, scope, count, self.encoder)

    def _current(self) -> Stores:
        self._stores = self._stores.refreshed()
        return self._stores
