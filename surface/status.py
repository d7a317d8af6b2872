"""What `status` tells: counted where it lies, never remembered."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from headwater.schemas import clock, control
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.events import Fate
from headwater.schemas.memory_columns import MEMORIES
from headwater.storage import active, journal
from headwater.storage.control import ControlJournal
from headwater.storage.known_ids import KnownIds
from headwater.storage.llm_texts import LlmTexts
from headwater.storage.mending import damaged
from headwater.storage.outbox import VectorOutbox
from headwater.storage.run_files import read_archive_state, read_ingest_state
from headwater.surface import failures, pause, processes

if TYPE_CHECKING:
    from headwater.query.feedback import Tally
    from headwater.query.stores import Stores
    from headwater.storage.home import Home
    from headwater.storage.usage import Usage


def table_counts(home: Home, stores: Stores) -> dict[str, Any]:
    """Return events, sessions, projects, items with vectors, memories: all read from the tables now."""
    from headwater.storage.vectors import VectorStore

    rows = stores.events.scan(["agent", "session_id", "project"])
    version = stores.embedding_version
    return {
        "events": rows.height,
        "sessions": rows.select("agent", "session_id").n_unique() if rows.height else 0,
        "projects": stores.renamed(rows)["project"].n_unique() if rows.height else 0,
        "vectors": 0 if version is None else VectorStore(home).count_items(version),
        "memories": stores.table(MEMORIES).count(),
    }


def told_counts(stores: Stores, usage: Usage) -> dict[str, Any]:
    """Return how much of what sessions were told was used, by kind; first what can be judged by now is."""
    from headwater.query.feedback import Tally, judged, tallies

    usage.decide(judged(stores, usage.told(undecided=True)))
    by_kind = tallies(usage.told())
    sums = (sum(getattr(one, name) for one in by_kind.values()) for name in ("told", "judged", "used"))
    return _tally(Tally(*sums)) | {"by_kind": {name: _tally(one) for name, one in by_kind.items()}}


def _tally(one: Tally) -> dict[str, Any]:
    share = None if one.share is None else round(one.share, 4)
    return {"told": one.told, "judged": one.judged, "used": one.used, "share": share}


def unknown_counts(error: HeadwaterError) -> dict[str, Any]:
    """Return the counts of tables that cannot be read: each unknown, and why."""
    names = ("events", "sessions", "projects", "vectors", "memories", "told")
    return dict.fromkeys(names) | {"tables_error": str(error)}


def full_status(home: Home, tables: dict[str, Any]) -> dict[str, Any]:
    """Return all of `status`, the table counts given."""
    running = processes.pids(home)
    state = read_ingest_state(home)
    known = KnownIds(home.ids_file)
    outbox = VectorOutbox(home.outbox_file, mends=False)
    version = home.current().embedding_version
    try:
        jobs = outbox.counts(version)
        fates = known.count_fates()
    finally:
        known.close()
        outbox.close()
    return {
        "home": str(home.root),
        **decided(home),
        "paused": pause_state(home),
        "running": {role: running[role] is not None for role in ("ingest", "server")},
        "pids": running,
        "wakes": state.get("wakes") or {"watch": 0, "rescan": 0},
        "hook_failures": failures.read_failures(str(home.root)),
        "events": tables["events"],
        "sessions": tables["sessions"],
        "projects": tables["projects"],
        "quarantined": fates[Fate.QUARANTINED],
        "damaged": [str(path.relative_to(home.root)) for path in damaged(home)],
        "model_error": model_error(home),
        "archive_error": archive_error(home),
        "model_next_step": active.next_step(home),
        "llm": llm_state(home),
        "journal_lag_bytes": lag_bytes(home, state.get("cursors")),
        "jobs": {
            "pending": jobs.pending,
            "processing": jobs.processing,
            "done": jobs.done,
            "failed": jobs.failed,
        },
        "vectors": tables["vectors"],
        "memories": tables["memories"],
        "told": tables["told"],
        "tables_error": tables.get("tables_error"),
        "embedding_version": version,
    }


def pause_state(home: Home) -> dict[str, str | None] | None:
    """Return until when hooks are paused (ISO 8601, None: until `resume`), None when they are not."""
    if not pause.is_paused(home):
        return None
    end = pause.until(home)
    return {"until": None if end is None else clock.iso(end)}


def model_error(home: Home) -> str | None:
    """Return why the active model cannot be used, None when it can; nothing is loaded or downloaded."""
    try:
        active.chosen_model(home)
    except HeadwaterError as error:
        return str(error)
    return None


def archive_error(home: Home) -> str | None:
    """Return why the last archive run failed, with the fix; None when it did not, or there was none."""
    told = read_archive_state(home)
    if "error" not in told:
        return None
    return f"{told['error']}. Fix: {told.get('fix') or 'run: headwater archive'}"


def llm_state(home: Home) -> dict[str, Any] | None:
    """Return how many memories have a summary in a model's words and why the last failed, None when it is off."""
    if not home.config().endless.consolidation.use_llm_summarization:
        return None
    texts = LlmTexts(home.llm_file)
    try:
        failure = texts.failure()
        return {"summaries": texts.count(), "error": None if failure is None else failure.why}
    finally:
        texts.close()


def decided(home: Home) -> dict[str, Any]:
    """Return the mode, decided or else set, and how many decisions there are, are unreadable, or say nothing to us."""
    read = ControlJournal(home).read()
    state = control.fold(read.decisions)
    counts = {
        "decisions": len(read.decisions),
        "ignored": len(state.ignored),
        "unreadable": len(read.unreadable),
    }
    return {"mode": state.mode or home.config().mode, "control": counts}


def lag_bytes(home: Home, cursors: Any) -> int:
    """Return how many bytes of the journal the flow has not read yet."""
    read = cursors if isinstance(cursors, dict) else {}
    sizes: dict[str, int] = {}
    with contextlib.suppress(HeadwaterError):  # a journal that cannot be listed is told by doctor, in words
        sizes = journal.list_files(home.journal)
    return sum(max(0, size - int(read.get(name, 0))) for name, size in sizes.items())
