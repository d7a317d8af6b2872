"""What the doctor says: each check when all is well and when it is not, with its fix; with a stream and without."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path

import pytest
from program import Program
from stage import Stage, prompt, spoil

from headwater.flows.archive_run import run_archive
from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.schemas import limits
from headwater.schemas.errors import BusyError, StoreError
from headwater.schemas.events import ItemKind
from headwater.schemas.jobs import JobRequest
from headwater.storage import seal
from headwater.storage.active import active_version
from headwater.storage.locks import hold_lock
from headwater.storage.mending import set_aside
from headwater.storage.outbox import VectorOutbox
from headwater.storage.run_files import ARCHIVE_LOCK, INGEST_LOCK, SERVER_LOCK, SUPERVISOR_LOCK
from headwater.storage.vectors import VectorStore
from headwater.surface import doctor, failures
from headwater.surface.doctor import examine, to_json, to_text
from headwater.surface.findings import Check
from headwater.surface.status import archive_error
from headwater.surface.verbs import capture

Spoil = Callable[[Stage, pytest.MonkeyPatch], None]


@pytest.fixture
def stage(home: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A home with three events and their vectors, all well."""
    monkeypatch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
    made = Stage(home)
    for n in range(3):
        made.tell("s", "UserPromptSubmit", float(n), prompt=f"walrus {n}", prompt_id=f"p{n}")
    made.work()
    return made


def checks(stage: Stage, name: str) -> list[Check]:
    """Return the findings of one name."""
    return [check for check in examine(stage.home) if check.name == name]


def one(stage: Stage, name: str) -> Check:
    """Return the only finding of one name."""
    (check,) = checks(stage, name)
    return check


def test_a_sound_home_is_told_sound(stage: Stage) -> None:
    """Without a stream everything is well but that nothing runs; every name is there."""
    found = examine(stage.home)
    assert [check for check in found if check.level == "bad"] == []
    assert {check.name for check in found if check.level == "warn"} - {"torch"} == {"processes", "install"}
    wanted = {
        *("home", "permissions", "disk", "processes", "lag", "hook", "quarantine", "databases", "tables"),
        *("damaged", "vectors", "model", "versions", "torch", "interpreter", "install"),
    }
    assert wanted <= {check.name for check in found}
    assert all(check.fix for check in found if check.level != "ok")
    assert all(not check.fix for check in found if check.level == "ok")


