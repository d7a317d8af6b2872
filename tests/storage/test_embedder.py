from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from static_model import make_static

from headwater.schemas import limits
from headwater.schemas.clock import FakeClock
from headwater.schemas.errors import ModelError
from headwater.storage.embedder import BatchPace, Encoder, SentenceTransformerEncoder, load
from headwater.storage.hash_encoder import HashEncoder
from headwater.storage.home import Home
from headwater.storage.models import resolve

CODE = "def total(rows):\n    return sum(row.amount for row in rows)\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home for the remembered hashes."""
    return Home.open(tmp_path_factory.mktemp("embedder") / "h")


@pytest.fixture(scope="module")
def minilm(place: Home) -> Encoder:
    """The real default model."""
    return load(resolve("minilm", place))


NARROW = ["minilm+bf16", "static", "model2vec"]


@pytest.fixture(
    params=["test-hash", *[pytest.param(name, marks=pytest.mark.slow) for name in ("minilm", *NARROW)]]
)
def encoder(request: pytest.FixtureRequest, place: Home, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """All kinds of encoders, for what every encoder has to keep."""
    if request.param in {"test-hash", "minilm+bf16"}:
        return load(resolve(request.param, place))
    if request.param in {"static", "model2vec"}:
        layout = "model2vec" if request.param == "model2vec" else "sentence-transformers"
        folder = make_static(tmp_path_factory.mktemp("static") / "m", layout=layout)
        return load(resolve(f"fast:{folder}", place))
    found: Encoder = request.getfixturevalue("minilm")
    return found


class TestEveryEncoder:
    """What an encoder promises."""

    def test_vectors_have_unit_length(self, encoder: Encoder) -> None:
        """Vectors are float32, finite, of unit length, for any text, also for none."""
        texts = ["a plain sentence", "", " \n", "\ud800 \x00", "결제 재시도 冪等 キー", "x" * 3000, CODE]
        found = encoder.encode_documents(texts)
        assert (found.shape, str(found.dtype)) == ((len(texts), encoder.dim), "float32")
        assert np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-5)
        query = encoder.encode_query("")
        assert (query.shape, str(query.dtype)) == ((encoder.dim,), "float32")
        assert np.linalg.norm(query) == pytest.approx(1.0, abs=1e-5)

    def test_order_is_kept(self, encoder: Encoder) -> None:
        """Each vector stands at the place of its text, whatever their lengths."""
        texts = ["short", "a longer text about money " * 12, "middle sized text here", "retry"]
        together = encoder.encode_documents(texts)
        for n, text in enumerate(texts):
            alone = encoder.encode_documents([text])[0]
            assert float(together[n] @ alone) == pytest.approx(1.0, abs=1e-4)

    def test_no_texts_give_no_rows(self, encoder: Encoder) -> None:
        """Nothing in, nothing out, with the right width."""
        assert encoder.encode_documents([]).shape == (0, encoder.dim)

    def test_near_texts_are_nearer(self, encoder: Encoder) -> None:
        """A query is nearer to a text about the same than to one about something else."""
        documents = encoder.encode_documents(["the refund test fails at midnight", "container image size"])
        near, far = documents @ encoder.encode_query("refund test failing")
        assert near > far + 0.1

    def test_spans_are_places_in_the_text(self, encoder: Encoder) -> None:
        """Token spans go forward, stay inside the text, and reach from its first word to its last."""
        text = f"  Ünïcode, 결제를 다시 시도 — {CODE} \ud800 end "
        spans = encoder.token_spans(text)
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert [start for start, _ in spans] == sorted(start for start, _ in spans)
        assert text[spans[0][0] :].startswith("Ü")
        assert text[: spans[-1][1]].endswith("end")
        assert list(encoder.token_spans(" \n ")) == []

    def test_what_is_raised_in_between_ends_the_work(self, encoder: Encoder) -> None:
        """`between` is called while documents are encoded, and its exception comes out."""

        def end() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            encoder.encode_documents(["a", "b"], end)

    def test_version_begins_with_name_and_dimension(self, encoder: Encoder) -> None:
        """An encoder tells its model's version, and reads at least one chunk whole."""
        slug = "static" if encoder.name.startswith("fast:") else encoder.name.replace("+", "-")
        assert encoder.version.startswith(f"{slug}-{encoder.dim}-")
        assert encoder.tokens_max >= limits.CHUNK_TOKENS


