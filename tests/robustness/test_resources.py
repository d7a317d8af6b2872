"""What a machine runs out of, and what a crash leaves broken: counted, told in one line with the fix, made good."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from program import PROGRAM, Program
from stage import Stage, assert_one_line, prompt, small_disk, spoil

from headwater.schemas.errors import HeadwaterError, StoreError
from headwater.storage.faults import Plan, planned
from headwater.storage.mending import damaged, mend
from headwater.storage.run_files import INGEST_LOCK, SERVER_LOCK, SUPERVISOR_LOCK
from headwater.surface import doctor
from headwater.surface.hook import read_failures

MANY = 400
PROGRESS = ("reading:", "ingesting:", "embedding:", "starting:", "searching:")


def tell(stage: Stage, count: int, start: int = 0) -> None:
    """Append prompts in a few sessions."""
    for n in range(start, start + count):
        stage.tell(f"s{n % 5}", "UserPromptSubmit", float(n), prompt=f"walrus number {n}", prompt_id=f"p{n}")


def log_of(folder: Path, count: int, session: str = "log") -> Path:
    """Write a hook log with so many prompts."""
    path = folder / f"{session}.jsonl"
    lines = [json.dumps(prompt(session, f"walrus {n}", prompt_id=f"{session}{n}")) for n in range(count)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def limited(files: int) -> Callable[[], None]:
    """Return what lets a child open at most so many files."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def run(program: Program, *words: str, before: Callable[[], None] | None = None) -> tuple[int, str]:
    """Run a verb; return its exit code and what it said on stderr."""
    done = subprocess.run(
        [str(PROGRAM), *words],
        env=program.env,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        preexec_fn=before,
    )
    # on a slow machine, lines of progress come before
    lines = [line for line in done.stderr.splitlines() if not line.startswith(PROGRESS)]
    return done.returncode, "\n".join(lines)


class TestDiskFull:
    """No space left, at each place where something is written."""

    def test_while_appending(self, tmp_path: Path) -> None:
        """The hook counts what it cannot write, exits 0, and what is there stays whole; later lines are whole again."""
        with small_disk(tmp_path / "disk", 64) as resize:
            stage = Stage(tmp_path / "disk" / "home")
            sent = 0
            while read_failures(str(stage.home.root)) < 3:
                assert stage.hook(prompt("s", f"{sent} " + "words and " * 300, prompt_id=f"p{sent}")) == ""
                sent += 1
                assert sent < 100
            resize(50_000)
            assert stage.hook(prompt("s", "room again", prompt_id="last")) == ""
            stage.work()
            whole = sent - read_failures(str(stage.home.root)) + 1
            stage.check(whole)
            assert len(stage.quarantined("s")) <= 1
            assert "room again" in stage.rows()[-1]["content"]

    def test_while_appending_with_a_limit_of_file_size(self, stage: Stage) -> None:
        """The same when only a part of the line finds room: counted, and the next line begins anew."""
        stage.hook(prompt("s", "before", prompt_id="1"))
        size = stage.file("s").stat().st_size + 100
        cut = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))  # noqa: E731
        assert stage.hook(prompt("s", "lost", prompt_id="2"), before=cut) == ""
        stage.hook(prompt("s", "after", prompt_id="3"))
        stage.work()
        stage.check(2)
        assert read_failures(str(stage.home.root)) >= 1

    def test_while_committing(self, tmp_path: Path) -> None:
        """A run that finds the disk full says so in one line; with room again, all of it is there once."""
        with small_disk(tmp_path / "disk", 1400) as resize:
            stage = Stage(tmp_path / "disk" / "home")
            said: list[str] = []
            told = 0
            while not said:
                tell(stage, 100, told)
                told += 100
                try:
                    stage.work()
                except HeadwaterError as error:
                    said.append(str(error))
                except OSError:
                    break  # the journal itself finds no room
                assert told < 5000
            assert "space" in assert_one_line(said[0])
            resize(100_000)
            stage.work()
            stage.check(len(stage.lines()))

    def test_while_committing_from_the_command_line(self, tmp_path: Path) -> None:
        """`ingest` on a full disk is one line and exit 1, and can be said again when there is room."""
        with small_disk(tmp_path / "disk", 700) as resize:
            program = Program(tmp_path / "disk" / "home")
            log = log_of(tmp_path, MANY)
            code, said = run(program, "ingest", str(log))
            assert code == 1
            assert "disk" in assert_one_line(said)
            resize(100_000)
            code, said = run(program, "ingest", str(log))
            assert code == 0, said
            assert program.status()["events"] == MANY

    @pytest.mark.parametrize("size_kb", [8, 64])
    def test_while_snapshotting(self, stage: Stage, size_kb: int) -> None:
        """Without room for the snapshot the run ends with one line; nothing is lost or doubled after."""
        tell(stage, MANY)
        with small_disk(stage.home.root / "recovery", size_kb) as resize:
            with pytest.raises(StoreError) as caught:
                stage.work()
            assert "free disk space" in assert_one_line(str(caught.value))
            resize(50_000)
            stage.work()
            stage.check(MANY)

    @pytest.mark.parametrize("point", ["ingest.added", "ingest.enqueued", "embed.written"])
    def test_at_a_named_place(self, stage: Stage, point: str) -> None:
        """A write that fails at a place of the flows: told, and made good by the next run."""
        tell(stage, 50)
        with planned(Plan(point, 1, "full")), pytest.raises((HeadwaterError, OSError)):
            stage.work()
        stage.work()
        stage.check(50)