def _open_to_others(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    stage.home.journal.chmod(0o755)


def _read_only(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)


def _unreadable(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    path = stage.file("s9")
    path.touch(mode=0o600)
    patch.setattr(os, "access", lambda which, mode: which != path or mode != os.R_OK)


def _full(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": limits.DISK_FREE_BYTES - 1})
    patch.setattr(shutil, "disk_usage", lambda _path: usage)


def _behind(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    stage.write("s2", b"x" * (limits.LAG_BYTES + 1))


def _hook_failed(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    failures.count_failure(str(stage.home.root))


def _quarantined(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    stage.write("s", b"rubbish\n")
    stage.work()


def _archive_failed(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    with patch.context() as failing:
        failing.setattr(seal, "publish", _refused)
        with pytest.raises(StoreError):
            run_archive(stage.home, older_than_s=-math.inf)


def _refused(*_args: object) -> None:
    raise StoreError("archive/lines", "no space left on device", "free some space there")


def _ids_broken(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    spoil(stage.home.ids_file, "junk")


def _outbox_broken(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    spoil(stage.home.outbox_file, "junk")


def _table_broken(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    spoil(next((stage.home.lance / "events.lance" / "data").iterdir()), "half")


def _index_broken(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    for path in (stage.home.lance / "events.lance" / "_indices").rglob("metadata.lance"):
        spoil(path, "empty")


def _vectors_broken(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    spoil(next(stage.home.vectors.rglob("data/*.lance")), "gone")


def _was_damaged(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    set_aside(stage.home.outbox_file, "test")


def _forgotten(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    version = active_version(stage.home)
    VectorStore(stage.home).delete_items("entry", [stage.rows()[0]["id"]], version)


def _failed_jobs(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    _wait(stage, "evt_nobody")
    with closing(VectorOutbox(stage.home.outbox_file)) as outbox:
        (job,) = outbox.claim_jobs("w", 1, active_version(stage.home))
        outbox.mark_failed("w", job.job_id, "poison")


def _waiting(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    _wait(stage, "evt_waiting")


def _other_model(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("HEADWATER_EMBEDDING__MODEL", "no-such-model")


def _version_gone(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    stage.home.change_current(embedding_version="gone-8-0123456789ab", model="/gone-8-0")


def _japanese(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    stage.tell("ja", "UserPromptSubmit", prompt="在庫の同期が失敗したときの再試行を実装してください" * 9)
    run_ingest(stage.home, IngestOptions(None, until_idle=True))
    patch.setattr(doctor, "_ENGLISH", ("test-hash",))


def _cuda(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata, "distributions", lambda: [type("D", (), {"name": "nvidia-cublas"})])


def _cpu(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metadata, "distributions", lambda: [type("D", (), {"name": "torch"})])


def _interpreter_gone(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(capture, "hook_command", lambda *_args: ["/gone/python3"])


def _config_broken(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    stage.home.config_file.write_text("mode = 3\n", encoding="utf-8")


def _wait(stage: Stage, item_id: str) -> None:
    with closing(VectorOutbox(stage.home.outbox_file)) as outbox:
        outbox.enqueue_batch([JobRequest(ItemKind.ENTRY, item_id, active_version(stage.home), "h")])


@pytest.mark.parametrize(
    ("name", "play", "level", "said", "fix"),
    [
        ("permissions", _open_to_others, "warn", "open to others", "chmod"),
        ("permissions", _unreadable, "bad", "1 journal files cannot be read", "chmod u+rw"),
        ("permissions", _read_only, "bad", "cannot be written", "chmod"),
        ("disk", _full, "bad", "GB free", "free some space"),
        ("lag", _behind, "warn", "not read yet", "headwater up"),
        ("hook", _hook_failed, "warn", "1 hook calls", "permissions"),
        ("quarantine", _quarantined, "warn", "1 lines", "quarantine.jsonl"),
        ("archive", _archive_failed, "warn", "archive/lines: no space left", "free some space there"),
        ("databases", _ids_broken, "bad", "ids.sqlite", "headwater up"),
        ("databases", _outbox_broken, "bad", "outbox.sqlite", "headwater up"),
        ("tables", _table_broken, "bad", "events: data file", "headwater up"),
        ("tables", _index_broken, "bad", "index", "headwater up"),
        ("tables", _vectors_broken, "bad", "entry_vectors", "headwater up"),
        ("damaged", _was_damaged, "warn", "outbox.sqlite.damaged-", "delete"),
        ("vectors", _forgotten, "warn", "1 items have no vector and no job", "headwater up"),
        ("vectors", _failed_jobs, "warn", "1 items failed", "server.log"),
        ("vectors", _waiting, "warn", "1 items wait", "headwater up"),
        ("model", _other_model, "warn", "no-such-model", "headwater models"),
        ("model", _japanese, "warn", "not in Latin script", "--model multilingual"),
        ("torch", _cuda, "warn", "CUDA", "CPU build"),
        ("interpreter", _interpreter_gone, "bad", "/gone/python3", "install"),
    ],
)
def test_what_is_wrong_is_found_with_its_fix(  # noqa: PLR0917 - a table's columns
    stage: Stage, monkeypatch: pytest.MonkeyPatch, name: str, play: Spoil, level: str, said: str, fix: str
) -> None:
    """Each check, spoiled: its level, what it saw, and what to do; and all others are there still."""
    before = {check.name for check in examine(stage.home)}
    play(stage, monkeypatch)
    found = [check for check in checks(stage, name) if check.level != "ok"]
    assert [check.level for check in found] == [level]
    assert said in found[0].said
    assert fix in found[0].fix
    assert {check.name for check in examine(stage.home)} >= before


@pytest.mark.parametrize(("play", "said"), [(_version_gone, "gone-8-0"), (_config_broken, "mode")])
def test_a_check_that_fails_is_a_finding(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, play: Spoil, said: str
) -> None:
    """What cannot even be looked at is told like everything else, with the fix of its error."""
    play(stage, monkeypatch)
    bad = [check for check in examine(stage.home) if check.level == "bad"]
    assert any(said in check.said for check in bad)
    assert all(check.fix for check in bad)


def test_without_cuda(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU build of torch is well."""
    _cpu(stage, monkeypatch)
    assert one(stage, "torch").level == "ok"
    assert metadata.version("torch") in one(stage, "torch").said


def test_archive_errors_are_told_until_a_run_went_well(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """`status` names the last run's error with its fix, `doctor` too; the next good run ends both."""
    assert archive_error(stage.home) is None
    _archive_failed(stage, monkeypatch)
    assert archive_error(stage.home) == ("archive/lines: no space left on device. Fix: free some space there")
    run_archive(stage.home, older_than_s=-math.inf)
    assert archive_error(stage.home) is None
    assert one(stage, "archive").level == "ok"
    assert "1 files sealed, 0 left" in one(stage, "archive").said
    with hold_lock(stage.home.run / ARCHIVE_LOCK, "archive"), pytest.raises(BusyError):
        run_archive(stage.home)  # a reprocess needs the lines where they are: nothing is wrong
    assert archive_error(stage.home) is None


def test_nothing_was_ever_made(home: Path) -> None:
    """An empty home has no vectors, and says how to get some; nothing else is wrong with it."""
    empty = Stage(home)
    assert (one(empty, "vectors").level, one(empty, "vectors").fix) == ("warn", "run: headwater up")
    assert [check.name for check in examine(empty.home) if check.level == "bad"] == []


def test_half_a_stream(stage: Stage) -> None:
    """A program that is down while the supervisor is up is being started again; both up is well."""
    with hold_lock(stage.home.run / SUPERVISOR_LOCK, "up"):
        assert "supervisor is up" in one(stage, "processes").said
        with hold_lock(stage.home.run / INGEST_LOCK, "ingest"):
            assert one(stage, "processes").said.startswith("server down")
            with hold_lock(stage.home.run / SERVER_LOCK, "server"):
                assert one(stage, "processes").level == "ok"
    assert one(stage, "processes").fix == "run: headwater up"


def test_it_repairs_nothing(stage: Stage) -> None:
    """Looking changes no store."""
    _outbox_broken(stage, pytest.MonkeyPatch())
    before = stage.home.outbox_file.read_bytes()
    examine(stage.home)
    assert stage.home.outbox_file.read_bytes() == before
    assert list(stage.home.root.glob("*.damaged-*")) == []


def test_text_and_json_say_the_same(stage: Stage) -> None:
    """One line a finding and its fix below; the same as data."""
    found = [Check("disk", "bad", "0.1 GB free", "free some space"), Check("home", "ok", "here")]
    assert to_text(found).splitlines() == [
        "bad  disk          0.1 GB free",
        "                   fix: free some space",
        "ok   home          here",
    ]
    assert to_json(found)["ok"] is False
    assert to_json(found)["checks"][1] == {"name": "home", "level": "ok", "said": "here", "fix": None}


@pytest.fixture
def program(stage: Stage) -> Iterator[Program]:
    """The installed program in the home of the stage."""
    from headwater.surface import processes

    yield Program(stage.home.root)
    processes.stop_all(stage.home)


@pytest.mark.slow
def test_it_tells_the_truth_with_and_without_a_stream(program: Program, stage: Stage) -> None:
    """Exit 0 when nothing is bad, 1 when something is; a running stream is well, also right after new events."""
    without = program.json("doctor")
    assert without["ok"]
    program.run("up")
    for n in range(20):
        program.hook(prompt("live", f"new walrus {n}", prompt_id=f"n{n}"))
    levels = {check["name"]: check["level"] for check in program.json("doctor")["checks"]}
    assert levels["processes"] == levels["tables"] == levels["databases"] == levels["lag"] == "ok"
    program.wait(lambda now: now["vectors"] >= 23 and now["jobs"]["pending"] + now["jobs"]["processing"] == 0)
    assert {check["name"]: check["level"] for check in program.json("doctor")["checks"]}["vectors"] == "ok"
    program.run("down")
    _table_broken(stage, pytest.MonkeyPatch())
    done = program.run("doctor", "--json", code=1)
    assert json.loads(done.stdout)["ok"] is False
    assert done.stderr == ""


def test_it_loads_no_torch(stage: Stage) -> None:
    """Looking does not cost the seconds that loading a model takes."""
    code = (
        "import sys; from pathlib import Path; from headwater.storage.home import Home\n"
        "from headwater.surface.doctor import examine; examine(Home.open(Path(sys.argv[1])))\n"
        "sys.exit('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(stage.home.root)]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


def test_the_script_of_the_newest_texts_counts(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the letters is the border, and only the newest prompts and answers are looked at."""
    monkeypatch.setattr(doctor, "_ENGLISH", ("test-hash",))
    latin = int(100 / limits.OTHER_SCRIPT_SHARE) - 100
    stage.tell("mixed", "UserPromptSubmit", 60, prompt="x" * latin + "\ud55c" * 99)
    run_ingest(stage.home, IngestOptions(None, until_idle=True))
    assert [check.level for check in checks(stage, "model")] == ["ok", "ok"]
    stage.tell("more", "UserPromptSubmit", 120, prompt="\ud55c" * 99)
    run_ingest(stage.home, IngestOptions(None, until_idle=True))
    assert [check.level for check in checks(stage, "model")] == ["ok", "warn"]
    stage.tell("last", "UserPromptSubmit", 180, prompt="only latin")
    run_ingest(stage.home, IngestOptions(None, until_idle=True))
    monkeypatch.setattr(limits, "SCRIPT_EVENTS", 1)
    assert [check.level for check in checks(stage, "model")] == ["ok", "ok"]
