"""models: which embedding models can be used here, and which versions have vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headwater.schemas.errors import ModelError
from headwater.surface.console import say, show_json
from headwater.surface.options import HOME, JSON, open_home

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.storage.home import Home


@click.command()
@HOME
@JSON
def models(home_path: Path | None, *, as_json: bool) -> None:
    """Show the embedding models that can be used here, and the versions that have vectors.

    Choose one with embedding.model in config.toml. A folder, pkg:NAME or a hub name can stand there as well.
    """
    found = models_of(open_home(home_path))
    if as_json:
        show_json(found)
    else:
        say(models_text(found))


def models_of(home: Home) -> dict[str, Any]:
    """Return models and versions as JSON-ready data; no model is loaded, made or downloaded."""
    from headwater.storage.models import HASH_MODEL, names
    from headwater.storage.vectors import VectorStore

    configured = home.config().embedding.model
    others = [] if configured in (*names(), HASH_MODEL) else [configured]
    return {
        "configured": configured,
        "active": home.current().embedding_version,
        "models": [_model(home, name) for name in (*names(), *others)],
        "versions": VectorStore(home).versions(),
    }


def _model(home: Home, name: str) -> dict[str, Any]:
    """Return one model: `usable`, else `problem` and `fix`; version and dim are None until it is made."""
    from headwater.storage.models import look_up, version_of

    row: dict[str, Any] = {"name": name, "usable": True, "version": None, "dim": None}
    try:
        spec = look_up(name, home)
    except ModelError as error:
        return row | {"usable": False, "problem": error.problem, "fix": error.fix}
    return row if spec is None else row | {"version": version_of(spec), "dim": spec.dim}


def models_text(found: dict[str, Any]) -> str:
    """Return `models` for people."""
    lines = [f"{row['name']:<16}{_state(row)}" for row in found["models"]]
    lines.append(f"\nconfigured: {found['configured']}    active version: {found['active'] or 'none yet'}")
    lines += [
        f"{version}: {items:,} items{' (active)' if version == found['active'] else ''}"
        for version, items in found["versions"].items()
    ]
    return "\n".join(lines)


def _state(row: dict[str, Any]) -> str:
    if not row["usable"]:
        return f"cannot be used: {row['problem']}\n{'':<16}{row['fix']}"
    return row["version"] or "can be used; is made ready at its first use"
