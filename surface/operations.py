"""What can be asked: each operation takes a context and plain arguments, and returns JSON-ready data.

The server answers with these over its socket; without a server the command line runs them in its own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

from headwater.query import format as formats
from headwater.query.formatter import ContextFormatter, Style
from headwater.query.retriever import Disclosure, SmartSearchOptions
from headwater.query.summaries import MEMORY_PREFIX
from headwater.query.timeline import WINDOW
from headwater.schemas import clock, limits
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
    """Search; args: query, top_k, min_score, max_tokens, disclosure, expand_timeline, expand_details, scope, text.

    `text` adds the answer as text: true for a terminal, or the name of a style, whose size is then kept within
    `max_tokens`. `embedding_version` in the answer names the one whose vectors were compared, None: words alone.
    """
    retriever = context.retriever()
    style = _style(args)
    options = SmartSearchOptions(
        min_score=_number(args, "min_score", float, 0, 1),
        max_total_tokens=_number(args, "max_tokens", int, 0, limits.ANSWER_TOKENS_MAX),
        disclosure=_disclosure(args),
        expand_timeline=args.get("expand_timeline"),
        expand_details=args.get("expand_details"),
        style=style or "terminal",
    )
    top_k = _number(args, "top_k", int, 1, limits.TOP_K_MAX)
    answer = retriever.smart_search(str(args.get("query", "")), scope_of(context, args), top_k, options)
    _mark_accessed(context, [item.id for item in answer.details or ()])
    encoder = retriever.encoder
    result = formats.answer_json(answer) | {"embedding_version": encoder.version if encoder else None}
    return result if style is None else result | {"text": ContextFormatter(style).answer(answer)}


def timeline(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return what happened around items, or in a stretch of time; args: ids, window, limit, scope, text.

    Without ids, `since` or `until` says which time, and `limit` rows are shown; `more` counts the others.
    """
    retriever, scope, style = context.retriever(), scope_of(context, args), _style(args)
    ids = args.get("ids")
    if not ids and (scope.since is not None or scope.until is not None):
        limit = _number(args, "limit", int, 1, limits.TIMELINE_ROWS_MAX) or limits.TIMELINE_ROWS
        found = retriever.get_timeline_between(scope, limit)
    else:
        window = _number(args, "window", int, 0, limits.TIMELINE_WINDOW_MAX)
        found = retriever.get_timeline(_ids(args), scope, WINDOW if window is None else window)
        if not found.items:
            raise _unknown(found.unknown)
    rows = [formats.timeline_json(item) for item in found.items]
    text = None if style is None else ContextFormatter(style).timeline(found.items)
    return {"timeline": rows, "unknown": list(found.unknown), "more": found.more, "text": text}


def details(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return whole items; args: ids, scope, text. A memory that is shown counts as read."""
    style = _style(args)
    found = context.retriever().get_details(_ids(args), scope_of(context, args))
    if not found.items:
        raise _unknown(found.unknown)
    _mark_accessed(context, [item.id for item in found.items])
    rows = [formats.detail_json(item) for item in found.items]
    text = None if style is None else ContextFormatter(style).details(found.items)
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


def _mark_accessed(context: Context, ids: Sequence[str]) -> None:
    memories = [one for one in ids if one.startswith(MEMORY_PREFIX)]
    if memories:
        context.usage.mark_accessed(memories, clock.SYSTEM.now())


def _style(args: dict[str, Any]) -> Style | None:
    """Return the style of the text that is asked for, None for none. Raises InputError."""
    wanted = args.get("text")
    if not wanted:
        return None
    if wanted is True:
        return "terminal"
    if wanted not in get_args(Style):
        raise InputError(
            "text", f"wanted one of {', '.join(get_args(Style))}, got {wanted!r:.60}", "name one of them"
        )
    return cast("Style", wanted)


def _disclosure(args: dict[str, Any]) -> Disclosure:
    wanted = args.get("disclosure") or "auto"
    if wanted not in get_args(Disclosure):
        names = ", ".join(get_args(Disclosure))
        raise InputError("disclosure", f"wanted one of {names}, got {wanted!r:.60}", "name one of them")
    return cast("Disclosure", wanted)


def _number(args: dict[str, Any], name: str, kind: type, least: float, most: float) -> Any:
    """Return a number of the arguments, None when it is not there. Raises InputError."""
    value = args.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        raise InputError(name, f"wanted {least} to {most}, got {value!r:.60}", "name a number within that")
    return kind(value)


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
