"""Context when nobody answers, or late, or nonsense; and faults that were seen elsewhere in what agents are told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from agent import RETRY, Agent, Past, wait_for
from memory_rows import PROJECT
from program import Program

from headwater.schemas import clock, limits
from headwater.schemas.errors import InputError
from headwater.storage.control import set_mode
from headwater.storage.home import Home
from headwater.storage.usage import Usage
from headwater.surface import asking, hook, server
from headwater.surface.operations import OPERATIONS, Context


class TestNobodyAnswers:
    """A server that is dead, hung, slow or talks nonsense: the event is recorded, the prompt goes its way."""

    CEILING_S = 5.0  # generous: the figures are measured by benchmarks/bench_context.py

    def check(self, home: Home, session: str) -> None:
        """Ask, get nothing in time, and find the event in the journal."""
        agent = Agent(home)
        assert agent.prompt(RETRY, session) == ""
        assert agent.seconds < self.CEILING_S
        assert [
            line["payload"]["prompt"] for line in agent.lines() if line["payload"]["session_id"] == session
        ] == [RETRY]
        assert hook.read_failures(str(home.root)) == 0

    def test_no_server(self, made: Home) -> None:
        """Without a server, and with the socket of a dead one, nothing is printed."""
        self.check(made, "a")
        with closing(socket.socket(socket.AF_UNIX)) as dead:
            dead.bind(str(made.socket))
        self.check(made, "b")
        made.socket.unlink()
        made.socket.write_text("no socket at all", encoding="utf-8")
        self.check(made, "c")

    @pytest.mark.parametrize("backlog", [0, 8])
    def test_hung_server(self, made: Home, backlog: int) -> None:
        """A server that listens and never answers is given up, also when its queue is full."""
        with closing(socket.socket(socket.AF_UNIX)) as hung:
            hung.bind(str(made.socket))
            hung.listen(backlog)
            for n in range(3):
                self.check(made, f"s{n}")

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"\n",
            b"garbage\n",
            b"\xff\xfe\x00\n",
            b"[1]\n",
            b'{"ok": true}\n',
            b'{"ok": true, "result": null}\n',
            b'{"ok": true, "result": {"context": 7}}\n',
            b'{"ok": false, "error": {"type": "StoreError"}}\n',
            b'{"ok": true, "result": {"context": "half a li',
            b'{"ok": true, "result": {"context": "%s"}}\n' % (b"x" * 9_501),
            b"[" * 100_000 + b"\n",
            b"x" * (asking.ANSWER_BYTES * 2),
        ],
    )
    def test_nonsense(self, made: Home, answer: bytes) -> None:
        """Whatever comes back that is no context, nothing is printed."""
        with self.speaking(made, [answer]):
            self.check(made, "s")

    def test_slow_server(self, made: Home) -> None:
        """An answer that trickles in, each part in time and the whole of it not, is given up."""
        parts = [b'{"ok": true, "result": {"context": "'] + [b"x"] * 200 + [b'"}}\n']
        with self.speaking(made, parts, pause_s=0.1):
            self.check(made, "s")

    def test_stopped_server(self, made: Home, past: Past) -> None:
        """A real server that is stopped in its tracks costs nothing, and what it then finds is not counted as told."""
        command = [sys.executable, "-P", "-m", "headwater.surface.workers", "server", str(made.root)]
        env = {**os.environ, "HEADWATER_EMBEDDING__MODEL": "test-hash"}
        process = subprocess.Popen(command, cwd=made.root, env=env)
        try:
            wait_for(made.socket.exists)
            wait_for(lambda: Agent(made).start(session="ready") != "")
            os.kill(process.pid, signal.SIGSTOP)
            self.check(made, "s")
            os.kill(process.pid, signal.SIGCONT)
            wait_for(lambda: RETRY in Agent(made).start(session="again"))
            with closing(Usage(made.usage_file)) as usage:
                assert usage.injections("claude-code:s") == ()
        finally:
            os.kill(process.pid, signal.SIGCONT)
            process.terminate()
            process.wait()

    @contextmanager
    def speaking(self, home: Home, parts: list[bytes], pause_s: float = 0.0) -> Iterator[None]:
        """Answer every question with these bytes."""
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    link, _ = listening.accept()
                except TimeoutError:
                    continue
                with link:
                    try:
                        link.recv(65536)
                        for part in parts:
                            link.sendall(part)
                            if stop.wait(pause_s):
                                break
                    except OSError:
                        continue  # the hook has gone, as it should

        with closing(socket.socket(socket.AF_UNIX)) as listening:
            listening.bind(str(home.socket))
            listening.listen(8)
            listening.settimeout(0.05)
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()
        home.socket.unlink()


def test_a_late_answer_is_not_remembered_as_told(made: Home, past: Past) -> None:
    """When a hook has asked longer ago than INJECT_ANSWER_S, nothing is told and nothing counts as told."""
    asked_ns = clock.now_ns() - int((limits.INJECT_ANSWER_S + 1) * clock.NS_PER_S)
    args = {
        "project": PROJECT,
        "session": "s",
        "agent": "a",
        "event": "SessionStart",
        "asked_at_ns": asked_ns,
    }
    assert OPERATIONS["context"](Context(made), args)["context"] == ""
    with closing(Usage(made.usage_file)) as usage:
        assert usage.injections("a:s") == ()
    assert OPERATIONS["context"](Context(made), args | {"asked_at_ns": clock.now_ns()})["context"]


def test_threads_of_the_server_let_one_another_run(program: Program) -> None:
    """The server hands over between threads after SWITCH_S, so that a model at work delays no hook by Python's 5 ms."""
    assert sys.getswitchinterval() > limits.SWITCH_S
    stop = threading.Event()
    stop.set()
    before_s = sys.getswitchinterval()
    try:
        server.serve(program.home, stop)
        assert sys.getswitchinterval() == pytest.approx(limits.SWITCH_S)
    finally:
        sys.setswitchinterval(before_s)


