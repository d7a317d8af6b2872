"""The command line: `headwater VERB`. Exit 0 done, 1 not done (one line: why and the fix), 2 wrong use."""

from __future__ import annotations

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
    "demo": ("demo", "demo"),
    "doctor": ("doctor", "doctor"),
    "down": ("lifecycle", "down"),
    "hook": ("capture", "hook"),
    "ingest": ("ingest", "ingest"),
    "install": ("capture", "install"),
    "search": ("recall", "search"),
    "show": ("recall", "show"),
    "status": ("lifecycle", "status"),
    "timeline": ("recall", "timeline"),
    "up": ("lifecycle", "up"),
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
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except click.Abort:
        click.echo("headwater: interrupted", err=True)
        sys.exit(1)
    except HeadwaterError as error:
        click.echo(f"headwater: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone, as `head` does; nothing to say and nobody to say it to
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