def test_hash_vectors_are_the_same_in_every_process() -> None:
    """Hashed features do not depend on Python's hash seed."""
    code = "from headwater.storage.hash_encoder import HashEncoder as H; print(H().encode_query('one two').tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == HashEncoder().encode_query("one two").tolist()


@pytest.mark.slow
class TestSentenceTransformer:
    """The real model."""

    def test_vectors_are_those_of_the_bare_model(self, minilm: Encoder, place: Home) -> None:
        """Our batches give what `encode` of the model gives."""
        from sentence_transformers import SentenceTransformer

        texts = ["one", "two words and more " * 30, CODE]
        bare = SentenceTransformer(str(resolve("minilm", place).folder), device="cpu", local_files_only=True)
        wanted = bare.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        assert minilm.encode_documents(texts) == pytest.approx(wanted, abs=1e-5)

    def test_threads_encode_side_by_side(self, minilm: Encoder) -> None:
        """Queries and documents from many threads at once give the same vectors as one after the other."""
        texts = ["idempotency key " * (n % 7 + 1) for n in range(24)]
        wanted = minilm.encode_documents(texts)
        failures: list[BaseException] = []

        def run(work: Callable[[], None]) -> threading.Thread:
            def guarded() -> None:
                try:
                    work()
                except BaseException as error:  # noqa: BLE001 - told by the test
                    failures.append(error)

            thread = threading.Thread(target=guarded)
            thread.start()
            return thread

        def documents() -> None:
            assert minilm.encode_documents(texts) == pytest.approx(wanted, abs=1e-5)

        def queries() -> None:
            for n in range(8):
                assert float(minilm.encode_query(texts[n]) @ wanted[n]) == pytest.approx(1.0, abs=1e-4)
                assert minilm.token_spans(texts[n])

        for thread in [run(documents), run(queries), run(queries)]:
            thread.join()
        assert failures == []

    def test_query_does_not_wait_for_a_batch(self, minilm: Encoder) -> None:
        """A query is answered while a batch of documents is inside the model."""
        model = minilm._model  # type: ignore[attr-defined]
        inside, answered = threading.Event(), threading.Event()

        def slow(texts: Sequence[str], **settings: object) -> object:
            inside.set()
            assert answered.wait(60)
            return encode_document(texts, **settings)

        encode_document = model.encode_document
        model.encode_document = slow
        try:
            thread = threading.Thread(target=minilm.encode_documents, args=(["a batch"],))
            thread.start()
            assert inside.wait(60)
            assert minilm.encode_query("a query").shape == (minilm.dim,)
            answered.set()
            thread.join()
        finally:
            del model.encode_document

    @pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
    def test_vector_that_is_no_vector_is_an_error(self, minilm: Encoder, bad: float) -> None:
        """NaN, infinity and the zero vector never leave the encoder."""
        model = minilm._model  # type: ignore[attr-defined]
        model.encode_document = lambda texts, **_: np.full((len(texts), 384), bad, np.float32)
        try:
            with pytest.raises(ModelError, match="finite"):
                minilm.encode_documents(["a"])
        finally:
            del model.encode_document

    def test_failure_of_the_model_is_a_model_error(self, minilm: Encoder) -> None:
        """What a model library raises is told as ours."""

        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("out of memory")

        model = minilm._model  # type: ignore[attr-defined]
        model.encode_document = broken
        try:
            with pytest.raises(ModelError, match="out of memory"):
                minilm.encode_documents(["a"])
        finally:
            del model.encode_document

    def test_files_that_cannot_be_loaded_are_a_model_error(self, place: Home, tmp_path: Path) -> None:
        """A folder with broken weights is an error with a fix, not a traceback of a library."""
        folder = resolve("minilm", place).folder
        assert folder is not None
        copy = Path(shutil.copytree(folder, tmp_path / "m", ignore=shutil.ignore_patterns("*.safetensors")))
        (copy / "model.safetensors").write_bytes(b"nothing")
        with pytest.raises(ModelError, match="wanted to load it"):
            load(resolve(str(copy), place))

    def test_prompts_count(self, place: Home, tmp_path: Path) -> None:
        """A model's prompts stand before queries and documents, and take their room from the text."""
        folder = resolve("minilm", place).folder
        assert folder is not None
        copy = Path(shutil.copytree(folder, tmp_path / "m"))
        settings = {"prompts": {"query": "question about cooking: ", "document": "passage: "}}
        (copy / "config_sentence_transformers.json").write_text(json.dumps(settings), encoding="utf-8")
        prompted = load(resolve(str(copy), place))
        assert prompted.tokens_max == 256 - 2 - 2
        assert float(prompted.encode_query("pay") @ prompted.encode_documents(["pay"])[0]) < 0.9


