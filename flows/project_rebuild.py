"""Taking one project out of a generation's copy, so that reading layer 0 again builds that project alone.

Every line whose event belongs to the project, by the rules of then or of now, loses its fate; all others keep theirs
and change nothing. How often equal facts came before is kept, so numbers stay what they are.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from headwater.flows.event_writer import RepeatCounter
from headwater.flows.normalise import normalise
from headwater.flows.parse import parse
from headwater.schemas.columns import EVENTS
from headwater.schemas.events import Draft, Envelope, Position
from headwater.storage.archive import read_all
from headwater.storage.known_ids import KnownIds
from headwater.storage.tables import LanceStore, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.storage.home import Home


def forget_project(building: Home, project: str) -> None:
    """Delete a project's rows, and the fates of all lines that lead to them; the caller holds ARCHIVE_LOCK.

    Not atomic: a copy that was left half forgotten must be made anew.
    """
    table = LanceStore(building.lance).open(EVENTS)
    with closing(KnownIds(building.ids_file)) as known:
        where = f"project = {quote(project)}"
        ids = set(table.scan(["id"], where)["id"].to_list())
        first = {one.position for one in known.lookup(sorted(ids)).values() if one.position.file}
        known.unsettle(ids, [*first, *_positions(building, known, project, ids)])
    table.delete(where)


def _positions(building: Home, known: KnownIds, project: str, ids: set[str]) -> Iterator[Position]:
    """Yield where the records of the project stand, and those that tell more of one of its events."""
    repeats = RepeatCounter(known)
    for line in read_all(building):
        for record in parse(line):
            facts = [repeats.number_repeats(made) for made in normalise(record) if isinstance(made, Draft)]
            is_ours = isinstance(record, Envelope) and record.project == project
            if is_ours or any(one.event.project == project or one.event.id in ids for one in facts):
                yield record.position
