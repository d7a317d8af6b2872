from __future__ import annotations

from pathlib import Path

import pytest
from program import Program

from headwater.storage import multilingual
from headwater.storage.home import Current, Home
from headwater.storage.models import hash_spec, version_of
from headwater.surface.verbs.models import models_of, models_text


def test_models_of_a_new_home(program: Program) -> None:
    """The known models are listed, usable or with the fix, the built-in one for tests is not; nothing is active yet."""
    found = program.json("models")
    assert (found["configured"], found["active"], found["versions"]) == ("test-hash", None, {})
    rows = {row["name"]: row for row in found["models"]}
    assert list(rows) == ["minilm", "multilingual", "fast"]
    assert rows["minilm"]["usable"]
    assert rows["minilm"]["version"].startswith("minilm-384-")
    text = program.run("models").stdout
    assert "test-hash" not in text.split("configured")[0]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_versions_with_vectors_and_the_active_one(program: Program) -> None:
    """A version that has vectors is listed with its items, and marked while it is the active one."""
    line = '{"hook_event_name":"UserPromptSubmit","session_id":"s","cwd":"/","prompt":"one","prompt_id":"p"}'
    path = program.home.root.parent / "in.jsonl"
    path.write_text(f"{line}\n")
    program.run("ingest", str(path))
    version = version_of(hash_spec())
    found = program.json("models")
    assert (found["active"], found["versions"]) == (version, {version: 1})
    assert f"{version}: 1 items (active)" in program.run("models").stdout


def test_a_model_that_is_to_be_made_is_not_made_by_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its package is installed it can be used; its version shows once it was made."""
    home = Home.open(tmp_path / "home")
    monkeypatch.setattr(multilingual, "source_file", lambda: tmp_path / "weights.bin")
    row = models_of(home)["models"][1]
    assert row == {"name": "multilingual", "usable": True, "version": None, "dim": None}
    assert not (home.root / "models").exists()


def test_a_model_of_ones_own_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configured folder stands in the list, with what is wrong with it; an active version stays told."""
    home = Home.open(tmp_path / "home")
    home.set_current(Current(embedding_version="old-3-abc"))
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", str(tmp_path / "none"))
    found = models_of(home)
    assert found["models"][-1]["name"] == str(tmp_path / "none")
    assert not found["models"][-1]["usable"]
    assert "active version: old-3-abc" in models_text(found)


def test_a_missing_model_can_be_left(program: Program) -> None:
    """When the active model is not here any more, embedding with another one is the way out."""
    line = '{"hook_event_name":"UserPromptSubmit","session_id":"s","cwd":"/","prompt":"one","prompt_id":"p"}'
    path = program.home.root.parent / "in.jsonl"
    path.write_text(f"{line}\n")
    program.run("ingest", str(path), "--no-embed")
    program.home.set_current(Current("gen-1", "gone-8-0123456789ab", "/gone", "/gone"))
    assert "found neither" in program.run("vector", "worker", "--once", code=1).stderr
    done = program.json("reembed", "--model", "test-hash", "--activate")
    assert (done["before"], done["items"]) == ("gone-8-0123456789ab", 1)
    assert program.home.current().model == "test-hash"
    assert program.json("vector", "worker", "--once")["processed"] == 0
