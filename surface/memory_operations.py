"""What can be asked about memory: working set, memories, continuity, the state of endless mode."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headwater.query import memory_format as formats
from headwater.query.continuity import ContinuityManager
from headwater.query.memories import ConsolidatedStore
from headwater.query.scope import time_literal
from headwater.query.search import label
from headwater.query.summary import summary
from headwater.query.working_set import WorkingSetStore
from headwater.schemas import clock, limits
from headwater.schemas.errors import InputError
from headwater.storage.control import effective_mode
from headwater.surface.request_context import project_scope, time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.query.stores import Stores
    from headwater.surface.request_context import Context


def working_set(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return what is active; args: at (ISO 8601; default now), project | all_projects | here, text."""
    scope, config = project_scope(context, args), context.home.config().endless
    store = WorkingSetStore(context.stores, config.working_set)
    asked = time_of(args.get("at"))
    now = clock.SYSTEM.now() if asked is None else asked
    found = store.get(scope, now) if asked is None else store.at(scope, asked)
    continuity = ContinuityManager(context.stores, config.continuity).current(scope, now)
    summaries = summaries_of(context.stores, [one.event_id for one in found.members])
    answer = formats.working_set_json(found, summaries, continuity)
    if args.get("text"):
        answer["text"] = formats.working_set_text(answer, found, with_project=scope.project is None)
    return answer


def memories(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return memories; args: query (none: the newest), top_k, project | all_projects | here, text.

    What a query found counts as read.
    """
    scope, query = project_scope(context, args), args.get("query")
    top_k = int(args.get("top_k") or limits.MEMORIES_TOP_K)
    store = ConsolidatedStore(*context.matched())
    found = store.recent(scope, top_k) if query is None else store.search(str(query), scope, top_k)
    ids = [one.id for one in found]
    reversals = store.reversals(ids, scope)
    accesses = context.usage.accesses(ids)
    if query is not None:
        context.usage.mark_accessed(ids, clock.SYSTEM.now())
    texts = context.llm_texts.get((one.id, one.content_hash) for one in found)
    rows = [formats.memory_json(one, accesses.get(one.id), reversals, texts.get(one.id)) for one in found]
    answer: dict[str, Any] = {"memories": rows}
    if args.get("text"):
        answer["text"] = formats.memories_text(
            found, accesses, reversals, texts, with_project=scope.project is None
        )
    return answer


def continuity(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return the continuity log; args: since (ISO 8601), project | all_projects | here, text."""
    scope = project_scope(context, args)
    manager = ContinuityManager(context.stores, context.home.config().endless.continuity)
    rows = manager.since(scope, time_of(args.get("since")))
    answer: dict[str, Any] = {"continuity": [formats.log_row_json(row) for row in rows]}
    if args.get("text"):
        current = manager.current(scope, clock.SYSTEM.now())
        answer["text"] = formats.continuity_text(rows, current, with_project=scope.project is None)
    return answer


def endless_status(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return the state of endless mode; args: project | all_projects | here, text."""
    scope, config = project_scope(context, args), context.home.config().endless
    now = clock.SYSTEM.now()
    active = WorkingSetStore(context.stores, config.working_set).get(scope, now)
    store = ConsolidatedStore(context.stores)
    last = store.last_at(scope)
    answer: dict[str, Any] = {
        "mode": effective_mode(context.home),
        "working_set_size": len(active.members),
        "working_set_hours": config.working_set.time_window_hours,
        "continuity": formats.continuity_json(
            ContinuityManager(context.stores, config.continuity).current(scope, now)
        ),
        "memories": store.count(scope),
        "last_consolidation": None if last is None else clock.iso(last),
        "topics": list(active.topics),
        "files": list(active.files),
    }
    if args.get("text"):
        shown = answer | {
            "last_consolidation": None if last is None else f"{clock.local(last):%Y-%m-%d %H:%M}"
        }
        answer["text"] = formats.status_text(shown)
    return answer


def projects(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return the names of known projects that a decision is about, and `captured_as`: those of their rows.

    args: project | all_projects | here, recent (only those with an event within BACKFILL_S). Raises InputError for a
    project without events, and for a folder that is none when nothing is named: a decision is not guessed.
    """
    wanted = None if args.get("all_projects") else args.get("project") or args.get("here")
    inside = None
    if args.get("recent"):
        start = clock.SYSTEM.now() - timedelta(seconds=limits.BACKFILL_S)
        inside = f"at >= {time_literal(start)}"
    stores = context.stores
    names = sorted(set(stores.events.scan(["project"], inside).get_column("project").to_list()))
    if wanted is not None:
        names = [name for name in names if stores.called(name) == stores.called(str(wanted))]
    if wanted is not None and not names:
        raise InputError(
            f"project {wanted}",
            "wanted one with events, found none",
            "name one: --project, or --all-projects",
        )
    return {"projects": sorted({stores.called(name) for name in names}), "captured_as": names}


def summaries_of(stores: Stores, ids: Sequence[str]) -> dict[str, str]:
    """Return event id -> one line of its text, of those that are there."""
    rows = stores.events.by_ids(ids, ["id", "kind", "content", "tool"]).iter_rows(named=True)
    return {row["id"]: summary(row["content"], label=label(row["kind"], row["tool"])) for row in rows}


MEMORY_OPERATIONS: dict[str, Callable[[Context, dict[str, Any]], dict[str, Any]]] = {
    "working_set": working_set,
    "memories": memories,
    "continuity": continuity,
    "endless_status": endless_status,
    "projects": projects,
}
