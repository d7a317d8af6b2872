"""models, models activate, reembed: which embedding models there are, and going from one to another."""

from __future__ import annotations

import textwrap
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from headwater.schemas.errors import InputError, ModelError, StoreError
from headwater.surface.console import progress, say, show_json
from headwater.surface.options import HOME, JSON, open_home

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.flows.reembed import ReembedReport
    from headwater.storage.embedder import Encoder
    from headwater.storage.home import Home
    from headwater.storage.models import ModelSpec

_INDENT, _WIDTH = 16, 63
_ALREADY = "is the active model already; what lacks vectors gets them from: headwater up"


@click.group(invoke_without_command=True)
@HOME
@JSON
@click.pass_context
def models(context: click.Context, home_path: Path | None, *, as_json: bool) -> None:
    """Show the embedding models that can be used here, and the versions that have vectors.

    A folder, pkg:NAME, fast:/folder or a hub name can be used as well; NAME+bf16 computes with 16 bits.
    """
    if context.invoked_subcommand is not None:
        return
    found = models_of(open_home(home_path))
    if as_json:
        show_json(found)
    else:
        say(models_text(found))


@models.command()
@click.argument("name", metavar="NAME|VERSION")
@HOME
@JSON
def activate(name: str, home_path: Path | None, *, as_json: bool) -> None:
    """Let another model answer whose vectors are there: one switch, and back by the same command.

    A running server loads the model and answers with the old one until then. New vectors: headwater reembed.
    """
    from headwater.storage import active
    from headwater.storage.models import version_of
    from headwater.storage.outbox import VectorOutbox

    home = open_home(home_path, create=False)
    spec = active.find(home, name)
    version = version_of(spec)
    before = home.current().embedding_version
    if version != before and not active.has_vectors(home, version):
        raise InputError(
            f"embedding version {version}",
            "it has no vectors yet",
            f"run: headwater reembed --model {spec.name} --activate",
        )
    active.activate(home, spec)
    with closing(VectorOutbox(home.outbox_file)) as outbox:
        outbox.ask_to_reconcile(version)  # items that went while it was not looked after
    if as_json:
        show_json({"model": spec.name, "version": version, "before": before})
    else:
        say(_switched(spec.name, version, before))


@click.command()
@click.option("--model", required=True, metavar="NAME", help="The model; see: headwater models.")
@click.option("--activate", "is_to_activate", is_flag=True, help="Let it answer once all is embedded.")
@HOME
@JSON
def reembed(model: str, home_path: Path | None, *, is_to_activate: bool, as_json: bool) -> None:
    """Embed everything with another model while the present one goes on answering.

    Stop it when you like: run again, it goes on where it was. At the end it tells how alike both models see your own
    prompts. The old vectors stay: `models activate` goes back, `vector drop` deletes them.
    """
    from headwater.storage import active
    from headwater.storage.models import resolve, version_of
    from headwater.surface.workers import stop_on_signals

    home = open_home(home_path, create=False)
    before = home.current().embedding_version  # its model may be missing: then this is the way out
    with progress("making the model"):
        spec = resolve(model, home, from_hub=True)
    version = version_of(spec)
    if version == before:
        raise InputError(f"embedding model {model}", f"{version} {_ALREADY}", "name another one")
    active.note_version(home, version, spec.name)
    stop = stop_on_signals()
    with progress("loading the model"):
        encoder = _load(spec)
    with progress("embedding") as line:
        from headwater.flows.reembed import reembed as run

        report = run(home, encoder, stop=stop, update=line.update)
    if not report.is_complete:
        raise StoreError(
            f"embedding with {model}",
            f"stopped; {report.items:,} items have vectors, {report.left:,} wait",
            "run the same command again: it goes on there",
        )
    with progress("comparing"):
        told = _told(home, spec, before, report)
    if is_to_activate:
        active.activate(home, spec)
    if as_json:
        show_json(told | {"activated": is_to_activate})
        return
    say(reembed_text(told))
    say(
        _switched(spec.name, version, before)
        if is_to_activate
        else f"To let it answer: headwater models activate {model}"
    )


def _load(spec: ModelSpec) -> Encoder:
    from headwater.storage.embedder import load

    return load(spec)


def _told(home: Home, spec: ModelSpec, before: str | None, report: ReembedReport) -> dict[str, Any]:
    """Return the report of a run with the comparison of both versions, as JSON-ready data."""
    from dataclasses import asdict

    from headwater.flows.probe import compare

    rate = report.embedded / report.elapsed_s if report.elapsed_s > 0 else 0.0
    return {
        "model": spec.name,
        "before": before,
        **asdict(report),
        "items_per_s": round(rate, 1),
        "probe": None if before is None else asdict(compare(home, before, report.version)),
    }


def reembed_text(told: dict[str, Any]) -> str:
    """Return what `reembed` did, for people."""
    did = f"{told['embedded']:,} items embedded with {told['model']} in {told['elapsed_s']:,.0f} s"
    lines = [f"{did} ({told['items_per_s']:,.0f}/s)", f"{told['items']:,} items have vectors of it"]
    if told["failed"]:
        lines.append(f"{told['failed']:,} items failed; once it is active: headwater vector status")
    probe = told["probe"]
    if probe is not None and probe["overlap"] is not None:
        lines.append(
            f"of the {probe['neighbours']} nearest neighbours of {probe['prompts']} prompts"
            f" {probe['overlap']:.0%} are the same as before"
        )
    return "\n".join(lines)


def _switched(name: str, version: str, before: str | None) -> str:
    if version == before:
        return f"{name} ({version}) was the active model already"
    back = "" if before is None else f"\nBack: headwater models activate {before}"
    return f"{name} ({version}) is the active model now; a running server loads it{back}"


def models_of(home: Home) -> dict[str, Any]:
    """Return models and versions as JSON-ready data; no model is loaded, made or downloaded."""
    from headwater.storage.active import known_versions, next_step
    from headwater.storage.models import HASH_MODEL, names
    from headwater.storage.vectors import VectorStore

    configured = home.config().embedding.model
    current = home.current()
    others = [one for one in (configured, current.model) if one not in (None, *names(), HASH_MODEL)]
    return {
        "configured": configured,
        "active": current.embedding_version,
        "active_model": current.model,
        "models": [_model(home, str(name)) for name in dict.fromkeys([*names(), *others])],
        "versions": VectorStore(home).versions(),
        "made_by": known_versions(home),
        "next_step": next_step(home),
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
    lines = [f"{row['name']:<{_INDENT}}{_state(row)}" for row in found["models"]]
    lines.append(f"\nconfigured: {found['configured']}    active version: {found['active'] or 'none yet'}")
    lines += [
        f"{version}: {items:,} items{' (active)' if version == found['active'] else ''}"
        for version, items in found["versions"].items()
    ]
    if found["next_step"]:
        lines += ["", *textwrap.wrap(found["next_step"], _INDENT + _WIDTH, break_on_hyphens=False)]
    return "\n".join(lines)


def _state(row: dict[str, Any]) -> str:
    if not row["usable"]:
        parts = [f"cannot be used: {row['problem']}", row["fix"]]
        lines = [line for part in parts for line in textwrap.wrap(part, _WIDTH, break_on_hyphens=False)]
        return f"\n{'':<{_INDENT}}".join(lines)
    return row["version"] or "can be used; is made ready at its first use"