class TestFileHandles:
    """Too many open files."""

    @pytest.mark.parametrize("files", [4, 5, 8])
    def test_hook(self, stage: Stage, files: int) -> None:
        """With one free file handle the hook still records."""
        assert stage.hook(prompt("s", "few handles"), before=limited(files)) == ""
        assert len(stage.lines()) == 1

    def test_hook_without_any(self, stage: Stage) -> None:
        """With none left when it wants to write, it says one line and exits 0."""
        script = (
            "import io, os, resource, sys\n"
            "from headwater.surface import capture, failures, guards, hook\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\n"
            "try:\n    while True: os.dup(0)\n"
            "except OSError: pass\n"
            'raw = io.BytesIO(b\'{"session_id": "s", "hook_event_name": "Stop", "cwd": "/p"}\')\n'
            "sys.exit(hook.main(['--home', sys.argv[1]], raw, {}))\n"
        )
        command = [sys.executable, "-c", script, str(stage.home.root)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (0, "")
        assert "Too many open files" in assert_one_line(done.stderr)

    @pytest.mark.parametrize("files", [16, 26])
    def test_ingest(self, program: Program, tmp_path: Path, files: int) -> None:
        """However early the handles run out: one line that says how to get more, and the next try completes."""
        log = log_of(tmp_path, 20)
        code, said = run(program, "ingest", str(log), before=limited(files))
        if code:
            assert "ulimit -n" in assert_one_line(said)
        stage = Stage(program.home.root)
        stage.work()
        stage.check(20)


class TestProcesses:
    """More than one of them, or what is left of them."""

    @pytest.mark.slow
    def test_a_second_up(self, program: Program) -> None:
        """Two `up` at the same moment give one stream; both say that it is up."""
        both = [
            subprocess.Popen([str(PROGRAM), "up"], env=program.env, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        said = [one.communicate(timeout=110)[0] for one in both]
        assert [one.returncode for one in both] == [0, 0]
        assert all("headwater is up" in text for text in said)
        pids = program.status()["pids"]
        assert "already" in program.run("up").stdout
        assert program.status()["pids"] == pids

    @pytest.mark.slow
    def test_stale_and_recycled_pid(self, program: Program) -> None:
        """Lock files that name a dead process, or a living one that is not ours: `down` harms nobody, `up` works."""
        with subprocess.Popen(["sleep", "600"]) as stranger:
            dead = subprocess.Popen(["true"])
            dead.wait()
            for name, pid in (
                (SUPERVISOR_LOCK, stranger.pid),
                (INGEST_LOCK, dead.pid),
                (SERVER_LOCK, stranger.pid),
            ):
                (program.home.run / name).write_text(f"{pid}\n", encoding="ascii")
            assert program.status()["pids"] == {"supervisor": None, "ingest": None, "server": None}
            assert "was not up" in program.run("down").stdout
            assert stranger.poll() is None
            program.run("up")
            assert stranger.pid not in program.status()["pids"].values()
            program.run("down")
            assert stranger.poll() is None
            stranger.send_signal(signal.SIGKILL)

    @pytest.mark.parametrize("verb", ["up", "search", "status", "ingest"])
    def test_broken_config_toml(self, program: Program, tmp_path: Path, verb: str) -> None:
        """A wrong setting is told with file, line and key; the hook records all the same."""
        program.home.config_file.write_text(
            "\n[progressive_disclosure.layer1]\ntop_k = 'ten'\n", encoding="utf-8"
        )
        program.hook(prompt("s", "hello"))
        more = {"search": ("x",), "ingest": (str(log_of(tmp_path, 1)),)}.get(verb, ())
        code, said = run(program, verb, *more)
        assert code == 1
        line = assert_one_line(said)
        assert "line 3" in line
        assert "progressive_disclosure.layer1.top_k" in line
        assert len(Stage(program.home.root).lines()) >= 1

    @pytest.mark.slow
    def test_unknown_model(self, program: Program) -> None:
        """Answered at once: the stream runs without vectors, words are found; `up`, `status` and `doctor` say why."""
        program.env["HEADWATER_EMBEDDING__MODEL"] = "no-such-model"
        program.hook(prompt("s", "findable walrus"))
        assert "no-such-model" in assert_one_line(program.run("up").stderr)
        status = program.wait(lambda now: now["events"] == 1)
        assert "no-such-model" in status["model_error"]
        assert len(program.json("search", "walrus")["index"]) == 1
        assert "no-such-model" in program.run("doctor", code=1).stdout

    @pytest.mark.slow
    def test_up_that_cannot_start_says_why(self, program: Program) -> None:
        """When a program of the stream ends again and again, `up` tells its reason instead of waiting for a minute."""
        shutil.rmtree(program.home.recovery.parent)
        program.home.recovery.parent.write_text("in the way", encoding="ascii")
        code, said = run(program, "up")
        assert code == 1
        assert str(program.home.recovery.parent) in assert_one_line(said)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with two rounds of events and vectors, to be copied and damaged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWATER_EMBEDDING__MODEL", "test-hash")
        stage = Stage(tmp_path_factory.mktemp("filled") / "home")
        for start in (0, 600):  # enough for index files
            tell(stage, 600, start)
            stage.work()
    yield stage.home.root
    shutil.rmtree(stage.home.root)


def newest(folder: Path) -> Path:
    """Return the newest manifest of a table."""
    return min((folder / "_versions").glob("*.manifest"))


def biggest(folder: Path, pattern: str) -> Path:
    """Return the biggest file of a folder."""
    return max(folder.rglob(pattern), key=lambda path: path.stat().st_size)


FILES: dict[str, Callable[[Stage], Path]] = {
    "events data": lambda stage: biggest(stage.home.lance / "events.lance" / "data", "*.lance"),
    "events manifest": lambda stage: newest(stage.home.lance / "events.lance"),
    "events index": lambda stage: biggest(stage.home.lance / "events.lance" / "_indices", "*invert*"),
    "vectors data": lambda stage: biggest(stage.home.vectors, "data/*.lance"),
    "vectors manifest": lambda stage: newest(next(stage.home.vectors.glob("*.lance"))),
    "outbox": lambda stage: stage.home.outbox_file,
    "ids": lambda stage: stage.home.ids_file,
    "recovery": lambda stage: next(stage.home.recovery.glob("part-*.sqlite3")),
}
SPOILED = [
    *[("events data", how) for how in ("gone", "junk", "half", "flip")],
    *[("events manifest", how) for how in ("empty", "flip")],
    *[("events index", how) for how in ("empty", "flip")],
    *[("vectors data", how) for how in ("gone", "half")],
    ("vectors manifest", "junk"),
    *[(store, how) for store in ("outbox", "ids") for how in ("gone", "junk", "flip")],
    *[("recovery", how) for how in ("empty", "junk", "flip")],
]


class TestDamage:
    """A damaged store is moved aside, said aloud, and made again."""

    @pytest.mark.parametrize(("store", "how"), SPOILED)
    def test_store_is_made_again(self, filled: Path, tmp_path: Path, store: str, how: str) -> None:
        """Whatever is broken, at most one run ends with one line, and the next has every event and vector once."""
        shutil.copytree(filled, tmp_path / "home")
        stage = Stage(tmp_path / "home")
        spoil(FILES[store](stage), how)
        tell(stage, 5, 5000)
        if store == "events index":  # only a search reads it
            assert_one_line(search(stage, "walrus"))
        try:
            mend(stage.home)  # as the flow does when it holds its lock
            stage.work()
        except HeadwaterError as error:
            assert_one_line(str(error))
            mend(stage.home)
            stage.work()
        stage.check(1205)
        assert search(stage, "walrus") == "found"
        findings = {check.name: check for check in doctor.examine(stage.home)}
        assert [check.said for check in findings.values() if check.level == "bad"] == []
        if damaged(stage.home):
            assert findings["damaged"].level == "warn"
            assert findings["damaged"].fix

    def test_damage_is_told_before_it_is_mended(self, filled: Path, tmp_path: Path) -> None:
        """The doctor finds each broken store, with the fix, and touches none."""
        shutil.copytree(filled, tmp_path / "home")
        stage = Stage(tmp_path / "home")
        for store in ("events data", "vectors data", "outbox", "ids"):
            spoil(FILES[store](stage), "half")
        bad = [check for check in doctor.examine(stage.home) if check.level == "bad"]
        said = " ".join(check.said for check in bad)
        for name in ("events:", "entry_vectors", "outbox.sqlite", "ids.sqlite"):
            assert name in said
        assert all(check.fix for check in bad)
        assert damaged(stage.home) == []

    @pytest.mark.slow
    def test_everything_at_once_comes_back_with_up(self, filled: Path, program: Program) -> None:
        """Events, vectors, outbox, register and snapshots all broken: `up` brings all back and says what it did."""
        shutil.rmtree(program.home.root)
        shutil.copytree(filled, program.home.root)
        stage = Stage(program.home.root)
        for find in FILES.values():
            spoil(find(stage), "half")
        program.hook(prompt("new", "walrus after the damage", prompt_id="new"))
        program.run("up")
        status = program.wait(lambda now: now["events"] == 1201 and _embedded(now, 1201))
        assert status["jobs"]["pending"] + status["jobs"]["failed"] == 0
        assert len(status["damaged"]) >= 4
        assert "moved aside" in program.run("status").stdout
        told = "".join(path.read_text(encoding="utf-8") for path in program.home.logs.glob("*.log"))
        for name in ("events.lance", "entry_vectors", "outbox.sqlite", "ids.sqlite"):
            assert f"{name}" in told
        assert told.count(": moved to ") >= 4
        program.run("down")
        stage.check(1201)


def _embedded(now: dict[str, Any], items: int) -> bool:
    """Return whether so many items, and what memory made of them, have vectors."""
    return bool(now["vectors"] >= items and now["jobs"]["pending"] + now["jobs"]["processing"] == 0)


def search(stage: Stage, word: str) -> str:
    """Search with the keyword arm; return "found", or the error."""
    from headwater.query.stores import Stores

    try:
        rows = Stores.open(stage.home).events.match(word, "content", None, 5, ["id"])
    except HeadwaterError as error:
        return str(error)
    return "found" if rows.height == 5 else f"{rows.height} rows"


def test_the_environment_of_these_tests_is_clean() -> None:
    """No test here depends on a home of whoever runs it."""
    assert "HEADWATER_HOME" not in os.environ
