"""The command line: `headwater VERB`. Exit 0 done, 1 not done (one line: why and the fix), 2 wrong use."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from headwater.schemas.errors import HeadwaterError
from headwater.surface.options import HOME

if TYPE_CHECKING:
    from pathlib import Path

# verb -> (module below surface/verbs, function); a module is imported only when its verb runs or is asked for help
VERBS = {
    "archive": ("history", "archive"),
    "backup": ("keeping", "backup"),
    "context": ("memory", "context"),
    "continuity": ("memory", "continuity"),
    "demo": ("demo", "demo"),
    "doctor": ("doctor", "doctor"),
    "down": ("lifecycle", "down"),
    "endless": ("endless", "endless"),
    "export": ("keeping", "export"),
    "hook": ("capture", "hook"),
    "ingest": ("ingest", "ingest"),
    "install": ("install", "install"),
    "mcp": ("mcp", "mcp"),
    "memories": ("memory", "memories"),
    "migrate": ("keeping", "migrate"),
    "models": ("models", "models"),
    "pause": ("pausing", "pause"),
    "project": ("project", "project"),
    "reembed": ("models", "reembed"),
    "reprocess": ("history", "reprocess"),
    "restore": ("keeping", "restore"),
    "resume": ("pausing", "resume"),
    "search": ("recall", "search"),
    "show": ("recall", "show"),
    "status": ("lifecycle", "status"),
    "timeline": ("recall", "timeline"),
    "uninstall": ("install", "uninstall"),
    "up": ("lifecycle", "up"),
    "vector": ("vectors", "vector"),
    "vector-reconcile": ("vectors", "vector_reconcile"),
    "vector-status": ("vectors", "vector_status"),
    "vector-worker": ("vectors", "vector_worker"),
    "working-set": ("memory", "working_set"),
}


class _Verbs(click.Group):
    """A group that imports a verb's module when it is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in VERBS:
            return None
        module, function = VERBS[cmd_name]
        command = getattr(import_module(f"headwater.surface.verbs.{module}"), function)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(version("headwater"), prog_name="headwater", message="%(prog)s %(version)s")
@HOME
def cli(home_path: Path | None) -> None:
    """A memory stream for coding agents: hooks in, three layers of recall out. Local; no account, no telemetry."""
    del home_path  # read by the verbs through `open_home`


def main() -> None:
    """Run a verb; errors are one line on stderr and an exit code, never a traceback."""
    from headwater.surface.console import quiet_libraries

    with quiet_libraries():
        code = _run()
    sys.exit(code)


def _run() -> int:
    """Return the exit code of the verb that the command line names, its error told."""
    from headwater.storage.panics import panics_as_errors

    try:
        with panics_as_errors():
            code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 2
    except click.Abort:
        click.echo("headwater: interrupted", err=True)
        return 1
    except HeadwaterError as error:
        click.echo(f"headwater: {error}", err=True)
        return 1
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone, as `head` does; nothing to say and nobody to say it to
        return 1
    except Exception as error:
        if os.environ.get("HEADWATER_TRACE"):
            raise
        said = " ".join(f"a fault of ours: {type(error).__name__}: {error}".split())[:400]
        click.echo(f"headwater: {said}. Fix: headwater doctor; HEADWATER_TRACE=1 shows where", err=True)
        return 1
    return code if isinstance(code, int) else 0