def test_mirrored_limits() -> None:
    """The hook's own copies of limits say the same."""
    assert asking.CONTEXT_CHARS == limits.INJECT_CHARS
    assert limits.INJECT_ANSWER_S <= asking.ASK_S <= 0.3


class TestHolesOfOthers:
    """Faults that were seen elsewhere in memory that is told to agents; each has its test here or where it is named."""

    def test_endless_mode_is_not_dead_code(self, program: Program) -> None:
        """After `endless enable` a hook process is told what is active: tables are read, not one process' memory."""
        program.env["HEADWATER_MODE"] = "session"
        past = Past(program.home)
        past.event("a", RETRY)
        program.run("endless", "enable")
        program.run("up")
        agent = Agent(program.home)
        wait_for(lambda: RETRY in agent.start())

    def test_everybody_says_the_same_mode(self, made: Home, past: Past) -> None:
        """Status, preview and hook go by the mode that was decided, whatever the settings say."""
        made.config_file.write_text('mode = "session"\n', encoding="utf-8")
        context = Context(made)
        args = {"project": PROJECT}
        assert OPERATIONS["endless_status"](context, args)["mode"] == "endless"
        assert OPERATIONS["preview"](context, args)["meta"]["mode"] == "endless"
        asked = args | {"session": "s", "agent": "a", "event": "SessionStart"}
        assert OPERATIONS["context"](context, asked)["meta"]["mode"] == "endless"
        set_mode(made, "session")
        assert "match_count" in OPERATIONS["context"](context, asked)["meta"]
        assert OPERATIONS["endless_status"](context, args)["mode"] == "session"

    def test_a_path_is_not_cut_at_its_dot(self, made: Home) -> None:
        """A line that names src/ui/app.ts or v1.2 is not cut at the dot."""
        Past(made).event("a", "move the state of src/ui/app.ts to v1.2 of the store. Then test it.")
        text = OPERATIONS["preview"](Context(made), {"project": PROJECT})["context"]
        assert "src/ui/app.ts to v1.2 of the store." in text

    def test_a_prompt_is_not_looked_for_as_a_whole(self, made: Home, past: Past) -> None:
        """A sentence finds a memory without standing in it."""
        answer = OPERATIONS["preview"](
            Context(made),
            {"project": PROJECT, "prompt": "do deliveries of the webhook retry, and with jitter?"},
        )
        assert "(mem_m)" in answer["context"]

    def test_duplicates_do_not_push_others_out(self, made: Home, past: Past) -> None:
        """An event told ten times is one line."""
        for n in range(10):
            past.rows.member("a", n)
        text = OPERATIONS["preview"](Context(made), {"project": PROJECT})["context"]
        assert text.count("(evt_a)") == 1
        assert "(evt_b)" in text

    def test_no_score_is_invented(self, made: Home) -> None:
        """Without a log no continuity is told, and the score is null."""
        Past(made).event("a", RETRY)
        answer = OPERATIONS["preview"](Context(made), {"project": PROJECT})
        assert "Continuity" not in answer["context"]
        assert answer["meta"]["continuity_score"] is None

    def test_a_context_is_of_one_project(self, home: Path) -> None:
        """Without a known project there is no context, and the error says how to name one."""
        with pytest.raises(InputError, match="--project"):
            OPERATIONS["preview"](Context(Home.open(home)), {"all_projects": True})
