"""What can be asked: each operation takes a context and plain arguments, and returns JSON-ready data.

The server answers with these over its socket; without a server the command line runs them in its own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.query import format as formats
from headwater.schemas.errors import InputError
from headwater.surface import status
from headwater.surface.injection import INJECTION_OPERATIONS
from headwater.surface.memory_operations import MEMORY_OPERATIONS
from headwater.surface.project_operations import PROJECT_OPERATIONS
from headwater.surface.request_context import Context, scope_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["OPERATIONS", "Context", "scope_of"]


def search(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Search; args: query, top_k, project | all_projects | here, text (add the answer as text).

    `embedding_version` in the answer names the one whose vectors were compared, None: words alone.
    """
    config = context.home.config().progressive_disclosure
    retriever = context.retriever()
    answer = retriever.smart_search(str(args.get("query", "")), scope_of(context, args), args.get("top_k"))
    encoder = retriever.encoder
    result = formats.answer_json(answer) | {"embedding_version": encoder.version if encoder else None}
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
    stores = context.stores
    return status.table_counts(context.home, stores) | {"told": status.told_counts(stores, context.usage)}


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
    **MEMORY_OPERATIONS,
    **INJECTION_OPERATIONS,
    **PROJECT_OPERATIONS,
}
