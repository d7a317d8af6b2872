"""pause and resume: nothing is recorded and nothing told, until a time or until somebody says so."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from headwater.schemas import clock, limits
from headwater.surface import pause as pausing
from headwater.surface.console import say
from headwater.surface.options import HOME, open_home

if TYPE_CHECKING:
    from pathlib import Path

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")


def as_duration(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    """Read a duration such as 2h, 90m or 1h30m, as an option's callback."""
    if value is None:
        return None
    text = value.strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    length_s = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not _DURATION.fullmatch(text) or not 0 < length_s <= limits.PAUSE_MAX_S:
        wanted = f"wanted a time such as 30m, 2h or 1d, at most a year; got {value!r}"
        raise click.BadParameter(wanted, ctx, param)
    return timedelta(seconds=length_s)


@click.command()
@click.option(
    "--for",
    "length",
    callback=as_duration,
    metavar="TIME",
    help="End by itself after 30m, 2h, 1d; default never.",
)
@HOME
def pause(length: timedelta | None, home_path: Path | None) -> None:
    """Let hooks record nothing and tell nothing for a while."""
    home = open_home(home_path)
    until = None if length is None else clock.SYSTEM.now() + length
    pausing.pause(home, until)
    say(f"headwater is {pausing.said(home)}; go on with: headwater resume")


@click.command()
@HOME
def resume(home_path: Path | None) -> None:
    """End a pause: hooks record and tell again."""
    home = open_home(home_path)
    say("headwater records again" if pausing.resume(home) else "headwater was not paused")
