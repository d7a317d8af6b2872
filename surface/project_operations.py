"""Projects: which there are, and that what was captured under one name belongs to another."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.query.format import wrap
from headwater.query.projects import count_projects
from headwater.schemas.clock import iso, local
from headwater.schemas.control import DecisionKind, fold, steps_back
from headwater.schemas.errors import InputError
from headwater.storage.control import ControlJournal
from headwater.surface.projects import resolve_project

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from headwater.query.projects import ProjectCount
    from headwater.storage.home import Home
    from headwater.surface.request_context import Context


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move did: `from_project` and `to_project` as they were understood; not `is_new`: it held already."""

    from_project: str
    to_project: str
    is_new: bool


def project_list(context: Context, args: dict[str, Any]) -> dict[str, Any]:
    """Return all projects, the one that was seen last first; args: text (add the answer as text)."""
    found = count_projects(context.stores)
    rows = [
        {
            "project": one.project,
            "events": one.events,
            "sessions": one.sessions,
            "first_at": iso(one.first_at),
            "last_at": iso(one.last_at),
            "roots": list(one.roots),
        }
        for one in found
    ]
    return {"projects": rows} | ({"text": _text(found)} if args.get("text") else {})


def move_project(home: Home, names: Collection[str], old: str, new: str, *, back: bool = False) -> Moved:
    """Decide that the events of `old` belong to `new`, or take that `back`; `names`: those events were captured under.

    Durable when it returns; telling it again changes nothing. Both are names of projects or folders. Taken back, each
    has what it had before, also where `new` has events of its own. Raises InputError for an `old` without events and
    for two names of one project, StoreError when it could not be written.
    """
    journal = ControlJournal(home)
    decisions = journal.read().decisions
    state = fold(decisions)
    known = {*names, *(state.project(name) for name in names)}
    source, target = _named(old, known, must_exist=True), _named(new, known, must_exist=False)
    if source == target:
        raise InputError(
            f"project {target}", "wanted another one to move it to, got itself", "name a new folder"
        )
    there = state.project(target)
    if back:
        steps = steps_back(decisions, source) if state.project(source) == there else []
    elif state.project(source) != there:
        steps = [{"from": source, "to": there}]
    else:  # one project already: it may go on under an older name of its own
        steps = [{"from": source, "to": target}] if source == there else []
    for args in steps:
        journal.append(DecisionKind.PROJECT_MOVE, args)
    return Moved(source, target, bool(steps))


def _named(text: str, known: Collection[str], *, must_exist: bool) -> str:
    """Return the project that a name or a folder means: one that is known when there is one of that name."""
    folder = os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111 - of a folder that may be gone
    for name in (text, folder, resolve_project(folder)):
        if name in known:
            return name
    if must_exist:
        raise InputError(
            f"project {text}", "wanted one with events, found none", "take it from: headwater project list"
        )
    return resolve_project(folder)


def _text(found: Sequence[ProjectCount]) -> str:
    if not found:
        return "There are no projects yet."
    blocks = []
    for one in found:
        times = f"{local(one.first_at):%Y-%m-%d %H:%M} to {local(one.last_at):%Y-%m-%d %H:%M}"
        events, sessions = ("" if count == 1 else "s" for count in (one.events, one.sessions))
        lines = [one.project or "(no folder told)"]
        lines.append(f"    {one.events:,} event{events} in {one.sessions:,} session{sessions}, {times}")
        for root in one.roots:
            lines += wrap(f"captured as {root}", "    ") if root != one.project else []
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


PROJECT_OPERATIONS: dict[str, Callable[[Context, dict[str, Any]], dict[str, Any]]] = {
    "project_list": project_list
}
