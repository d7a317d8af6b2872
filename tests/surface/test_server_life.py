"""The life of the stream: started by a session, once; stopped when nobody is there; a service; paused and going on."""

from __future__ import annotations

import json
import os
import plistlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agent import BASE, SCRIPT, Agent, wait_for
from click.testing import CliRunner
from memory_rows import PROJECT
from program import Program

from headwater.schemas import clock, limits
from headwater.schemas.config import ServerConfig
from headwater.schemas.control import PAUSED_OPEN
from headwater.schemas.errors import InputError
from headwater.storage.control import ControlJournal
from headwater.storage.home import Home
from headwater.storage.locks import hold_lock
from headwater.storage.run_files import SUPERVISOR_LOCK
from headwater.surface import (
    activity,
    autostart,
    doctor,
    hook,
    install,
    pause,
    processes,
    server,
    service,
    workers,
)
from headwater.surface.cli import cli
from headwater.surface.operations import Context
from headwater.surface.status import pause_state

# Instead of a stream: tells how it was started, and stays until a file appears.
STREAM = """
import json, os, sys, time
fds = [n for n in range(256) if os.path.exists(f"/proc/self/fd/{n}")]
told = {"env": sorted(os.environ), "cwd": os.getcwd(), "leads": os.getsid(0) == os.getpid(), "fds": len(fds)}
with open(sys.argv[1] + "/told", "a") as file:
    file.write(json.dumps(told) + "\\n")
until = time.monotonic() + 60
while not os.path.exists(sys.argv[1] + "/end") and time.monotonic() < until:
    time.sleep(0.02)
"""


@pytest.fixture
def opened(home: Path) -> Home:
    """A home whose sessions start the stand-in."""
    made = Home.open(home)
    script = home.parent / "stream.py"
    script.write_text(STREAM, encoding="utf-8")
    (made.root / autostart.NAME).write_text(
        f"{sys.executable}\n-S\n{script}\n{home.parent}\n", encoding="utf-8"
    )
    return made


def told(opened: Home) -> list[dict[str, Any]]:
    """Return what each stand-in that was started told."""
    path = opened.root.parent / "told"
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    )


def is_free(opened: Home) -> bool:
    """Tell whether nobody started holds the lock of starts."""
    handle = autostart._take(str(opened.run / autostart.START_LOCK))
    if handle is not None:
        os.close(handle)
    return handle is not None


def end(opened: Home) -> None:
    """Let the stand-in go and wait until it has."""
    (opened.root.parent / "end").touch()
    wait_for(lambda: is_free(opened))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_sessions_that_begin_at_once_start_one_stream(opened: Home) -> None:
    """Six hooks: one stream, apart from the terminal, with none of the agent's secrets and none of its pipes."""
    payload = json.dumps(
        {"session_id": "s", "cwd": PROJECT, "hook_event_name": "SessionStart", "source": "startup"}
    )
    command = [BASE, "-I", "-S", str(SCRIPT), "--home", str(opened.root)]
    env = {"HOME": "/h", "CLAUDE_TOKEN": "x", "LC_ALL": "C", "HEADWATER_MODE": "endless"}

    def call(_: int) -> tuple[int, str, str]:
        done = subprocess.run(
            command, input=payload, text=True, capture_output=True, env=env, check=False, timeout=60
        )
        return done.returncode, done.stdout, done.stderr

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(call, range(6))) == {(0, "", "")}
    wait_for(lambda: told(opened))
    call(0)  # while it runs
    end(opened)
    (only,) = told(opened)
    assert set(only["env"]) - {"LC_CTYPE"} == {"HOME", "LC_ALL", "HEADWATER_MODE"}
    assert (only["cwd"], only["leads"]) == (str(opened.root), True)
    assert only["fds"] <= 5  # stdin, stdout, stderr, the lock, and the folder of handles that it looks into
    assert len(Agent(opened).lines()) == 7
    assert hook.read_failures(str(opened.root)) == 0


def test_a_prompt_starts_it_too_and_other_events_do_not(opened: Home) -> None:
    """A session that stayed open over night has no start; tools come too often to look."""
    agent = Agent(opened)
    agent.call("PostToolUse", tool_name="Read", tool_use_id="t")
    assert is_free(opened)
    agent.prompt("go on")
    assert not is_free(opened)
    end(opened)


