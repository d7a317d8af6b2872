"""What a check of `doctor` found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: `level` is ok, warn or bad; `fix` is empty when there is nothing to do."""

    name: str
    level: str
    said: str
    fix: str = ""
