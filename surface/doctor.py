"""`doctor`: checks that look for themselves, each with what it saw and the fix. Nothing is repaired here."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.schemas import limits
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.text import other_script_share
from headwater.storage import table_damage
from headwater.storage.journal import CONTROL_NAME
from headwater.storage.locks import is_held
from headwater.storage.mending import damaged
from headwater.storage.run_files import SUPERVISOR_LOCK, read_archive_state, read_ingest_state
from headwater.surface import failures, pause, processes
from headwater.surface.connection import connection
from headwater.surface.findings import Check
from headwater.surface.status import decided, lag_bytes, llm_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater.storage.home import Home

_ENGLISH = ("minilm",)  # beginnings of versions of models that know English only
_PACKAGES = (
    "headwater",
    "bytewax",
    "lancedb",
    "polars",
    "pyarrow",
    "sentence-transformers",
    "torch",
    "watchfiles",
)


def examine(home: Home) -> list[Check]:
    """Return the findings of all checks; a check that fails itself is a finding."""
    found: list[Check] = []
    for check in _CHECKS:
        try:
            found += check(home)
        except HeadwaterError as error:
            found.append(
                Check(check.__name__.strip("_"), "bad", f"{error.where}: {error.problem}", error.fix)
            )
        except (OSError, sqlite3.Error) as error:
            found.append(
                Check(check.__name__.strip("_"), "bad", str(error), "check disk and permissions of the home")
            )
    return found


def to_json(checks: list[Check]) -> dict[str, Any]:
    """Return the findings as JSON-ready data."""
    rows = [{"name": c.name, "level": c.level, "said": c.said, "fix": c.fix or None} for c in checks]
    return {"ok": not any(c.level == "bad" for c in checks), "checks": rows}


def to_text(checks: list[Check]) -> str:
    """Return the findings for a terminal: one line each, and the fix below when there is one."""
    lines: list[str] = []
    for check in checks:
        lines.append(f"{check.level:<5}{check.name:<14}{check.said}")
        if check.fix:
            lines.append(f"{'':<19}fix: {check.fix}")
    return "\n".join(lines)


def _home(home: Home) -> Iterator[Check]:
    yield Check("home", "ok", str(home.root))


def _permissions(home: Home) -> Iterator[Check]:
    open_to_others = [
        path
        for path in (home.root, home.journal, home.run, home.logs, *home.journal.glob("*.jsonl"))
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    if not os.access(home.journal, os.W_OK):
        yield Check(
            "permissions", "bad", f"{home.journal} cannot be written", f"run: chmod u+rwx {home.journal}"
        )
        return
    closed = [path for path in home.journal.glob("*.jsonl") if not os.access(path, os.R_OK)]
    if closed:
        said = f"{len(closed)} journal files cannot be read, such as {closed[0].name}"
        yield Check("permissions", "bad", said, f"run: chmod u+rw {home.journal}/*.jsonl")
    if open_to_others:
        said = f"{len(open_to_others)} open to others, such as {open_to_others[0]}"
        yield Check("permissions", "warn", said, f"run: chmod -R go-rwx {home.root}")
    elif not closed:
        yield Check("permissions", "ok", "only you can read the home")


def _disk(home: Home) -> Iterator[Check]:
    free_bytes = shutil.disk_usage(home.root).free
    said = f"{free_bytes / 1e9:.1f} GB free"
    if free_bytes < limits.DISK_FREE_BYTES:
        yield Check("disk", "bad", said, "free some space: events are lost when the hook cannot write")
    else:
        yield Check("disk", "ok", said)


def _processes(home: Home) -> Iterator[Check]:
    running = processes.pids(home)
    missing = [role for role in ("ingest", "server") if running[role] is None]
    if not missing:
        yield Check("processes", "ok", "ingest and server are up")
    elif is_held(home.run / SUPERVISOR_LOCK):
        said = f"{' and '.join(missing)} down, the supervisor is up and starts them again"
        yield Check("processes", "warn", said, f"see {home.logs}")
    else:
        yield Check("processes", "warn", f"{' and '.join(missing)} down", "run: headwater up")


def _lag(home: Home) -> Iterator[Check]:
    unread = lag_bytes(home, read_ingest_state(home).get("cursors"))
    fix = "run: headwater up" if processes.pids(home)["ingest"] is None else "wait, or see logs/ingest.log"
    if unread > limits.LAG_BYTES:
        yield Check("lag", "warn", f"{unread:,} bytes of the journal not read yet", fix)
    else:
        yield Check("lag", "ok", f"{unread:,} bytes of the journal not read yet")


def _hook_failures(home: Home) -> Iterator[Check]:
    count = failures.read_failures(str(home.root))
    if count:
        fix = "check disk and permissions; events of those calls may be missing"
        yield Check("hook", "warn", f"{count:,} hook calls could not write", fix)
    else:
        yield Check("hook", "ok", "no hook call failed to write")


def _pause(home: Home) -> Iterator[Check]:
    if pause.is_paused(home):
        yield Check("pause", "warn", f"hooks record nothing: {pause.said(home)}", "run: headwater resume")


def _quarantine(home: Home) -> Iterator[Check]:
    from headwater.schemas.events import Fate
    from headwater.storage.known_ids import KnownIds

    with closing(KnownIds(home.ids_file)) as known:
        count = known.count_fates()[Fate.QUARANTINED]
    if count:
        yield Check("quarantine", "warn", f"{count:,} lines could not be used", f"see {home.quarantine_file}")
    else:
        yield Check("quarantine", "ok", "every line could be used")


def _control(home: Home) -> Iterator[Check]:
    counts = decided(home)["control"]
    said = f"{counts['decisions']:,} decisions on record"
    path = home.journal / CONTROL_NAME
    if counts["unreadable"]:
        yield Check("control", "warn", f"{counts['unreadable']:,} lines are no decisions", f"see {path}")
    elif counts["ignored"]:
        said += f", {counts['ignored']:,} of them mean nothing to this version"
        yield Check("control", "warn", said, f"update headwater, or see {path}")
    else:
        yield Check("control", "ok", said)


def _archive(home: Home) -> Iterator[Check]:
    told = read_archive_state(home)
    if "error" in told:
        fix = f"{told.get('fix') or 'see the error'}; then: headwater archive, with the stream down"
        yield Check("archive", "warn", f"the last run ({told.get('at')}) failed: {told['error']}", fix)
    elif told:
        counts = f"{told.get('files', 0):,} files sealed, {told.get('left', 0):,} left in the journal"
        yield Check("archive", "ok", f"the last run ({told.get('at')}): {counts}")
    else:
        yield Check("archive", "ok", "nothing was due yet")


def _databases(home: Home) -> Iterator[Check]:
    for path in (home.ids_file, home.outbox_file, home.usage_file, home.llm_file):
        if not path.exists():
            continue
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
                result = connection.execute("PRAGMA quick_check").fetchone()[0]
        except sqlite3.DatabaseError as error:
            result = str(error)
        if result == "ok":
            yield Check("databases", "ok", f"{path.name} is sound")
        else:
            yield Check(
                "databases",
                "bad",
                f"{path.name}: {result}",
                "run: headwater down, then: headwater up; it is moved aside and made again",
            )


def _tables(home: Home) -> Iterator[Check]:
    from headwater.schemas.columns import EVENTS
    from headwater.storage.tables import LanceStore
    from headwater.storage.vectors import VectorStore

    version = home.current().embedding_version
    tables = [LanceStore(home.lance).open(EVENTS, create=False)]
    tables += [] if version is None else VectorStore(home).tables(version)
    for table in tables:
        why = table.why_damaged()
        if why is None:
            yield Check("tables", "ok", f"{table.name} is sound")
        else:
            yield Check("tables", "bad", f"{table.name}: {why}", table_damage.FIX)


def _damaged(home: Home) -> Iterator[Check]:
    found = damaged(home)
    if found:
        said = f"{len(found)} were damaged, moved aside and made again, such as {found[0].relative_to(home.root)}"
        yield Check(
            "damaged", "warn", said, f"see {home.logs} for why; then delete {home.root}/**/*.damaged-*"
        )
    else:
        yield Check("damaged", "ok", "no store was ever found damaged")


def _vectors(home: Home) -> Iterator[Check]:
    from headwater.flows.missing import missing_vectors
    from headwater.storage.outbox import VectorOutbox

    version = home.current().embedding_version
    if version is None:
        yield Check("vectors", "warn", "none were ever made", "run: headwater up")
        return
    missing = missing_vectors(
        home, version
    ).height  # of those that wait, of those that failed, and forgotten ones
    with closing(VectorOutbox(home.outbox_file, mends=False)) as outbox:
        jobs = outbox.counts(version)
    waiting = jobs.pending + jobs.processing
    if jobs.failed:
        fix = f"see {home.logs / 'server.log'}; once the cause is gone: headwater down, headwater up"
        yield Check("vectors", "warn", f"{jobs.failed:,} items failed to embed", fix)
    forgotten = missing - waiting - jobs.failed
    if forgotten > 0:
        said = f"{forgotten:,} items have no vector and no job for one"
        yield Check("vectors", "warn", said, "run: headwater down, then: headwater up, which compares them")
    elif waiting and processes.pids(home)["server"] is None:
        yield Check(
            "vectors", "warn", f"{waiting:,} items wait for vectors, no server runs", "run: headwater up"
        )
    elif not jobs.failed:
        yield Check("vectors", "ok", f"{waiting:,} items wait for vectors, none is forgotten")


def _model(home: Home) -> Iterator[Check]:
    from headwater.storage.active import chosen_model, next_step
    from headwater.storage.models import version_of

    spec = chosen_model(home)
    yield Check("model", "ok", f"{spec.name}, version {version_of(spec)}")
    step = next_step(home)
    if step is not None:
        said, _, fix = step.rpartition("; ")
        yield Check("model", "warn", said, fix)
    if spec.slug.startswith(_ENGLISH):
        yield from _script(home)


def _script(home: Home) -> Iterator[Check]:
    """Look at the newest prompts and answers: a model for English sees little in other scripts."""
    from headwater.schemas.columns import EVENTS
    from headwater.storage.multilingual import EXTRA, NAME
    from headwater.storage.tables import LanceStore

    events = LanceStore(home.lance).open(EVENTS, create=False)
    heads = events.scan(["id", "at"], "kind IN ('prompt', 'response')").sort("at", descending=True)
    ids = heads.head(limits.SCRIPT_EVENTS).get_column("id").to_list()
    texts = events.by_ids(ids, ["content"]).get_column("content").to_list() if ids else []
    share = other_script_share(texts)
    if share > limits.OTHER_SCRIPT_SHARE:
        said = f"{share:.0%} of the newest prompts and answers are not in Latin script, and this model is for English"
        yield Check(
            "model", "warn", said, f"run: headwater reembed --model {NAME} --activate; it needs: {EXTRA}"
        )
    else:
        yield Check("model", "ok", f"{share:.0%} of the newest prompts and answers are not in Latin script")


def _llm(home: Home) -> Iterator[Check]:
    state = llm_state(home)
    if state is None:
        return
    if state["error"]:
        problem, _, fix = state["error"].partition(". Fix: ")
        yield Check("llm", "warn", f"the last summary did not come: {problem}", fix)
    else:
        yield Check("llm", "ok", f"{state['summaries']:,} memories have a summary in a model's words")


def _versions(home: Home) -> Iterator[Check]:
    del home
    found = ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    yield Check("versions", "ok", f"python {sys.version.split()[0]}, {found}")


def _torch(home: Home) -> Iterator[Check]:
    del home
    cuda = [d.name for d in metadata.distributions() if d.name and d.name.lower().startswith("nvidia-")]
    if cuda:
        fix = "uninstall torch and the nvidia packages, install the CPU build: saves several GB"
        yield Check("torch", "warn", f"a CUDA build ({len(cuda)} nvidia packages)", fix)
    else:
        yield Check("torch", "ok", f"torch {metadata.version('torch')}, no CUDA packages")


def _interpreter(home: Home) -> Iterator[Check]:
    from headwater.surface.verbs.capture import hook_command

    command = hook_command(home.root, "claude-code")
    if Path(command[0]).exists():
        yield Check("interpreter", "ok", f"the hook runs with {command[0]}")
    else:
        yield Check("interpreter", "bad", f"{command[0]} is gone", "install headwater again, then the hooks")


_CHECKS: tuple[Callable[[Home], Iterator[Check]], ...] = (
    _home,
    _permissions,
    _disk,
    _processes,
    _lag,
    _hook_failures,
    _pause,
    _quarantine,
    _control,
    _archive,
    _databases,
    _tables,
    _damaged,
    _vectors,
    _model,
    _llm,
    _versions,
    _torch,
    _interpreter,
    connection,
)
