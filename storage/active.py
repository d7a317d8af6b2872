"""Which embedding version answers, which model makes it, and the switch from one to another. Loads nothing."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from headwater.schemas.errors import HomeError, InputError, ModelError
from headwater.storage.home import replace_file
from headwater.storage.models import NARROW, look_up, names, resolve, version_of, version_slug

if TYPE_CHECKING:
    from headwater.storage.home import Home
    from headwater.storage.models import ModelSpec

_FILE = "versions.json"
_VERSION = re.compile(r"[a-z0-9-]+-[0-9]+-[0-9a-f]{12}")


def active_version(home: Home) -> str:
    """Return the version that new vectors get and queries use; see `active_model`."""
    return version_of(active_model(home))


def active_model(home: Home) -> ModelSpec:
    """Return the model of the version that is current; what `chosen_model` tells becomes current. Idempotent.

    Raises what `chosen_model` does; HomeError when the switch cannot be written.
    """
    spec = chosen_model(home)
    current = home.current()
    if (current.embedding_version, current.model) != (version_of(spec), spec.name):
        activate(home, spec)
    return spec


def chosen_model(home: Home) -> ModelSpec:
    """Return the model of the version that is current, or is to become it; nothing is switched.

    In a new home that is the configured one. Later the setting alone switches nothing, see `next_step`: but when the
    current model's files changed, so that nothing makes the current version any more, what they make now is next.
    Vectors of other versions stay. Raises ModelError, also when `embedding.version` names another version.
    """
    config = home.config().embedding
    current = home.current()
    spec = (
        None if current.embedding_version is None else _maker(home, current.embedding_version, current.model)
    )
    if spec is None:
        spec = resolve(current.model or config.model, home)
    version = version_of(spec)
    if config.version not in (None, version):
        raise ModelError(
            f"embedding.version {config.version}",
            f"wanted the active version, which is {version} of model {spec.name}",
            f"remove embedding.version, or run: headwater models activate {config.version}",
        )
    return spec


def activate(home: Home, spec: ModelSpec) -> str:
    """Make a model's version the one that answers: one rename, durable when it returns; return the version.

    Idempotent. Raises HomeError.
    """
    version = version_of(spec)
    note_version(home, version, spec.name)
    home.change_current(embedding_version=version, model=spec.name, configured=home.config().embedding.model)
    return version


def find(home: Home, name: str) -> ModelSpec:
    """Return the model of that name, or the one that makes the version of that name. Raises ModelError, InputError."""
    if _VERSION.fullmatch(name) is None:
        return resolve(name, home)
    spec = _maker(home, name, None)
    if spec is None:
        raise InputError(
            f"embedding version {name}",
            "no model that is here makes it any more",
            "name a model instead; see: headwater models",
        )
    return spec


def has_vectors(home: Home, version: str) -> bool:
    """Return whether there are vector tables of a version."""
    return any(home.vectors.glob(f"*_vectors_{version_slug(version)}.lance"))


def next_step(home: Home) -> str | None:
    """Return what to do when `embedding.model` was set to another model than the active one; None when nothing is.

    Raises ConfigError.
    """
    current, asked = home.current(), home.config().embedding.model
    if current.embedding_version is None or asked in (current.configured, current.model):
        return None
    try:
        spec = look_up(asked, home)
    except ModelError as error:
        return f"embedding.model is {asked}, which cannot be used: {error.problem}; {error.fix}"
    version = None if spec is None else version_of(spec)
    if version == current.embedding_version:
        return None
    by_hand = version is not None and has_vectors(home, version)
    command = f"models activate {asked}" if by_hand else f"reembed --model {asked} --activate"
    return f"embedding.model is {asked}, but {current.embedding_version} answers; run: headwater {command}"


def known_versions(home: Home) -> dict[str, str]:
    """Return embedding version -> name of the model that makes it, of all that were ever used here and are noted."""
    try:
        data = json.loads((home.vectors / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there yet, or torn: models that are here are asked instead
        return {}
    return {str(key): str(name) for key, name in data.items()} if isinstance(data, dict) else {}


def note_version(home: Home, version: str, model: str) -> None:
    """Note which model makes a version, so that it can be named by its version later. Idempotent. Raises HomeError."""
    known = known_versions(home)
    if known.get(version) != model:
        try:
            home.vectors.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise HomeError(
                str(home.vectors), f"cannot be made: {error}", "check the home's permissions"
            ) from error
        replace_file(home.vectors / _FILE, json.dumps(known | {version: model}).encode())


def _maker(home: Home, version: str, noted: str | None) -> ModelSpec | None:
    """Return the model that makes a version: the noted one, else any that is here; None when none does.

    Raises ModelError when the noted one is not here: it may come back.
    """
    noted = noted or known_versions(home).get(version)
    if noted is not None:
        spec = resolve(noted, home)
        return spec if version_of(spec) == version else None
    for name in (home.config().embedding.model, *names(), *(name + NARROW for name in names())):
        try:
            found = look_up(name, home)
        except ModelError:
            continue  # it is not here
        if found is not None and version_of(found) == version:
            return found
    return None
