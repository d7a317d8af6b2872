"""The capture hook as agents run it: one process per event, exit 0 always, nothing on stdout."""

from __future__ import annotations

import ast
import io
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from headwater.surface import hook

BASE = getattr(sys, "_base_executable", None) or sys.executable
SCRIPT = Path(hook.__file__).resolve()
PAYLOADS = Path(__file__).resolve().parent.parent / "data" / "hook_payloads.jsonl"
PROMPT = {"session_id": "s1", "cwd": "/", "hook_event_name": "UserPromptSubmit", "prompt": "hello"}


def run(
    payload: object,
    home: Path | None,
    *,
    env: Mapping[str, str] | None = None,
    words: tuple[str, ...] = (),
    cwd: Path | str = "/",
    before: Callable[[], None] | None = None,
) -> str:
    """Send one event (bytes as they are, else as JSON) to the hook process, and return its stderr."""
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    done = subprocess.run(
        [BASE, "-I", "-S", str(SCRIPT), *(("--home", str(home)) if home else ()), *words],
        input=raw,
        env=dict(env or {}),
        cwd=cwd,
        capture_output=True,
        timeout=60,
        check=False,
        preexec_fn=before,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    return done.stderr.decode()


def lines(home: Path) -> list[dict[str, Any]]:
    """Return all envelopes of a home."""
    files = sorted((home / "journal").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().split(b"\n") if line]


def open_umask() -> None:
    """Let a process make files for everybody."""
    os.umask(0)


def close_stdin() -> None:
    """Take stdin away from a process."""
    os.close(0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A home that does not exist yet."""
    return tmp_path / "home"


class TestRecord:
    """What is written."""

    def test_every_recorded_payload_becomes_one_line(self, root: Path) -> None:
        """Each event kind of a real session is kept with what the flow needs to know about it."""
        before_ns = time.time_ns()
        payloads = [json.loads(line) for line in PAYLOADS.read_text(encoding="utf-8").splitlines()]
        for payload in payloads:
            assert run(payload, root) == ""
        found = sorted(lines(root), key=lambda line: int(line["received_at_ns"]))

        assert [line["payload"]["hook_event_name"] for line in found] == [
            payload["hook_event_name"] for payload in payloads
        ]
        assert len({line["id"] for line in found}) == len(payloads)
        for line in found:
            assert list(line) == [
                *("v", "id", "received_at_ns", "agent", "host", "project_dir", "project"),
                *("format", "source", "payload", "clipped"),
            ]
            assert before_ns < line["received_at_ns"] < time.time_ns()
            assert (line["v"], line["agent"], line["format"], line["source"]) == (
                1,
                "claude-code",
                "claude-hook",
                None,
            )
            assert line["project_dir"] == line["project"] == line["payload"]["cwd"]

    def test_home_is_private(self, root: Path) -> None:
        """Folders are 0700 and files 0600, whatever the umask; the failure counter is there."""
        run(PROMPT, root, before=open_umask)
        modes = {path.relative_to(root).as_posix(): path.stat().st_mode & 0o777 for path in root.rglob("*")}

        assert root.stat().st_mode & 0o777 == 0o700
        assert modes == {
            "journal": 0o700,
            "run": 0o700,
            "journal/claude-code-s1.jsonl": 0o600,
            "run/hook_failures": 0o600,
        }
        assert (root / "run" / "hook_failures").read_bytes() == bytes(8)

    def test_codex_has_its_own_format(self, root: Path) -> None:
        """Another agent is named, and the environment of Claude Code does not count for it."""
        run(PROMPT, root, words=("--agent", "codex"), env={"CLAUDE_PROJECT_DIR": "/elsewhere"})

        assert [(line["agent"], line["format"], line["project_dir"]) for line in lines(root)] == [
            ("codex", "codex-hook", "/")
        ]

    def test_project_dir_of_the_environment_wins(self, root: Path, tmp_path: Path) -> None:
        """The folder the session started in names the project, not the one it went to."""
        (tmp_path / "p").mkdir()
        run({**PROMPT, "cwd": "/usr"}, root, env={"CLAUDE_PROJECT_DIR": str(tmp_path / "p")})

        assert lines(root)[0]["project"] == str((tmp_path / "p").resolve())

    def test_without_any_folder_the_project_is_empty(self, root: Path) -> None:
        """A payload without cwd is kept."""
        run({"hook_event_name": "Stop"}, root)

        assert [(line["project_dir"], line["project"]) for line in lines(root)] == [("", "")]
        assert (root / "journal" / "claude-code-unknown.jsonl").exists()

    @pytest.mark.parametrize(
        "raw", [b"not json", b'{"a": "b', b"[1, 2]", b'{"a":1}{"b":2}', b"3", b"\xff\xfe{", b"[" * 99999]
    )
    def test_what_is_no_object_is_kept_as_text(self, root: Path, raw: bytes) -> None:
        """Input that cannot be used is recorded for the flow to put aside."""
        run(raw, root)

        assert [line["payload"][:2] for line in lines(root)] == [raw.decode("utf-8", "replace")[:2]]

    def test_text_that_is_no_object_is_redacted(self, root: Path) -> None:
        """Broken JSON gives no way past redaction, nor past the clip."""
        run(b'{"prompt": "<private>s3cret</private> password=hunter2 ' + b"w " * 100_000, root)
        text = (root / "journal" / "claude-code-unknown.jsonl").read_text(encoding="utf-8")

        assert "[private] password=[redacted:password]" in text
        assert len(text) < hook.CLIP_CHARS + 2000

    @pytest.mark.parametrize("raw", [b"", b" \n"])
    def test_empty_input_writes_nothing(self, root: Path, raw: bytes) -> None:
        """No event, no line, no home."""
        run(raw, root)

        assert not root.exists()

    def test_odd_text_gives_valid_lines(self, root: Path) -> None:
        """Lone surrogates, NUL, line separators and bad UTF-8 end in one line of valid UTF-8 JSON."""
        raw = '{"prompt": "\\ud83d a \\u0000 \u2028 \x85 \\n 안녕 😀", "n": NaN, "big": 1e999, "\\udc00": "x'.encode()
        run(raw + b'\xff"}', root)
        data = (root / "journal" / "claude-code-unknown.jsonl").read_bytes()
        payload = json.loads(data.decode("utf-8"))["payload"]

        assert data.count(b"\n") == 1
        assert payload == {
            "prompt": "\ufffd a \x00 \u2028 \x85 \n 안녕 😀",
            "n": "NaN",
            "big": "inf",
            "\ufffd": "x\ufffd",
        }

    def test_huge_payload_becomes_a_small_line(self, root: Path) -> None:
        """20 MB of output and 8 MB of an image are kept as head, tail, size and hash."""
        response = {"stdout": "out put\n" * 2_500_000, "file": {"base64": "iVBORw0KGgo9" * 700_000}}
        run({**PROMPT, "tool_response": response}, root)
        (line,) = lines(root)

        assert line["payload"]["tool_response"]["file"]["base64"].startswith("[base64 6300000 bytes sha256:")
        assert line["clipped"]["tool_response.stdout"] == 20_000_000
        assert (root / "journal" / "claude-code-s1.jsonl").stat().st_size < 100_000


class TestGuards:
    """What is not written."""

    @pytest.mark.parametrize("env", [{"HEADWATER_DISABLE": "1"}, {"HEADWATER_INTERNAL": "1"}])
    def test_switch_in_the_environment(self, root: Path, env: dict[str, str]) -> None:
        """Our own processes, and people who do not want it, switch the hook off."""
        run(PROMPT, root, env=env)

        assert not root.exists()

    @pytest.mark.parametrize(("until", "recorded"), [("", 0), ("9" * 20, 0), ("junk", 0), ("1000", 1)])
    def test_pause(self, root: Path, until: str, recorded: int) -> None:
        """A paused home takes nothing until the time in PAUSED has come."""
        root.mkdir()
        (root / "PAUSED").write_text(until, encoding="ascii")
        run(PROMPT, root)

        assert len(lines(root)) == recorded

    @pytest.mark.parametrize(
        ("changes", "recorded"),
        [
            ({"cwd": "HOME"}, 0),
            ({"cwd": "HOME/run/x"}, 0),
            ({"cwd": "HOME-not"}, 1),
            ({"tool_name": "mcp__headwater__search"}, 0),
            ({"tool_name": "mcp__plugin_headwater_memory__timeline", "hook_event_name": "PreToolUse"}, 0),
            ({"tool_name": "mcp__github__search"}, 1),
            ({"tool_name": "Bash", "tool_input": {"command": "headwater search x | head"}}, 0),
            ({"tool_name": "Bash", "tool_input": {"command": "/usr/my bin/../headwater --json show 12"}}, 1),
            ({"tool_name": "Bash", "tool_input": {"command": "/usr/bin/headwater --json show 12"}}, 0),
            ({"tool_name": "Bash", "tool_input": {"command": "headwater up"}}, 1),
            ({"tool_name": "Bash", "tool_input": {"command": "cd headwater && make search"}}, 1),
            ({"tool_name": "Bash", "tool_input": {"command": ""}}, 1),
            ({"tool_name": 3, "tool_input": []}, 1),
        ],
    )
    def test_our_own_doings(self, root: Path, changes: dict[str, Any], recorded: int) -> None:
        """Calls of our tools and work inside our home are not captured; their likes are."""
        payload = {**PROMPT, "hook_event_name": "PostToolUse", **changes}
        payload["cwd"] = payload["cwd"].replace("HOME", str(root))
        run(payload, root)

        assert len(lines(root)) == recorded


class TestFailures:
    """Exit 0, and the loss is counted or said."""

    def test_linked_journal_file_is_refused(self, root: Path, tmp_path: Path) -> None:
        """A link in the place of a journal file leads nowhere."""
        run(PROMPT, root)
        file = root / "journal" / "claude-code-s1.jsonl"
        file.unlink()
        (tmp_path / "victim").write_text("mine", encoding="ascii")
        file.symlink_to(tmp_path / "victim")

        assert run(PROMPT, root) == ""
        assert (tmp_path / "victim").read_text(encoding="ascii") == "mine"
        assert hook.read_failures(str(root)) == 1

    def test_pipe_in_the_place_of_a_journal_file_does_not_block(self, root: Path) -> None:
        """A pipe that nobody reads is a failure, not a wait."""
        (root / "journal").mkdir(parents=True)
        os.mkfifo(root / "journal" / "claude-code-s1.jsonl")
        run(PROMPT, root)

        assert hook.read_failures(str(root)) == 1

    def test_failures_add_up(self, root: Path) -> None:
        """Concurrent failures are all counted."""
        root.mkdir()
        (root / "journal").write_text("no folder", encoding="ascii")
        workers = [threading.Thread(target=run, args=(PROMPT, root)) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

        assert hook.read_failures(str(root)) == 8

    def test_unusable_home_is_said(self, tmp_path: Path) -> None:
        """When nothing can be counted, one line on stderr says what is wrong and what to do."""
        (tmp_path / "home").write_text("a file", encoding="ascii")
        said = run(PROMPT, tmp_path / "home")

        assert said.count("\n") == 1
        assert "Fix: headwater doctor" in said

    def test_read_only_home_is_counted_or_said(self, root: Path) -> None:
        """A home that cannot be written never stops the agent; a superuser may write it all the same."""
        root.mkdir()
        root.chmod(0o500)
        said = run(PROMPT, root)
        root.chmod(0o700)

        assert said.count("\n") == 1 or len(lines(root)) == 1

    def test_full_disk_is_counted(self, root: Path) -> None:
        """A line of which only a part finds room is counted, and later lines are whole again."""
        run(PROMPT, root)
        size = (root / "journal" / "claude-code-s1.jsonl").stat().st_size
        run(PROMPT, root, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, size + 50)))
        failures = hook.read_failures(str(root))
        run(PROMPT, root)
        data = (root / "journal" / "claude-code-s1.jsonl").read_bytes()

        assert failures >= 1
        assert len(data) > 2 * size
        assert data.rstrip().endswith(b"}")

    def test_interrupt_is_no_error(self, root: Path) -> None:
        """Whatever is raised, the exit code is 0 and the loss counted."""

        class Stdin(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                raise KeyboardInterrupt

        for _ in range(2):
            assert hook.main(["--home", str(root)], Stdin(), {}) == 0
        assert hook.read_failures(str(root)) == 2

    @pytest.mark.parametrize("words", [("--nonsense",), ("--agent",), ("--help",), ("--home",), ("x", "y")])
    def test_wrong_arguments_do_not_stop_it(self, root: Path, words: tuple[str, ...]) -> None:
        """Unknown words are passed over; exit code 2 would block the agent's tool."""
        run(PROMPT, None, words=words, env={"HEADWATER_HOME": str(root)})

        assert len(lines(root)) == 1

    def test_without_stdin(self, root: Path) -> None:
        """A closed stdin is an empty one."""
        assert run(b"", root, before=close_stdin) == ""


class TestSurroundings:
    """Where it runs must not matter."""

    def test_modules_of_the_users_folder_are_never_run(self, root: Path, tmp_path: Path) -> None:
        """A project with its own json.py, headwater/, schemas/ and redaction.py is a place like any other."""
        names = (
            "json.py",
            "re.py",
            "time.py",
            "redaction.py",
            "schemas/__init__.py",
            "headwater/__init__.py",
        )
        for name in names:
            (tmp_path / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "repo" / name).write_text("open('RAN', 'w'); raise SystemExit(3)\n", encoding="ascii")
        said = run(
            {**PROMPT, "prompt": "password=hunter2"},
            root,
            cwd=tmp_path / "repo",
            env={"PYTHONPATH": str(tmp_path / "repo")},
        )

        assert said == ""
        assert len(lines(root)) == 1
        assert not (tmp_path / "repo" / "RAN").exists()

    def test_hook_and_what_it_loads_need_only_the_standard_library(self) -> None:
        """From hook.py on, nothing but the standard library and modules beside it is imported."""
        todo, seen = ["hook"], set[str]()
        while todo:
            name = todo.pop()
            seen.add(name)
            for node in ast.walk(ast.parse(SCRIPT.with_name(f"{name}.py").read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headwater"):
                    package, _, module = (node.module or "").partition("headwater.surface")
                    assert not package
                    found = [module[1:]] if module else [alias.name for alias in node.names]
                    todo += [item for item in found if item not in seen]
                elif isinstance(node, ast.Import | ast.ImportFrom):
                    top = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                    assert (top or ".").split(".")[0] in sys.stdlib_module_names

        assert {"capture", "cleaning", "redaction", "assignments", "projects", "guards", "failures"} < seen

    @pytest.mark.parametrize("name", ["My Home", "한국어 ホーム", 'quote\'s & "co" $x'])
    def test_odd_home_names(self, tmp_path: Path, name: str) -> None:
        """Blanks, quotes and other scripts in the home's path are fine."""
        run(PROMPT, tmp_path / name)

        assert len(lines(tmp_path / name)) == 1

    def test_named_home_wins(self, root: Path, tmp_path: Path) -> None:
        """The option `--home` is stronger than the environment."""
        run(PROMPT, root, env={"HEADWATER_HOME": str(tmp_path / "other")})

        assert len(lines(root)) == 1
        assert not (tmp_path / "other").exists()
