"""Small static models made on the spot: a vector for each word, in both layouts that there are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

WORDS = (
    *("the", "webhook", "is", "retried", "refund", "payment", "parser", "fails"),
    *("test", "map", "tile", "alpha", "beta", "gamma", "delta"),
)


def make_static(
    folder: Path, *, dim: int = 16, chance: int = 1, layout: str = "sentence-transformers"
) -> Path:
    """Write a static model of chance vectors; return its folder. `layout` can be model2vec as well."""
    vocabulary = {word: n for n, word in enumerate(["[UNK]", *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    table = np.random.default_rng(chance).normal(size=(len(vocabulary), dim)).astype(np.float32)
    folder.mkdir(parents=True)
    if layout == "model2vec":
        (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "hidden_dim": dim}))
        tokenizer.save(str(folder / "tokenizer.json"))
        save_file({"embeddings": table}, folder / "model.safetensors")
        return folder
    inner = folder / "0_StaticEmbedding"
    inner.mkdir()
    tokenizer.save(str(inner / "tokenizer.json"))
    save_file({"embedding.weight": table}, inner / "model.safetensors")
    kind = "sentence_transformers.models.StaticEmbedding"
    modules = [{"idx": 0, "name": "0", "path": inner.name, "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder
