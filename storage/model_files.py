"""What the files of a sentence-transformers folder say: which decide about vectors, dimension, length, prompts."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from headwater.schemas.errors import ModelError

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")  # the first kind that is there is the one that is loaded
_CONFIGS = (
    "modules.json",
    "config.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
_STATIC = "StaticEmbedding"
_STATIC_TENSORS = ("embedding.weight", "embeddings")  # as sentence-transformers and model2vec name it
_STATIC_POSITIONS = 8_192  # a static model reads any length; a chunk is never longer
_HEADER_BYTES = 16 * 1024 * 1024  # of a weights file's header: larger than any, and no harm to read
_VOCABULARIES = ("vocab.txt", "vocab.json", "merges.txt", "*.model")  # used only without tokenizer.json


def content_files(folder: Path) -> list[Path]:
    """Return the files that decide about the vectors, sorted: weights, tokenizer and configuration of all modules.

    Raises ModelError when there are no weights.
    """
    found: set[Path] = set()
    weights: set[Path] = set()
    for part in {folder, *(folder / module["path"] for module in modules_of(folder))}:
        kinds = [set(part.glob(pattern)) for pattern in _WEIGHTS]
        weights |= next((kind for kind in kinds if kind), set())
        patterns = _CONFIGS if (part / "tokenizer.json").is_file() else (*_CONFIGS, *_VOCABULARIES)
        for pattern in patterns:
            found |= set(part.glob(pattern))
    if not weights:
        raise ModelError(
            f"embedding model folder {folder}",
            f"wanted weights ({' or '.join(_WEIGHTS)}), found none",
            "copy or install the whole model",
        )
    return sorted(path for path in found | weights if path.is_file())


def modules_of(folder: Path) -> list[dict[str, str]]:
    """Return the modules in order, each with `path` and `type`.

    A folder without modules.json is one transformer, or one static model when its config says so.
    """
    path = folder / "modules.json"
    if not path.is_file():
        is_model2vec = _config(folder).get("model_type") == "model2vec"
        return [{"path": "", "type": _STATIC if is_model2vec else "Transformer"}]
    listed = _json(path)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise _unusable(path, "wanted a list of modules")
    modules = [{"path": str(one.get("path", "")), "type": str(one.get("type", ""))} for one in listed]
    for module in modules:
        if Path(module["path"]).is_absolute() or ".." in Path(module["path"]).parts:
            raise _unusable(path, f"wanted modules inside the folder, got {module['path']}")
    return modules


def is_static(folder: Path) -> bool:
    """Return whether the model is a table of token vectors and nothing else computes."""
    return modules_of(folder)[0]["type"].rsplit(".", 1)[-1] == _STATIC


def _static_dim(folder: Path) -> int | None:
    """Return the length of a token's vector, by the header of the weights file: its length (uint64), then JSON."""
    path = folder / "model.safetensors"
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, _HEADER_BYTES)))
        shapes = [header[name]["shape"] for name in _STATIC_TENSORS if name in header]
        return int(shapes[0][1]) if shapes else None
    except (OSError, ValueError, LookupError, TypeError, struct.error) as error:
        raise _unusable(path, f"wanted a table of token vectors, got: {error!r}") from error


def dim_of_model(folder: Path) -> int:
    """Return how many numbers a vector has, by the last module that says so. Raises ModelError when none does."""
    dim: object = None
    for module in modules_of(folder):
        config = _config(folder / module["path"])
        kind = module["type"].rsplit(".", 1)[-1]
        if kind == "Transformer":
            dim = config.get("hidden_size") or config.get("d_model") or config.get("dim")
        elif kind == _STATIC:
            dim = _static_dim(folder / module["path"])
        elif kind == "Dense":
            dim = config.get("out_features")
    if not isinstance(dim, int) or dim < 1:
        raise _unusable(folder, f"wanted the vectors' dimension in its config files, got {dim}")
    return dim


def positions_of_model(folder: Path) -> int:
    """Return how many tokens, special ones included, the model reads of one text; the rest is cut by it."""
    if is_static(folder):
        return _STATIC_POSITIONS
    first = folder / modules_of(folder)[0]["path"]
    for path in sorted(first.glob("sentence_*_config.json")):
        length = _json(path).get("max_seq_length")
        if isinstance(length, int):
            return length
    lengths = [_config(first).get("max_position_embeddings")]
    tokenizer = first / "tokenizer_config.json"
    lengths.append(_json(tokenizer).get("model_max_length") if tokenizer.is_file() else None)
    known = [length for length in lengths if isinstance(length, int) and 0 < length < 1_000_000]
    if not known:
        raise _unusable(folder, "wanted its longest input in its config files, found none")
    return min(known)


def prompts_of_model(folder: Path) -> dict[str, str]:
    """Return what the model wants before a query and before a document; empty for most."""
    path = folder / "config_sentence_transformers.json"
    prompts = _json(path).get("prompts") if path.is_file() else None
    return {str(name): str(text) for name, text in prompts.items()} if isinstance(prompts, dict) else {}


def name_in_config(folder: Path) -> str:
    """Return what the model calls itself in its config, else its architecture."""
    config = _config(folder / modules_of(folder)[0]["path"])
    return str(config.get("_name_or_path") or config.get("model_type") or "")


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        return {}
    config: dict[str, Any] = _json(path)
    return config


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unusable(path, f"wanted JSON, got: {error}") from error


def _unusable(path: Path, problem: str) -> ModelError:
    return ModelError(str(path), problem, "copy or install the whole model, in the layout that was published")
