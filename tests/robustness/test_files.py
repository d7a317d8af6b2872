"""Journal files and homes as they come: early, late, in bursts, cut, replaced, locked away, oddly named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from program import PROGRAM, Program
from stage import Stage, assert_one_line, call_hook, line_of, prompt, read_only, without_root_rights

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.schemas import limits
from headwater.storage.active import active_version
from headwater.surface import doctor
from headwater.surface.hook import read_failures

LIMIT_S = 60.0
NAMES = ["../../escape", "a:b", "x" * 300, "..", ".", "/", "-", "CON", "a\x00b", "한국어 세션", "A", "a"]


class Running:
    """The flow in a thread, as `up` runs it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.stop = threading.Event()
        self.errors: list[BaseException] = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            run_ingest(self.stage.home, IngestOptions(active_version(self.stage.home), stop=self.stop))
        except BaseException as error:  # noqa: BLE001 - told by `until`
            self.errors.append(error)

    def until(self, events: int) -> None:
        """Wait for so many events."""
        end_s = time.monotonic() + LIMIT_S
        while len(self.stage.rows()) < events:
            assert not self.errors, self.errors
            assert time.monotonic() < end_s, f"{len(self.stage.rows())} of {events}"
            time.sleep(0.05)

    def end(self) -> None:
        """Stop it."""
        self.stop.set()
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive()
        assert self.errors == []


@pytest.fixture
def running(stage: Stage) -> Iterator[Callable[[], Running]]:
    """Start flows that end with the test."""
    started: list[Running] = []

    def start() -> Running:
        started.append(Running(stage))
        return started[-1]

    yield start
    for one in started:
        one.stop.set()
        one.thread.join(LIMIT_S)


def tell(stage: Stage, session: str, *numbers: int) -> None:
    """Append prompts with these numbers."""
    for n in numbers:
        stage.tell(session, "UserPromptSubmit", float(n), prompt=f"number {n}", prompt_id=f"p{n}")


def test_present_before_start(stage: Stage, running: Callable[[], Running]) -> None:
    """A thousand lines that were there before the flow are read, and a restart reads none of them twice."""
    tell(stage, "early", *range(1000))
    for _ in range(2):
        flow = running()
        flow.until(1000)
        flow.end()
    assert stage.fates() == {"event": 1000}


def test_created_while_running(stage: Stage, running: Callable[[], Running]) -> None:
    """Files that appear while the flow runs are read, by the hook or by rename."""
    flow = running()
    tell(stage, "first", 1)
    flow.until(1)
    assert stage.hook(prompt("by-hook", "hello")) == ""
    other = stage.home.root / "made-elsewhere"
    other.write_bytes(line_of("moved-in", "UserPromptSubmit", prompt="x"))
    other.rename(stage.file("moved-in"))
    flow.until(3)
    flow.end()


def test_in_a_burst_with_the_folder(stage: Stage, running: Callable[[], Running]) -> None:
    """Three hundred files at once, in a folder that was made anew under the running flow: none is missed."""
    flow = running()
    stage.home.journal.rename(stage.home.root / "old-journal")
    stage.home.journal.mkdir(mode=0o700)
    for n in range(300):
        tell(stage, f"burst-{n}", n)
    flow.until(300)
    flow.end()
    assert stage.fates() == {"event": 300}


def test_truncated(stage: Stage) -> None:
    """A file that was cut and grew again is read again from its start; what is known stays one event."""
    tell(stage, "cut", *range(10))
    stage.work()
    whole = stage.file("cut").read_bytes().splitlines(keepends=True)
    stage.file("cut").write_bytes(b"".join(whole[:4]))
    tell(stage, "cut", 10, 11)
    stage.work()
    stage.check(12)


def test_replaced(stage: Stage) -> None:
    """Another file in the place of one, longer or shorter, is read whole."""
    tell(stage, "swap", *range(5))
    stage.work()
    stage.file("swap").unlink()
    tell(stage, "swap", *range(100, 120))
    stage.work()
    stage.file("swap").unlink()
    tell(stage, "swap", 200)
    stage.work()
    stage.check(26)


def test_deleted(stage: Stage, running: Callable[[], Running]) -> None:
    """A file that goes away takes nothing with it, and the session may go on in a new one."""
    flow = running()
    tell(stage, "gone", 1, 2)
    flow.until(2)
    stage.file("gone").unlink()
    tell(stage, "other", 3)
    flow.until(3)
    tell(stage, "gone", 4)
    flow.until(4)
    flow.end()
    assert stage.fates() == {"event": 4}


def test_symlinked(stage: Stage, tmp_path: Path) -> None:
    """A link in the journal is not followed: not by the flow, and not by the hook, which counts its failure."""
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(line_of("linked", "UserPromptSubmit", prompt="somebody else's"))
    stage.file("linked").symlink_to(secret)
    tell(stage, "plain", 1)
    before = secret.read_bytes()
    stage.hook(prompt("linked", "hello"))
    stage.work()
    stage.check(1)
    assert secret.read_bytes() == before
    assert read_failures(str(stage.home.root)) == 1


def test_folder_with_the_name_of_a_journal_file(stage: Stage) -> None:
    """A folder where a session's file should be costs that session's events, each counted, and nobody else's."""
    stage.file("folder").mkdir()
    (stage.file("folder") / "x").touch()
    assert stage.hook(prompt("folder", "hello")) == ""
    assert stage.hook(prompt("plain", "hello")) == ""
    stage.work()
    stage.check(1)
    assert read_failures(str(stage.home.root)) == 1
    (check,) = (one for one in doctor.examine(stage.home) if one.name == "hook")
    assert (check.level, bool(check.fix)) == ("warn", True)