@pytest.mark.parametrize("why", ["paused", "up", "not wanted", "gone", "no words", "no logs"])
def test_nothing_is_started_when_it_must_not_be(opened: Home, why: str) -> None:
    """The hook goes on as always; what could not be started is no failure to record."""
    path = opened.root / autostart.NAME
    with hold_lock(opened.run / (SUPERVISOR_LOCK if why == "up" else "other.lock"), "test"):
        if why == "paused":
            pause.pause(opened, None)
        elif why == "not wanted":
            path.unlink()
        elif why == "gone":
            path.write_text("/no/such/python\n-c\npass\n", encoding="utf-8")
        elif why == "no words":
            path.write_bytes(b"\xff\n")
        elif why == "no logs":
            opened.logs.rmdir()
        agent = Agent(opened)
        assert agent.start() == ""
        assert len(agent.lines()) == (why != "paused")
        wait_for(lambda: is_free(opened))
    assert told(opened) == []
    assert hook.read_failures(str(opened.root)) == 0


@pytest.mark.slow
def test_a_session_starts_the_stream_and_silence_stops_it(program: Program) -> None:
    """What `install` writes brings up the real one; with no hook and no question it goes down by itself."""
    install.set_autostart(program.home, on=True)
    program.home.config_file.write_text(
        '[embedding]\nmodel = "test-hash"\n[server]\nidle_stop_h = 0.001\n', encoding="utf-8"
    )
    Agent(program.home).start()
    log = program.home.logs / "supervisor.log"
    wait_for(lambda: log.exists() and log.read_text(encoding="utf-8").endswith("INFO down\n"))
    assert set(processes.pids(program.home).values()) == {None}
    said = [line.split(" ", 3)[3] for line in log.read_text(encoding="utf-8").splitlines()]
    assert said == [f"up, home {program.home.root}", "nobody was here for 0.0 h", "down"]


