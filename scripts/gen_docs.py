"""Write the generated parts of docs: the command line's reference and the pictures of the flows.

`python scripts/gen_docs.py` writes them, `--check` only tells what is out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import cast
from unittest.mock import MagicMock

import click
from bytewax.visualize import to_mermaid

ROOT = Path(__file__).resolve().parent.parent
_MARK = re.compile(r"<!-- flow:(\w+) -->(?:\n```mermaid\n.*?\n```)?", re.DOTALL)


def cli_reference() -> str:
    """Return docs/cli.md: the help of every verb, as a terminal of 80 columns shows it."""
    from headwater.surface.cli import cli

    parts = [
        "# Command line",
        "Made by `scripts/gen_docs.py` from the program itself.",
        "Exit codes: 0 done, 1 not done (one line says why), 2 wrong use.",
    ]
    root = click.Context(cli, info_name="headwater", max_content_width=80, terminal_width=80)
    parts.append(f"```text\n{cli.get_help(root)}\n```")
    for name in cli.list_commands(root):
        parts += _verb(root, cast("click.Command", cli.get_command(root, name)), f"headwater {name}")
    return "\n\n".join(parts) + "\n"


def _verb(parent: click.Context, command: click.Command, path: str) -> list[str]:
    context = click.Context(
        command, info_name=path.rsplit(maxsplit=1)[-1], parent=parent, max_content_width=80, terminal_width=80
    )
    parts = [f"## {path}", f"```text\n{command.get_help(context)}\n```"]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            parts += _verb(
                context, cast("click.Command", command.get_command(context, name)), f"{path} {name}"
            )
    return parts


def flow_pictures() -> dict[str, str]:
    """Return flow name -> mermaid text; the flows are built, not run."""
    from headwater.flows.archive import archive_flow
    from headwater.flows.decisions import DecisionSource
    from headwater.flows.ingest import IngestParts, ingest_flow
    from headwater.flows.source import JournalSource

    inputs = (MagicMock(spec=JournalSource), MagicMock(spec=DecisionSource))
    parts = IngestParts(*inputs, *(MagicMock() for _ in range(5)))
    return {"ingest": to_mermaid(ingest_flow(parts)), "archive": to_mermaid(archive_flow(MagicMock()))}


def with_pictures(text: str) -> str:
    """Return a document with the picture of each flow behind its mark."""
    pictures = flow_pictures()
    return _MARK.sub(lambda found: f"<!-- flow:{found[1]} -->\n```mermaid\n{pictures[found[1]]}\n```", text)


def generated() -> dict[Path, str]:
    """Return every generated document and what it should hold."""
    architecture = ROOT / "docs" / "architecture.md"
    return {
        ROOT / "docs" / "cli.md": cli_reference(),
        architecture: with_pictures(architecture.read_text(encoding="utf-8")),
    }


def main() -> int:
    """Write, or with --check compare; 1 when something was out of date."""
    stale = [
        path
        for path, text in generated().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if "--check" not in sys.argv:
            path.write_text(generated()[path], encoding="utf-8")
        print(f"{'out of date' if '--check' in sys.argv else 'written'}: {path.relative_to(ROOT)}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