def test_session_ids_with_dots_colons_and_300_characters(stage: Stage) -> None:
    """Whatever a session is called, its file stands in the journal folder under a plain name, and it keeps its id."""
    for name in NAMES:
        assert stage.hook(prompt(name, f"hello {name}")) == ""
    stage.work()
    assert {row["session_id"] for row in stage.rows()} == {name.replace("\x00", "\ufffd") for name in NAMES}
    files = [path for path in stage.home.root.parent.rglob("*") if path.suffix == ".jsonl"]
    assert {path.parent for path in files} == {stage.home.journal}
    assert len({path.name.lower() for path in files}) == len(NAMES)
    assert all(len(path.name) <= limits.FILE_NAME_CHARS + len(".jsonl") for path in files)


def test_home_with_spaces_and_non_ascii_letters(tmp_path: Path) -> None:
    """Blanks, quotes, percent signs and other scripts in the home's path: hook, ingest, search and doctor all work."""
    program = Program(tmp_path / "Jané's höme 50% 한국어 #1?")
    program.hook(prompt("s", "findable walrus"))
    log = tmp_path / "log of things.jsonl"
    log.write_text(json.dumps(prompt("t", "second walrus")), encoding="utf-8")
    assert program.json("ingest", str(log))["events"] == 1
    assert len(program.json("search", "walrus")["index"]) == 2
    report = program.json("doctor")
    assert report["ok"], report
    assert {"ids.sqlite is sound", "outbox.sqlite is sound"} <= {one["said"] for one in report["checks"]}
    assert {path.name for path in tmp_path.iterdir()} == {program.home.root.name, log.name}


@pytest.mark.parametrize("how", ["mount", "mode"])
def test_home_read_only(tmp_path: Path, how: str) -> None:
    """On a read-only home the hook says one line and exits 0; verbs say one line with the fix."""
    program = Program(tmp_path / "home")
    program.hook(prompt("s", "before"))
    rights = None if how == "mount" else without_root_rights

    def said(*words: str) -> str:
        command = [str(PROGRAM), *words]
        done = subprocess.run(
            command,
            env=program.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=rights,
        )
        assert done.returncode == 1, (done.stdout, done.stderr)
        return done.stderr

    def look() -> None:
        log = tmp_path / "log.jsonl"
        log.write_text(json.dumps(prompt("t", "x")), encoding="utf-8")
        assert_one_line(call_hook(prompt("s", "lost"), ("--home", str(program.home.root)), before=rights))
        assert "writ" in assert_one_line(said("ingest", str(log)))
        assert_one_line(said("up"))
        assert_one_line(said("status"))

    if how == "mount":
        with read_only(program.home.root):
            look()
    else:
        paths = [program.home.root, *program.home.root.rglob("*")]
        modes = {path: path.stat().st_mode for path in paths}
        for path in paths:
            path.chmod(0o500 if path.is_dir() else 0o400)
        look()
        for path, mode in modes.items():
            path.chmod(mode)
    assert len(Stage(program.home.root).lines()) == 1


def test_home_missing(program: Program, tmp_path: Path) -> None:
    """A verb that only stops things says that there is no home; the others, and the hook, make one."""
    missing = tmp_path / "not yet"
    assert_one_line(program.run("--home", str(missing), "down", code=1).stderr)
    assert not missing.exists()
    assert call_hook(prompt("s", "x"), ("--home", str(missing))) == ""
    assert "1,0" not in program.run("--home", str(missing), "status").stdout
    assert len(Stage(missing).lines()) == 1


def test_file_in_the_way_of_a_home(program: Program, tmp_path: Path) -> None:
    """A file where the home should be: one line with the fix, from the hook as well."""
    (tmp_path / "home").write_text("mine", encoding="ascii")
    assert_one_line(call_hook(prompt("s", "x"), ("--home", str(tmp_path / "home"))))
    for verb in ("up", "status", "doctor"):
        assert_one_line(program.run("--home", str(tmp_path / "home"), verb, code=1).stderr)
    assert (tmp_path / "home").read_text(encoding="ascii") == "mine"


def test_home_variable_unset() -> None:
    """Without HOME, hook and verbs still agree on one home."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        env = {"XDG_DATA_HOME": folder, "HEADWATER_EMBEDDING__MODEL": "test-hash", "PATH": os.environ["PATH"]}
        assert call_hook(prompt("s", "x"), (), env=env) == ""
        done = subprocess.run(
            [str(PROGRAM), "status", "--json"],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        status = json.loads(done.stdout)
        assert status["home"] == str(Path(folder) / "headwater")
        assert status["journal_lag_bytes"] > 0


def test_unwritable_journal_file(stage: Stage) -> None:
    """A session's file that may only be read: the hook counts, the flow reads on."""
    tell(stage, "locked", 1)
    stage.file("locked").chmod(0o400)
    assert stage.hook(prompt("locked", "lost"), before=without_root_rights) == ""
    stage.work()
    stage.check(1)
    assert read_failures(str(stage.home.root)) == 1


def test_unreadable(stage: Stage) -> None:
    """A file that may not be read is told in one line; the others are read all the same, it as soon as it may be."""
    tell(stage, "hidden", 1)
    tell(stage, "plain", 2, 3)
    stage.file("hidden").chmod(0o000)
    child = Path(__file__).resolve().parents[1] / "support" / "crash_child.py"
    env = {**os.environ, "HEADWATER_EMBEDDING__MODEL": "test-hash"}
    done = subprocess.run(
        [sys.executable, str(child), str(stage.home.root)],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=without_root_rights,
    )
    assert len(stage.rows()) == 2, done.stderr[-500:]
    assert stage.file("hidden").name in done.stderr
    stage.file("hidden").chmod(0o600)
    stage.work()
    stage.check(3)