class _Counting:
    """A model that takes a given time per padded token and tells how it was called."""

    def __init__(self, clock: FakeClock, tokens_per_s: float) -> None:
        self.clock = clock
        self.tokens_per_s = tokens_per_s
        self.calls: list[list[str]] = []
        self.preprocess = None

    def get_embedding_dimension(self) -> int:
        return 4

    def encode_document(self, texts: list[str], **_: object) -> np.ndarray:
        self.calls.append(texts)
        self.clock.move(len(texts) * max(len(text.split()) for text in texts) / self.tokens_per_s)
        return np.tile(np.array([1, 0, 0, 0], np.float32), (len(texts), 1))


class _Words:
    """A tokenizer that counts words."""

    def no_truncation(self) -> None: ...

    def no_padding(self) -> None: ...

    def num_special_tokens_to_add(self, _pair: object) -> int:
        return 0

    def encode(self, text: str, **_: object) -> list[str]:
        return text.split()


@pytest.mark.parametrize("tokens_per_s", [50.0, 5_000.0, 500_000.0])
def test_calls_last_about_as_long_as_wanted(place: Home, tokens_per_s: float) -> None:
    """On a slow, a usual and a fast machine, calls settle at ENCODE_BATCH_S, or at one text, or at the token limit."""
    from dataclasses import replace

    clock = FakeClock()
    model = _Counting(clock, tokens_per_s)
    spec = replace(resolve("test-hash", place), dim=4)
    encoder = SentenceTransformerEncoder(spec, model, _Words(), clock)
    encoder.encode_documents(["word " * (n % 200 + 1) for n in range(600)])
    for texts in model.calls[1:]:
        padded = len(texts) * max(len(text.split()) for text in texts)
        assert len(texts) == 1 or padded <= limits.ENCODE_TOKENS_MAX
        assert len(texts) == 1 or padded / tokens_per_s <= limits.ENCODE_BATCH_S * 1.01
    assert sum(len(texts) for texts in model.calls) == 600
    lengths = [len(text.split()) for texts in model.calls for text in texts]
    assert lengths == sorted(lengths, reverse=True)


def test_pace_always_takes_a_text() -> None:
    """However slow it was, a call takes at least one text; one slow moment does not decide alone."""
    pace = BatchPace()
    assert pace.texts(10_000) == 1
    pace.note(1_000, 0.1)
    usual = pace.texts(10)
    pace.note(1_000, 100.0)
    assert 1 <= usual / 2 <= pace.texts(10) < usual
