"""The server goes from one model to another: the old version answers until the new model is loaded, and never both."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from embed_bench import Bench
from program import PROGRAM, Program
from static_model import make_static

from headwater.flows.reembed import reembed
from headwater.schemas.clock import SYSTEM
from headwater.schemas.errors import ModelError
from headwater.storage import embedder
from headwater.storage.active import activate, active_version
from headwater.storage.hash_encoder import HashEncoder
from headwater.storage.models import ModelSpec, hash_spec, resolve, version_of
from headwater.surface import client
from headwater.surface.embedding import EmbedLoop
from headwater.surface.operations import Context, search

HASH = version_of(hash_spec())


class Named(HashEncoder):
    """The built-in hashing under the version of any model."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self._version = version_of(spec)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A home with the built-in model and three prompts that have vectors."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    made = Bench(tmp_path / "h")
    made.add("retry the webhook", "parse the tile", "refund a payment")
    made.run()
    assert active_version(made.home) == HASH
    yield made
    made.outbox.close()


@pytest.fixture
def other(tmp_path: Path) -> str:
    """The name of another model of the same dimension."""
    return f"fast:{make_static(tmp_path / 'other', dim=64)}"


def prompt(session: str, n: int) -> dict[str, Any]:
    """Return the payload of a prompt."""
    return {
        "hook_event_name": "UserPromptSubmit",
        "session_id": session,
        "cwd": "/",
        "prompt": f"webhook {n} {session}",
        "prompt_id": f"{session}-{n}",
    }


def until(done: Any, limit_s: float = 60) -> None:
    """Wait until something holds."""
    end_s = SYSTEM.monotonic_s() + limit_s
    while not done():
        assert SYSTEM.monotonic_s() < end_s, "waited in vain"
        SYSTEM.sleep(0.02)


def test_the_old_version_answers_until_the_new_model_is_loaded(
    bench: Bench, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the switch the loaded encoder and its own vectors go on together; then both change at once, and back."""
    gate = threading.Event()
    asked: list[str] = []

    def load(spec: ModelSpec) -> HashEncoder:
        asked.append(spec.name)
        if spec.name == other:
            assert gate.wait(60)
        return Named(spec)

    monkeypatch.setattr(embedder, "load", load)
    spec = resolve(other, bench.home)
    reembed(bench.home, Named(spec))
    context, stop = Context(bench.home), threading.Event()
    loop = EmbedLoop(bench.home, context, stop)
    loop.start()
    try:
        until(lambda: context.encoder is not None)
        assert context.retriever()._stores.embedding_version == HASH
        activate(bench.home, spec)
        until(lambda: other in asked)
        found = search(context, {"query": "webhook", "all_projects": True})
        assert found["index"]
        held = context.retriever()
        assert (held._stores.embedding_version, held._stores.can_compare(context.encoder)) == (HASH, True)
        gate.set()
        until(lambda: context.encoder is not None and context.encoder.version == version_of(spec))
        held = context.retriever()
        assert held._stores.embedding_version == version_of(spec)
        assert held._stores.can_compare(context.encoder)
        bench.add("came in later", start=9)
        activate(bench.home, hash_spec())
        until(lambda: context.encoder is not None and context.encoder.version == HASH)
        assert context.model_error is None
    finally:
        stop.set()
        loop.join()


def test_a_new_model_that_does_not_load_leaves_the_old_one_answering(
    bench: Bench, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is shown, and the search goes on by words and by the old vectors."""

    def load(spec: ModelSpec) -> HashEncoder:
        if spec.name == other:
            raise ModelError("model", "out of memory", "wait")
        return Named(spec)

    monkeypatch.setattr(embedder, "load", load)
    context, stop = Context(bench.home), threading.Event()
    loop = EmbedLoop(bench.home, context, stop)
    loop.start()
    try:
        until(lambda: context.encoder is not None)
        activate(bench.home, resolve(other, bench.home))
        until(lambda: context.model_error is not None)
        assert context.model_error == "model: out of memory. Fix: wait"
        assert search(context, {"query": "webhook", "all_projects": True})["index"]
        assert context.encoder is not None
        assert context.encoder.version == HASH
    finally:
        stop.set()
        loop.join()


def test_activate_loads_no_library_of_models_or_tables(program: Program, tmp_path: Path) -> None:
    """A switch takes a fraction of a second because nothing heavy is imported for it."""
    other = f"fast:{make_static(tmp_path / 'm')}"
    spec = resolve(other, program.home)
    (program.home.vectors / f"entry_vectors_{version_of(spec).replace('-', '_')}.lance").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(PROGRAM), "models", "activate", other],
        env=program.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "headwater" in imported
    assert not imported & {"torch", "lancedb", "polars", "pyarrow", "sentence_transformers", "bytewax"}
    assert program.home.current().model == other


@pytest.mark.slow
def test_reembed_and_back_while_the_stream_runs(program: Program, tmp_path: Path) -> None:
    """Events come and searches go on all the while: none fails; then the new model answers, and the old one again."""
    other = f"fast:{make_static(tmp_path / 'm')}"
    log = program.home.root.parent / "in.jsonl"
    log.write_text("".join(json.dumps(prompt("s", n)) + "\n" for n in range(60)))
    program.run("ingest", str(log))
    assert "is the active model already" in program.run("reembed", "--model", "test-hash", code=1).stderr
    assert "reembed --model" in program.run("models", "activate", other, code=1).stderr
    program.run("up")
    ended = threading.Event()

    def ask() -> int:
        count = 0
        while not ended.is_set():
            answer = client.ask_server(program.home, "search", {"query": "webhook", "all_projects": True})
            assert answer["index"]
            count += 1
        return count

    def tell() -> int:
        count = 0
        while not ended.wait(0.5):
            program.hook(prompt("late", count))
            count += 1
        return count

    with ThreadPoolExecutor(2) as pool:
        asking, telling = pool.submit(ask), pool.submit(tell)
        try:
            done = program.json("reembed", "--model", other, "--activate")
            version = version_of(resolve(other, program.home))
            until(lambda: client.ask_server(program.home, "ping", {})["model"] == version)
            back = program.json("models", "activate", HASH)
            until(lambda: client.ask_server(program.home, "ping", {})["model"] == HASH)
        finally:
            ended.set()
        assert asking.result(60) > 0
        late = telling.result(60)
    assert (done["before"], done["version"], done["activated"]) == (HASH, version, True)
    assert done["embedded"] >= 60
    assert done["probe"]["prompts"] > 0
    assert (back["before"], back["version"]) == (version, HASH)
    now = program.wait(lambda status: status["vectors"] >= 60 + late and status["jobs"]["pending"] == 0)
    assert now["jobs"]["failed"] == 0
    assert now["model_next_step"] is None
    assert version in program.json("models")["versions"]
    assert program.json("vector", "drop", version)["items"] >= 60
