"""What people decided: the lines of the control journal, and the state they fold into.

Decisions are replayed like events: sorted by (at_ns, offset), each id once. A kind that this version does not know, or
arguments that mean nothing to it, change nothing and stay on record for a version that does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from headwater.schemas.ids import digest

CONTROL_VERSION = 1
MODES = ("session", "endless")
_FIELDS: Mapping[str, type] = {"id": str, "at_ns": int, "kind": str, "args": dict, "by": str}
_NOTHING: Mapping[str, str] = MappingProxyType({})


class DecisionKind(StrEnum):
    """What can be decided, with its arguments."""

    MODE = "mode"  # mode: session | endless
    CONSOLIDATE = "consolidate"  # project: the project whose open windows close now
    PIN = "pin"  # id: an item; pinned: false takes the pin away
    FORGET = "forget"  # ids: events that are gone; whoever decides resolves a query or a date to ids first
    PROJECT_MOVE = "project_move"  # from, to: projects
    PAUSE = "pause"  # until_ns: when capture goes on, 0 at once, null when told


@dataclass(frozen=True, slots=True)
class Decision:
    """One line of the control journal; `offset` is where it starts (bytes), the tie-breaker among equal times.

    `kind` is any text, for a later version may have written it; `args` is JSON-ready data.
    """

    id: str
    at_ns: int
    kind: str
    args: Mapping[str, Any]
    by: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Somebody asked to consolidate a project at a time (ns since the epoch)."""

    at_ns: int
    project: str


@dataclass(frozen=True, slots=True)
class ControlState:
    """What holds after all decisions.

    `mode` is None until somebody set one. `moves` maps a project's old name to the one it has now, chains resolved.
    `paused_until_ns`: None when capture is not paused, else the time it goes on, PAUSED_OPEN when nobody said.
    `ignored` are decisions of unknown kinds or with arguments that mean nothing, in order.
    """

    mode: str | None = None
    pins: frozenset[str] = frozenset()
    forgets: frozenset[str] = frozenset()
    moves: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    consolidations: tuple[Consolidation, ...] = ()
    paused_until_ns: int | None = None
    ignored: tuple[Decision, ...] = ()

    def project(self, name: str) -> str:
        """Return what a project is called now."""
        return self.moves.get(name, name)

    def names(self, name: str) -> tuple[str, ...]:
        """Return all names of a project: what it is called now, then those that were moved to it, sorted."""
        now = self.project(name)
        return (now, *sorted(old for old, new in self.moves.items() if new == now))


PAUSED_OPEN = -1


def make_decision(kind: str, args: Mapping[str, Any], *, at_ns: int, by: str) -> Decision:
    """Return a new decision; its id is derived, so that telling the same one twice is telling it once."""
    return Decision("ctl_" + digest("control", str(at_ns), kind, _canonical(args), by), at_ns, kind, args, by)


def encode_decision(decision: Decision) -> bytes:
    """Return the decision as one journal line, newline included."""
    line = {
        "v": CONTROL_VERSION,
        "id": decision.id,
        "at_ns": decision.at_ns,
        "kind": decision.kind,
        "args": dict(decision.args),
        "by": decision.by,
    }
    return json.dumps(line).encode("ascii") + b"\n"  # ASCII: a text with half a code point stays writable


def parse_decision(data: bytes, offset: int) -> Decision:
    """Return the decision of one line. Raises ValueError, saying what was wanted, when it is none."""
    try:
        line = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"wanted JSON, got: {error}") from error
    if not isinstance(line, dict):
        raise ValueError(f"wanted an object, got {type(line).__name__}")  # noqa: TRY004 - of a value, not of a type
    for name, wanted in _FIELDS.items():
        if not isinstance(line.get(name), wanted) or isinstance(line.get(name), bool):
            raise ValueError(f"wanted {wanted.__name__} in '{name}', got {line.get(name)!r:.60}")  # noqa: TRY004 - same
    if not isinstance(line.get("v"), int) or not line["id"]:
        raise ValueError(f"wanted a version and an id, got {line.get('v')!r:.60} and {line['id']!r}")
    # a later version may mean something else by the same words: its lines are kept, as those of unknown kinds are
    kind = line["kind"] if line["v"] == CONTROL_VERSION else f"{line['kind']}@v{line['v']}"
    return Decision(line["id"], line["at_ns"], kind, line["args"], line["by"], offset)


def fold(decisions: Iterable[Decision]) -> ControlState:
    """Return what holds after all decisions, whatever order they come in; one that comes twice counts once."""
    state = ControlState()
    seen: set[str] = set()
    for decision in sorted(decisions, key=_order):
        if decision.id not in seen:
            seen.add(decision.id)
            state = _apply(state, decision)
    return state


def steps_back(decisions: Iterable[Decision], name: str) -> list[dict[str, str]]:
    """Return the arguments of the moves that give a moved name back what it had before; none when it is not moved."""
    before = kept = ControlState()
    for decision in sorted(decisions, key=_order):
        state = _apply(before, decision)
        if name in state.moves and name not in before.moves:
            kept = before
        before = state
    return [{"from": one, "to": name} for one in kept.names(name)] if name in before.moves else []


def _order(decision: Decision) -> tuple[int, int, str, str, str]:
    """Time and place; the rest only so that lines from two files with equal places have one order as well."""
    return (decision.at_ns, decision.offset, decision.id, decision.kind, _canonical(decision.args))


def _canonical(args: Mapping[str, Any]) -> str:
    return json.dumps(dict(args), sort_keys=True)


def _apply(state: ControlState, decision: Decision) -> ControlState:
    args = decision.args
    match decision.kind:
        case DecisionKind.MODE if args.get("mode") in MODES:
            return replace(state, mode=args["mode"])
        case DecisionKind.CONSOLIDATE if _is_name(args.get("project")):
            asked = Consolidation(decision.at_ns, args["project"])
            return replace(state, consolidations=(*state.consolidations, asked))
        case DecisionKind.PIN if _is_name(args.get("id")) and isinstance(args.get("pinned", True), bool):
            one = frozenset({args["id"]})
            return replace(state, pins=state.pins | one if args.get("pinned", True) else state.pins - one)
        case DecisionKind.FORGET if _are_names(args.get("ids")):
            return replace(state, forgets=state.forgets | frozenset(args["ids"]))
        case DecisionKind.PROJECT_MOVE if _is_name(args.get("from")) and _is_name(args.get("to")):
            return replace(state, moves=_moved(state.moves, args["from"], args["to"]))
        case DecisionKind.PAUSE if _is_until(args.get("until_ns", "missing")):
            until_ns = PAUSED_OPEN if args["until_ns"] is None else args["until_ns"]
            return replace(state, paused_until_ns=until_ns or None)
    return replace(state, ignored=(*state.ignored, decision))


def _moved(moves: Mapping[str, str], old: str, new: str) -> Mapping[str, str]:
    """Return the moves after one more: what went to `old` before goes to `new`, and `new` itself stays."""
    after = {name: new if target == old else target for name, target in {**moves, old: new}.items()}
    return MappingProxyType({name: target for name, target in after.items() if name not in (new, target)})


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(_is_name(one) for one in value)


def _is_until(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)
