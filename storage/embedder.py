"""Texts to vectors. Importing this loads no model library; `load` does (seconds)."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from headwater.schemas import clock as clock_module
from headwater.schemas import limits
from headwater.schemas.errors import HeadwaterError, ModelError
from headwater.schemas.text import clean_text
from headwater.storage.hash_encoder import HashEncoder
from headwater.storage.model_files import is_static, modules_of
from headwater.storage.models import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from headwater.schemas.clock import Clock
    from headwater.storage.models import ModelSpec

_TOKENS_FIRST = 256  # padded tokens of the first encode call: one full chunk on any machine
_DOCUMENT = (
    "document",
    "passage",
    "corpus",
)  # the first of these is put before a document, as the library does
_NEWEST = 0.3  # weight of the newest call in the measured speed: a busy moment does not decide alone


class Encoder(Protocol):
    """What makes vectors. Safe to use from several threads: a query never waits for documents being encoded."""

    @property
    def name(self) -> str:
        """The model's name, as it was asked for."""
        ...

    @property
    def version(self) -> str:
        """The embedding version of its vectors."""
        ...

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        ...

    @property
    def tokens_max(self) -> int:
        """Tokens of one text that it reads, special ones and prompt not counted; it cuts the rest."""
        ...

    def encode_documents(
        self, texts: Sequence[str], between: Callable[[], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """Return [n, dim] float32 of unit length, in the order of the texts.

        Works in calls of about ENCODE_BATCH_S; `between` is called after each, and what it raises ends the work.
        Raises ModelError, also when a vector is not finite.
        """
        ...

    def encode_query(self, text: str) -> npt.NDArray[np.float32]:
        """Return [dim] float32 of unit length, for any text. Raises ModelError."""
        ...

    def token_spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Return (start, end) in characters of each content token, in order; none for a text without any."""
        ...


def load(spec: ModelSpec, clock: Clock = clock_module.SYSTEM) -> Encoder:
    """Return the ready encoder of a model, tried once. Never uses the network. Raises ModelError."""
    if spec.folder is None:
        return HashEncoder()
    _set_environment()
    try:
        import torch
        from transformers.utils import logging

        quiet: Any = logging
        quiet.disable_progress_bar()
        quiet.set_verbosity_error()
        torch.set_num_threads(1)  # one thread for documents, so that the others of the machine stay free
        model: Any = _model(spec, spec.folder)
        encoder = SentenceTransformerEncoder(spec, model, _spans_tokenizer(spec.folder, model), clock)
        encoder.encode_query("ready")
    except HeadwaterError:
        raise
    except Exception as error:
        problem = f"wanted to load it, got {type(error).__name__}: {str(error)[:300]}"
        raise ModelError(
            f"embedding model {spec.folder}",
            problem,
            "install the model anew, or run: pip install sentence-transformers torch",
        ) from error
    return encoder


class SentenceTransformerEncoder:
    """A sentence-transformers model on one CPU thread. See `Encoder`."""

    def __init__(self, spec: ModelSpec, model: Any, spans_tokenizer: Any, clock: Clock) -> None:
        """Use a loaded model and a tokenizer of its own kind that nobody else uses. Raises ModelError.

        The model's own tokenizer keeps its settings (cut, pad) in itself and fails with "Already borrowed" when two
        threads are in it: a lock stands around it, and only around it, so that two threads compute side by side.
        """
        self._spec = spec
        self._version = version_of(spec)
        self._model = model
        self._clock = clock
        self._pace = BatchPace()
        self._is_static = spec.folder is not None and is_static(spec.folder)
        self._spans = spans_tokenizer
        self._spans.no_truncation()
        self._spans.no_padding()
        prompts = dict(spec.prompts)
        prompt = next((prompts[name] for name in _DOCUMENT if name in prompts), "")
        special: int = self._spans.num_special_tokens_to_add(False)
        self._around = special + (len(self._spans.encode(prompt, add_special_tokens=False)) if prompt else 0)
        self._tokenising = threading.Lock()
        preprocess = model.preprocess
        model.preprocess = lambda *args, **kwargs: self._alone(preprocess, *args, **kwargs)
        found = model.get_embedding_dimension()
        if found != spec.dim:
            raise ModelError(
                f"embedding model {spec.folder}",
                f"wanted vectors of {spec.dim} numbers, as its config files say, got {found}",
                "use a model whose dimension is that of its transformer or last dense layer",
            )

    @property
    def name(self) -> str:
        """The model's name, as it was asked for."""
        return self._spec.name

    @property
    def version(self) -> str:
        """The embedding version of its vectors."""
        return self._version

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return self._spec.dim

    @property
    def tokens_max(self) -> int:
        """Tokens of one text that it reads, special ones and prompt not counted."""
        return max(1, self._spec.positions - self._around)

    def encode_documents(
        self, texts: Sequence[str], between: Callable[[], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """Return [n, dim] float32 of unit length, in the order of the texts; see `Encoder`."""
        cleaned = [clean_text(text) for text in texts]
        vectors = np.empty((len(cleaned), self.dim), dtype=np.float32)
        lengths = [self._length(text) for text in cleaned]
        # longest first: equal lengths share a call, so that little is padded, and the dearest call comes first
        order = sorted(range(len(cleaned)), key=lambda n: -lengths[n])
        while order:
            longest = lengths[order[0]]
            batch, order = _split(order, self._pace.texts(longest))
            started_s = self._clock.monotonic_s()
            vectors[batch] = self._encode(self._model.encode_document, [cleaned[n] for n in batch])
            self._pace.note(longest * len(batch), self._clock.monotonic_s() - started_s)
            if between is not None:
                between()
        return vectors

    def encode_query(self, text: str) -> npt.NDArray[np.float32]:
        """Return [dim] float32 of unit length; see `Encoder`."""
        vectors: npt.NDArray[np.float32] = self._encode(self._model.encode_query, [clean_text(text)])
        first: npt.NDArray[np.float32] = vectors[0]
        return first

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) in characters of each content token; see `Encoder`."""
        # cleaning keeps the length: places in the clean text are places in the given one
        spans: list[tuple[int, int]] = self._tokens(clean_text(text)).offsets
        return spans

    def _length(self, text: str) -> int:
        return min(len(self._tokens(text)) + self._around, self._spec.positions)

    def _tokens(self, text: str) -> Any:
        try:
            return self._spans.encode(text, add_special_tokens=False)
        except Exception as error:
            raise self._failed("to count its tokens", error) from error

    def _encode(self, encode: Callable[..., Any], texts: list[str]) -> npt.NDArray[np.float32]:
        try:
            found = encode(texts, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True)
        except Exception as error:
            raise self._failed(f"vectors of {len(texts)} texts", error) from error
        vectors = np.array(found, dtype=np.float32)
        if self._is_static:
            vectors[~vectors.any(axis=1), 0] = 1.0  # a text without a word it knows has a place of its own
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise ModelError(
                f"embedding model {self.name}",
                f"wanted finite vectors of {len(texts)} texts, got one that is not, or has no length",
                "try again; if it stays, install the model anew",
            )
        unit: npt.NDArray[np.float32] = vectors / norms
        return unit

    def _failed(self, wanted: str, error: Exception) -> ModelError:
        got = f"{type(error).__name__}: {str(error)[:200]}"
        return ModelError(
            f"embedding model {self.name}", f"wanted {wanted}, got {got}", "run: headwater doctor"
        )

    def _alone(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._tokenising:
            return call(*args, **kwargs)


class BatchPace:
    """How many texts one encode call takes, so that it lasts about ENCODE_BATCH_S on this machine at this moment."""

    def __init__(self) -> None:
        """Nothing is known yet: the first call is a small one."""
        self._tokens_per_s: float | None = None

    def texts(self, longest: int) -> int:
        """Return for how many texts of `longest` tokens there is time; at least one."""
        tokens = _TOKENS_FIRST if self._tokens_per_s is None else self._tokens_per_s * limits.ENCODE_BATCH_S
        return max(1, int(min(tokens, limits.ENCODE_TOKENS_MAX) // max(1, longest)))

    def note(self, padded_tokens: int, elapsed_s: float) -> None:
        """Learn from one call."""
        now = padded_tokens / max(elapsed_s, 1e-6)
        held = self._tokens_per_s
        self._tokens_per_s = now if held is None else held + _NEWEST * (now - held)


def _split(order: list[int], count: int) -> tuple[list[int], list[int]]:
    return order[:count], order[count:]


def _set_environment() -> None:
    """Keep model libraries off the network and quiet; has to come before their import."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # an unknown name would be asked for five times, for over a minute
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def _model(spec: ModelSpec, folder: Path) -> Any:
    """Return the loaded model, with its prompts, computing in the type that its version says."""
    import torch
    from sentence_transformers import SentenceTransformer

    if is_static(folder) and not (folder / "modules.json").is_file():
        from sentence_transformers.sentence_transformer.modules import StaticEmbedding

        model: Any = SentenceTransformer(modules=[StaticEmbedding.load(str(folder))], device="cpu")
    else:
        model = SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, prompts=dict(spec.prompts) or None
        )
    return model.to(torch.bfloat16) if spec.dtype == "bfloat16" else model


def _spans_tokenizer(folder: Path, model: Any) -> Any:
    """Return a second tokenizer like the model's: from its file, else from a copy of the loaded one."""
    from tokenizers import Tokenizer

    file = folder / modules_of(folder)[0]["path"] / "tokenizer.json"
    if file.is_file():
        return Tokenizer.from_file(str(file))
    loaded = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    if not isinstance(loaded, Tokenizer):
        raise ModelError(
            f"embedding model {folder}",
            "wanted a tokenizer that tells where its tokens stand (tokenizer.json), found none",
            "use a model that has tokenizer.json",
        )
    return Tokenizer.from_str(loaded.to_str())