def test_idle_is_counted_from_the_last_hook_or_question(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After IDLE_LOOK_S at the earliest, and never with a limit of 0; a start counts as use."""
    opened = Home.open(home)
    time_ = clock.FakeClock(at=clock.SYSTEM.now())
    monkeypatch.setattr(clock, "SYSTEM", time_)
    assert ServerConfig().idle_stop_h == 24
    assert activity.idle_s(opened) == float("inf")
    idle, never = workers.Idle(opened, 3600.0), workers.Idle(opened, 0.0)
    time_.move(3599)
    assert not idle.is_over()
    (opened.journal / "a.jsonl").touch()
    os.utime(opened.journal / "a.jsonl", (time_.now().timestamp(),) * 2)
    time_.move(3000)
    assert not idle.is_over()
    assert activity.idle_s(opened) == pytest.approx(3000, abs=1)
    time_.move(limits.IDLE_LOOK_S - 1)
    assert not idle.is_over()
    time_.move(541)
    assert idle.is_over()
    time_.move(10**9)
    assert not never.is_over()


def test_only_questions_count_as_use(home: Path) -> None:
    """`status` looks whether the stream is there; that keeps nobody awake."""
    opened = Home.open(home)
    context = Context(opened)
    for name in activity.LOOKING:
        server.answer_line(context, json.dumps({"op": name}).encode())
    assert activity.idle_s(opened) == float("inf")
    server.answer_line(context, b'{"op": "search", "args": {"query": "x"}}')
    assert activity.idle_s(opened) < 3600


# --- a service ---


def test_the_unit_of_systemd(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it lies, what it runs, and signs that mean something in a unit."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/conf")
    made = service.service_of(Home(Path('/h 100%/$x/"q"')), "linux")
    assert made.path == Path("/conf/systemd/user/headwater.service")
    (line,) = [line for line in made.text.splitlines() if line.startswith("ExecStart=")]
    assert line.endswith('"--home" "/h 100%%/$$x/\\"q\\"" "up" "--foreground"')
    assert made.begin[-1] == ("systemctl", "--user", "enable", "--now", "headwater.service")
    assert "Restart=on-failure" in made.text


def test_the_agent_of_launchd(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A property list that starts it with the session."""
    monkeypatch.setenv("HOME", str(home.parent))
    made = service.service_of(Home(Path("/h & co")), "darwin")
    said = plistlib.loads(made.text.encode())
    assert said["ProgramArguments"][1:] == ["--home", "/h & co", "up", "--foreground"]
    assert (said["RunAtLoad"], said["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert made.path == home.parent / "Library/LaunchAgents/headwater.stream.plist"


def test_a_service_is_written_once_and_taken_back(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again it is the same; that of another home is not overwritten; the end of it removes the file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.parent))
    one = service.service_of(Home(home), "linux")
    service.write(one)
    service.write(one)
    assert one.path.read_text(encoding="utf-8") == one.text
    with pytest.raises(InputError, match="another home"):
        service.write(service.service_of(Home(home.parent / "other"), "linux"))
    assert service.remove(one)
    assert not service.remove(one)
    assert service.run((("true",), ("no-such-manager",))) is not None
    assert service.run((("sh", "-c", "echo why >&2; exit 3"),)) == "sh -c echo why >&2; exit 3: why"
    assert service.run((("true",),)) is None


def test_the_verbs_install_and_remove_a_service(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run only shows; where no manager answers, the stream is started and the commands are told."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.parent / "conf"))
    ups: list[Home] = []
    monkeypatch.setattr("headwater.surface.verbs.lifecycle.ensure_up", ups.append)
    monkeypatch.setattr(service, "run", lambda _commands: "no bus")
    unit = home.parent / "conf/systemd/user/headwater.service"
    monkeypatch.setattr(sys, "platform", "linux")
    shown = CliRunner().invoke(cli, ["up", "--install-service", "--dry-run"])
    assert "ExecStart=" in shown.output
    assert not unit.exists()
    done = CliRunner().invoke(cli, ["up", "--install-service"])
    assert (done.exit_code, unit.exists(), len(ups)) == (0, True, 1)
    assert "no bus" in done.output
    assert "systemctl --user enable --now headwater.service" in done.output
    assert "the service is gone" in CliRunner().invoke(cli, ["down", "--remove-service"]).output
    assert not unit.exists()


# --- a pause ---


def test_a_pause_holds_until_somebody_says_so(home: Path) -> None:
    """Hooks record nothing and ask nothing; status and doctor say it; resume ends it; both are on record."""
    assert CliRunner().invoke(cli, ["resume"]).output == "headwater was not paused\n"
    assert CliRunner().invoke(cli, ["pause"]).output == "headwater is paused; go on with: headwater resume\n"
    opened = Home.open(home)
    agent = Agent(opened)
    agent.prompt("a secret")
    assert agent.lines() == []
    assert pause_state(opened) == {"until": None}
    assert ControlJournal(opened).state().paused_until_ns == PAUSED_OPEN
    assert "hooks record and tell nothing until you say" in CliRunner().invoke(cli, ["status"]).output
    (check,) = [one for one in doctor.examine(opened) if one.name == "pause"]
    assert (check.level, check.fix) == ("warn", "run: headwater resume")
    assert CliRunner().invoke(cli, ["resume"]).output == "headwater records again\n"
    agent.prompt("no secret")
    assert len(agent.lines()) == 1
    assert pause_state(opened) is None
    assert ControlJournal(opened).state().paused_until_ns is None
    assert [one for one in doctor.examine(opened) if one.name == "pause"] == []


def test_a_pause_ends_by_itself(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its time, for hooks and for status, though nobody runs."""
    before = clock.SYSTEM.now()
    said = CliRunner().invoke(cli, ["pause", "--for", "1h30m"]).output
    opened = Home.open(home)
    end_at = pause.until(opened)
    assert end_at is not None
    assert timedelta(0) <= end_at - before - timedelta(minutes=90) < timedelta(minutes=5)
    assert f"paused until {clock.local(end_at):%Y-%m-%d %H:%M}" in said
    assert pause_state(opened) == {"until": clock.iso(end_at)}
    pause.pause(opened, clock.SYSTEM.now() - timedelta(seconds=1))
    assert pause_state(opened) is None
    agent = Agent(opened)
    agent.prompt("again")
    assert len(agent.lines()) == 1


@pytest.mark.parametrize("words", ["2", "soon", "0h", "h", "-1h", "367d", "1h 30m", ""])
def test_a_pause_of_no_sensible_length_is_wrong_use(home: Path, words: str) -> None:
    """Exit 2, with what is wanted; the longest is PAUSE_MAX_S."""
    done = CliRunner().invoke(cli, ["pause", "--for", words])
    assert done.exit_code == 2
    assert "wanted a time such as 30m" in done.output
    assert limits.PAUSE_MAX_S == 366 * 86_400
