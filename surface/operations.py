"""What can be asked: each operation takes a context and plain arguments, and returns JSON-ready data.

The server answers with these over its socket; without a server the command line runs them in its own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.query import format as formats
from headwater.query.retriever import ProgressiveRetriever
from headwater.query.stores import Stores
from headwater.schemas.answers import Scope
from headwater.schemas.errors import InputError
from headwater.storage.tables import quote
from headwater.surface import status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.storage.embedder import Encoder
    from headwater.storage.home import Home


class Context:
    """Open stores of a home, and the encoder once it is loaded (None: keyword search only)."""

    def __init__(self, home: Home) -> None:
        """Tables are opened at their first use."""
        self.home = home
        self.encoder: Encoder | None = None
        self.model_error: str | None = None
        self._stores: Stores | None = None

    @property
    def stores(self) -> Stores:
        """The tables that are current now."""
        self._stores = Stores.open(self.home) if self._stores is None else self._stores.refreshed()
        return self._stores

    def retriever(self) -> ProgressiveRetriever:
        """Return a retriever over the stores with the encoder of this moment."""
        return ProgressiveRetriever(self.stores, self.encoder, self.home.config())


def scope_of(context: Context, args: dict[str, Any]) -> Scope:
    """Return the scope of a request: `project` named, `all_projects`, or the folder's project when it is known.

    A folder whose project has no events gives all projects: somebody asks from elsewhere.
    """
    project = args.get("project")
    if project is None and not args.get("all_projects"):
        here = args.get("here")
        known = isinstance(here, str) and context.stores.events.count(f"project = {quote(here)}") > 0
        project = here if known else None
    return Scope(project=project)


def search(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Search; args: query, top_k, project | all_projects | here, text (add the answer as text)."""
    config = context.home.config().progressive_disclosure
    answer = context.retriever().smart_search(
        str(args.get("query", "")), scope_of(context, args), args.get("top_k")
    )
    result = formats.answer_json(answer)
    return (
        result | {"text": formats.answer_text(answer, config.layer1.min_score)}
        if args.get("text")
        else result
    )


def timeline(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return what happened around events; args: ids, window, project | all_projects | here, text."""
    found = context.retriever().get_timeline(
        _ids(args), scope_of(context, args), window=int(args.get("window", 3))
    )
    if not found.items:
        raise _unknown(found.unknown)
    rows = [formats.timeline_json(item) for item in found.items]
    text = formats.timeline_text(found.items) if args.get("text") else None
    return {"timeline": rows, "unknown": list(found.unknown), "text": text}


def details(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return whole items; args: ids, project | all_projects | here, text."""
    found = context.retriever().get_details(_ids(args), scope_of(context, args))
    if not found.items:
        raise _unknown(found.unknown)
    rows = [formats.detail_json(item) for item in found.items]
    text = formats.details_text(found.items) if args.get("text") else None
    return {"details": rows, "unknown": list(found.unknown), "text": text}


def ping(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Say that the server answers, and whether its model is loaded."""
    del args
    return {"model": context.encoder.version if context.encoder else None, "model_error": context.model_error}


def counts(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of `status` that need open tables."""
    del args
    return status.table_counts(context.home, context.stores)


def _ids(args: dict[str, Any]) -> list[str]:
    ids = args.get("ids")
    if not isinstance(ids, list) or not ids:
        raise InputError("ids", "wanted at least one id", "take ids from: headwater search")
    return [str(one) for one in ids]


def _unknown(unknown: Sequence[str]) -> InputError:
    ids = ", ".join(one[:40] for one in unknown[:3])
    return InputError(
        f"id {ids}",
        "nothing with it in this scope",
        "add --all-projects, or take an id from: headwater search",
    )


OPERATIONS: dict[str, Callable[[Context, dict[str, Any]], dict[str, Any]]] = {
    "ping": ping,
    "counts": counts,
    "search": search,
    "timeline": timeline,
    "details": details,
}
