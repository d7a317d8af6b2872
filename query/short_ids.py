"""Ids as short as they can be and still name one event of the project, and what such a beginning stands for."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from headwater.query.scope import both, where
from headwater.schemas import limits
from headwater.schemas.errors import InputError
from headwater.schemas.memory_columns import MEMORIES, SESSIONS
from headwater.storage.tables import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.query.stores import Stores
    from headwater.schemas.answers import Scope

_WHOLE_CHARS = 16  # of a derived id: a kind of three letters, `_`, and 12 more
_BEGINNING = re.compile(rf"(?:evt|mem|ses)_[0-9a-z]{{{limits.SHORT_ID_CHARS - 4},}}")
_NAMED = 5  # of those that a beginning may stand for, in the error


def resolved(stores: Stores, ids: Sequence[str], scope: Scope, *, strict: bool = True) -> list[str]:
    """Return ids with each that is the beginning of exactly one id of the scope's project in place of it.

    At least SHORT_ID_CHARS characters make a beginning; whole ids, and what is the beginning of none, stay as they are.
    Raises InputError, which names them, when one is that of several; unless `strict` it is left out.
    """
    short = [id_ for id_ in ids if len(id_) < _WHOLE_CHARS and _BEGINNING.fullmatch(id_)]
    if not short:
        return list(ids)
    stands_for: dict[str, str] = {}
    there = _there(stores, short, scope)
    for one in short:
        found = [id_ for id_ in there if id_.startswith(one)]
        if one in found or not found:
            continue
        if len(found) == 1:
            stands_for[one] = found[0]
        elif strict:
            more = "" if len(found) <= _NAMED else f" and {len(found) - _NAMED} more"
            raise InputError(
                f"id {one}",
                f"wanted the beginning of one id, got that of {', '.join(found[:_NAMED])}{more}",
                "give more of its characters",
            )
        else:
            stands_for[one] = ""
    return [stood for id_ in ids if (stood := stands_for.get(id_, id_))]


def _there(stores: Stores, beginnings: Sequence[str], scope: Scope) -> list[str]:
    """Return all ids of the project that begin like one of these, sorted."""
    walls = where(scope.of_project())
    tables = {"mem_": (MEMORIES, "memory_id"), "ses_": (SESSIONS, "id")}
    found: set[str] = set()
    for prefix in sorted({one[:4] for one in beginnings}):
        definition, column = tables.get(prefix, (None, "id"))
        table = stores.events if definition is None else stores.table(definition)
        ranges = " OR ".join(
            f"({column} >= {quote(one)} AND {column} < {quote(_after(one))})"
            for one in beginnings
            if one.startswith(prefix)
        )
        found |= set(table.scan([column], both(ranges, walls)).get_column(column).to_list())
    return sorted(found)


def _after(beginning: str) -> str:
    """Return what comes after all texts that begin so."""
    return beginning[:-1] + chr(ord(beginning[-1]) + 1)


def shortened(ids: Sequence[str], alike: Sequence[str]) -> dict[str, str]:
    """Return for each id its shortest beginning, of SHORT_ID_CHARS or more, that none of those that begin alike has.

    In the order of all, an id shares most with one of those beside it: 10,000 that begin alike cost one sort.
    """
    every = sorted({*alike, *ids})
    short = {}
    for id_ in ids:
        at = bisect_left(every, id_)
        beside = [*every[max(0, at - 1) : at], *every[at + 1 : at + 2]]
        shared = max((_shared(id_, other) for other in beside), default=0)
        short[id_] = id_[: max(limits.SHORT_ID_CHARS, shared + 1)]
    return short


def _shared(one: str, other: str) -> int:
    """Return how many characters two ids begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))
