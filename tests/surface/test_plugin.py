"""The plugin for Claude Code: its files say what they should, its hooks are fast, harmless, and never count twice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from installed import handlers, install
from journal_lines import live
from stage import Stage

from headwater.flows.ingest_run import IngestOptions, run_ingest
from headwater.storage.home import Home
from headwater.surface import entry, hook
from headwater.surface.cli import VERBS
from headwater.surface.hook import read_failures
from headwater.surface.install_parts import END_HOOK_S, EVENTS, HOOK_S

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "plugin"
HOOKS = PLUGIN / "hooks" / "hooks.json"


def run(command: str, payload: Any, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Call a hook's command line as the agent does."""
    raw = payload if isinstance(payload, str) else json.dumps(payload)
    return subprocess.run(
        ["sh", "-c", command],
        input=raw,
        env=env,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def env_of(home: Path, **more: str) -> dict[str, str]:
    """Return an environment in which the program is on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home.parent), "HEADWATER_HOME": str(home), **more}


def commands() -> set[str]:
    """Return the command lines of the plugin's hooks."""
    return {one["command"] for found in handlers(HOOKS.read_bytes()).values() for one in found}


def test_the_files_say_what_they_should() -> None:
    """Name, version of the program, every event with its timeout, the server, and three commands."""
    said = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_bytes())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (said["name"], said["version"], said["license"]) == (
        "headwater",
        project["version"],
        project["license"],
    )
    found = json.loads(HOOKS.read_bytes())["hooks"]
    assert tuple(found) == EVENTS["claude-code"]
    timeouts = {event: groups[0]["hooks"][0]["timeout"] for event, groups in found.items()}
    assert timeouts == dict.fromkeys(found, HOOK_S) | {"SessionEnd": END_HOOK_S}
    assert len(commands()) == 1
    servers = json.loads((PLUGIN / ".mcp.json").read_bytes())["mcpServers"]
    assert servers == {"headwater": {"command": "headwater", "args": ["mcp"]}}
    shop = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_bytes())
    assert [(one["name"], (ROOT / one["source"]).resolve()) for one in shop["plugins"]] == [
        ("headwater", PLUGIN)
    ]


@pytest.mark.parametrize("name", ["search", "timeline", "status"])
def test_commands_call_verbs_that_there_are(name: str) -> None:
    """Each has its description, may run what it names, and nothing that was typed is put into a shell line."""
    text = (PLUGIN / "commands" / f"{name}.md").read_text(encoding="utf-8")
    _, head, body = text.split("---\n", 2)
    assert re.search(r"^description: \S", head, re.MULTILINE)
    assert set(re.findall(r"Bash\(headwater ([\w-]+):\*\)", head)) <= set(VERBS)
    assert f"headwater {name}" in body
    assert not any("ARGUMENTS" in line for line in re.findall(r"!`[^`]*`", body))


def test_the_hook_is_harmless_whatever_happens(home: Path, tmp_path: Path) -> None:
    """Without the program, with a broken one, with nonsense and in a folder that cannot be: exit 0 and not a word."""
    (command,) = commands()
    payload = {"session_id": "s", "cwd": "/", "hook_event_name": "Stop", "last_assistant_message": "x"}
    broken = tmp_path / "headwater"
    broken.write_text("#!/bin/sh\nexit 2\n", encoding="utf-8")
    broken.chmod(0o755)
    for env, raw in (
        ({"PATH": "/usr/bin:/bin"}, payload),
        ({"PATH": f"{tmp_path}:/usr/bin:/bin"}, payload),
        (env_of(home), "{nonsense"),
        (env_of(home, PYTHONPATH="/nowhere"), payload),
    ):
        done = run(command, raw, env)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(list((home / "journal").iterdir())) == 2
    done = run("headwater hook --no-such-word", "", env_of(home))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_plugin_and_settings_at_once_store_each_event_once(user: Path, opened: Home) -> None:
    """An agent calls both for every event, at the same time; each is one event all the same."""
    install(opened)
    env = env_of(opened.root) | {"HOME": str(user), "CLAUDE_PROJECT_DIR": "/home/dev/live/proj"}
    settings = handlers((user / ".claude" / "settings.json").read_bytes())
    plugin = handlers(HOOKS.read_bytes())
    names = (
        "SessionStart",
        "UserPromptSubmit",
        "PostToolUse",
        "PostToolUseFailure",
        "SubagentStop",
        "Stop",
        "SessionEnd",
    )
    first = [one["payload"] for one in live()[:26]]
    chosen = [next(one for one in first if one["hook_event_name"] == name) for name in names]
    chosen.insert(
        3, next(one for one in first if one["hook_event_name"] == "PostToolUse" and one is not chosen[2])
    )
    for payload in chosen:
        lines = [one["command"] for found in (settings, plugin) for one in found[payload["hook_event_name"]]]
        assert len(lines) == 2
        calls = [
            subprocess.Popen(
                ["sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd="/"
            )
            for line in lines
        ]
        for call in calls:
            out, _ = call.communicate(json.dumps(payload).encode(), timeout=60)
            assert (call.returncode, out) == (0, b"")
    assert read_failures(str(opened.root)) == 0
    stage = Stage(opened.root)
    assert len(stage.lines()) == 2 * len(chosen)
    run_ingest(opened, IngestOptions(None, until_idle=True))
    kinds = [row["kind"] for row in stage.rows()]
    assert kinds == ["session_start", "prompt", "tool", "tool", "tool", "response", "response", "session_end"]


def test_everything_but_a_hook_goes_to_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the help of the hook; a hook ends with 0 though it fails."""
    called: list[str] = []
    monkeypatch.setattr("headwater.surface.cli.main", lambda: called.append("cli"))
    for words in (["headwater"], ["headwater", "status"], ["headwater", "hook", "--help"]):
        monkeypatch.setattr(sys, "argv", words)
        entry.main()
    assert called == ["cli"] * 3
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(hook, "main", lambda *words: called.append(repr(words[0])))
    monkeypatch.setattr(sys, "argv", ["headwater", "hook", "--agent", "codex"])
    entry.main()
    assert (codes, called[3]) == ([0], "['--agent', 'codex']")
