"""Deterministic vectors without a model: hashed words and character n-grams. For tests, simulation and demos."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

import numpy as np

from headwater.storage.models import HASH_DIM, HASH_POSITIONS, hash_spec, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD_CHARS = 64  # of one word that are looked at: a line of base64 is one word
_NGRAM = 3
_NGRAM_WEIGHT = 0.3  # a shared word has to count for more than its shared n-grams


class HashEncoder:
    """Feature hashing into 64 numbers: texts that share words or parts of words are near. Safe to share."""

    def __init__(self) -> None:
        """Nothing is loaded."""
        self._version = version_of(hash_spec())

    @property
    def name(self) -> str:
        """The model's name."""
        return hash_spec().name

    @property
    def version(self) -> str:
        """The embedding version of its vectors."""
        return self._version

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return HASH_DIM

    @property
    def tokens_max(self) -> int:
        """Tokens of one text that count; this one counts all, the limit keeps chunks like a model's."""
        return HASH_POSITIONS

    def encode_documents(
        self, texts: Sequence[str], between: Callable[[], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """Return [n, dim] float32 of unit length, in the given order; see `Encoder`."""
        vectors = np.zeros((len(texts), HASH_DIM), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self.encode_query(text)
        if between is not None and len(texts):
            between()
        return vectors

    def encode_query(self, text: str) -> npt.NDArray[np.float32]:
        """Return [dim] float32 of unit length; a text without words gives the first axis."""
        vector = np.zeros(HASH_DIM, dtype=np.float32)
        for word in _TOKEN.findall(text.casefold()):
            _add(vector, word, 1.0)
            padded = f"^{word[:_WORD_CHARS]}$"
            for start in range(len(padded) - _NGRAM + 1):
                _add(vector, padded[start : start + _NGRAM], _NGRAM_WEIGHT)
        length = float(np.linalg.norm(vector))
        if length == 0.0:
            vector[0] = length = 1.0
        return vector / np.float32(length)

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each word or sign, in order."""
        return [match.span() for match in _TOKEN.finditer(text)]


def _add(vector: npt.NDArray[np.float32], feature: str, weight: float) -> None:
    code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))  # the same in every process, unlike hash()
    vector[code % HASH_DIM] += weight if code & 0x8000_0000 else -weight
