"""Write docs/tables.md from `schemas/columns.py` and `schemas/memory_columns.py`.

`python scripts/gen_tables.py` writes it, `--check` only tells whether it is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.schemas.columns import EVENTS, vectors_def
from headwater.schemas.memory_columns import (
    CONTINUITY_LOG,
    EVENT_THREADS,
    MEMORIES,
    REVERSALS,
    SESSIONS,
    THREADS,
    WORKING_SET,
)

if TYPE_CHECKING:
    from headwater.schemas.columns import TableDef

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tables.md"
_DIM = 384  # any: the page says `dim`
_TABLES = (
    (EVENTS, "`lance/gen-N/events`", "Everything that happened, one row a fact."),
    (
        vectors_def(_DIM),
        "`lance/vectors/<item kind>_vectors_<embedding version>`",
        "One row a chunk of an item; `dim` is that of the embedding version.",
    ),
    (THREADS, "`lance/gen-N/threads`", "The subjects of a project, one row a thread."),
    (EVENT_THREADS, "`lance/gen-N/event_threads`", "Which thread each event of a turn belongs to."),
    (SESSIONS, "`lance/gen-N/sessions`", "What a session was about, written when it ends or falls silent."),
    (WORKING_SET, "`lance/gen-N/working_set`", "What is active in a project, and what was and has left."),
    (MEMORIES, "`lance/gen-N/memories`", "Consolidated memories, one row a window of a thread."),
    (REVERSALS, "`lance/gen-N/reversals`", "Statements that a later one reverses."),
    (CONTINUITY_LOG, "`lance/gen-N/continuity_log`", "How each turn goes on from what was before it."),
)


def tables_page() -> str:
    """Return the page."""
    parts = [
        "# Tables",
        "Made by `scripts/gen_tables.py` from the one definition of every table, in `schemas/`. Times are UTC.",
    ]
    for definition, place, meaning in _TABLES:
        parts += _table(definition, place, meaning)
    return "\n\n".join(parts) + "\n"


def _table(definition: TableDef, place: str, meaning: str) -> list[str]:
    indexes = dict(definition.scalar)
    words = dict(definition.text)
    rows = ["| column | type | null | index | meaning |", "|---|---|---|---|---|"]
    for column in definition.columns:
        index = [indexes[column.name]] if column.name in indexes else []
        index += [f"words: {words[column.name]}"] if column.name in words else []
        null = "yes" if column.nullable else "no"
        said = column.meaning.replace("|", "\\|")
        rows.append(f"| `{column.name}` | {type_name(column.dtype)} | {null} | {', '.join(index)} | {said} |")
    return [
        f"## {definition.name}",
        f"{place}. {meaning} Primary key: `{definition.key}`.",
        "\n".join(rows),
    ]


def type_name(dtype: pa.DataType) -> str:
    """Return a type as the page writes it."""
    if isinstance(dtype, pa.StructType):
        fields = (dtype.field(n) for n in range(dtype.num_fields))
        return "{" + ", ".join(f"{field.name}: {type_name(field.type)}" for field in fields) + "}"
    if isinstance(dtype, pa.FixedSizeListType):
        return f"{type_name(dtype.value_type)}[dim]"
    if isinstance(dtype, pa.ListType):
        return f"list of {type_name(dtype.value_type)}"
    return str(dtype)


def main() -> int:
    """Write, or with --check compare; 1 when it was out of date."""
    text = tables_page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in sys.argv:
        print(f"out of date: {PAGE.relative_to(ROOT)}")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
