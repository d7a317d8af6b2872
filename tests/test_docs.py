"""The documentation runs: generated pages are up to date, and the README's commands do what it says."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import BaseModel
from recall_home import recall_home

from headwater.schemas.config import EndlessConfig, ProgressiveDisclosureConfig
from headwater.storage.home import Home
from headwater.surface import processes
from headwater.surface.cli import cli

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLACEHOLDER = "evt_0123456789ab"
RECORDED = "af004aec-f1e1-4a3a-b13d-75103ac8bdbe"


def commands(document: Path) -> list[str]:
    """Return the commands of a document's console blocks, in order."""
    text = document.read_text(encoding="utf-8")
    return [line[2:] for block in BLOCK.findall(text) for line in block.splitlines() if line.startswith("$ ")]


def test_generated_pages_are_up_to_date() -> None:
    """`scripts/gen_docs.py` has nothing to change."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "gen_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_readmes_commands_run() -> None:
    """From nothing to an agent that remembers in three commands, then all others; the repository stays clean."""
    lines = commands(ROOT / "README.md")
    assert len(lines) >= 6
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        home = Home.open(Path(folder) / "h")
        env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        env |= {"HEADWATER_HOME": str(home.root), "HEADWATER_EMBEDDING__MODEL": "test-hash", "HOME": folder}
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
            env.pop(name, None)
        repository = had_a_session(Path(folder))
        try:
            for line in lines[:3]:
                run(line, env, repository)
            assert "DOMAIN" in asked(Path(folder), env, repository)
            found = run('headwater search "b.txt DOMAIN" --all-projects --json', env)
            event_id = re.search(r"evt_[0-9a-z]{12}", found)
            assert event_id is not None
            for line in lines[3:]:
                run(line.replace(PLACEHOLDER, event_id[0]), env, repository)
            assert run("git status --porcelain --ignored", env, repository) == ""
        finally:
            processes.stop_all(home)


def had_a_session(user: Path) -> Path:
    """Give a user a repository, and a transcript of a session in it; return the repository."""
    repository = user / "proj"
    repository.mkdir()
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    recorded = ROOT / "tests" / "data" / "claude_code_live_transcripts" / "-home-dev-live-proj"
    text = gzip.decompress((recorded / f"{RECORDED}.jsonl.gz").read_bytes()).decode()
    logs = user / ".claude" / "projects" / "-proj"
    logs.mkdir(parents=True)
    (logs / f"{RECORDED}.jsonl").write_text(
        text.replace("/home/dev/live/proj", str(repository)), encoding="utf-8"
    )
    return repository


def asked(user: Path, env: dict[str, str], repository: Path) -> str:
    """Start a session as the settings say, until there is an answer: what an agent is told that remembers."""
    settings = json.loads((user / ".claude" / "settings.json").read_bytes())
    (line,) = (one["command"] for group in settings["hooks"]["SessionStart"] for one in group["hooks"])
    payload = {
        "hook_event_name": "SessionStart",
        "source": "startup",
        "session_id": "new",
        "cwd": str(repository),
    }
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        done = subprocess.run(
            line,
            shell=True,
            input=json.dumps(payload),
            env=env,
            cwd=repository,
            capture_output=True,
            text=True,
            check=True,
        )
        if done.stdout:
            return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"])
    raise AssertionError("nothing was told")


def run(line: str, env: dict[str, str], folder: Path | None = None) -> str:
    """Run one documented command, as a shell does, and return what it printed."""
    done = subprocess.run(
        line, shell=True, env=env, cwd=folder, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_memory_pages_commands_run(tmp_path: Path) -> None:
    """Each command of docs/memory.md, in order, in one throw-away home that holds the invented project it names."""
    lines = commands(ROOT / "docs" / "memory.md")
    assert len(lines) >= 8
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    env |= {"HEADWATER_HOME": str(tmp_path / "h"), "HEADWATER_EMBEDDING__MODEL": "test-hash"}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    run(f"headwater ingest {ROOT / 'tests' / 'data' / 'story_en_pay.jsonl.gz'}", env)
    for line in lines:
        assert run(line, env), line


def test_the_memory_page_names_every_setting() -> None:
    """Its table of settings has each `endless.*` key, with the default that holds, and no other key."""
    text = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `([a-z_.]+)` \| (\S+) \| (?:rows|reads|–)", text, re.MULTILINE))
    assert told == dict(defaults(EndlessConfig))


def test_the_recall_pages_commands_run(tmp_path: Path) -> None:
    """Each command of docs/recall.md finds something, in a home with the ids that it names."""
    home = recall_home(tmp_path / "h")
    lines = commands(ROOT / "docs" / "recall.md")
    assert len(lines) >= 6
    for line in lines:
        done = CliRunner().invoke(cli, ["--home", str(home.root), *shlex.split(line)[1:]])
        assert done.exit_code == 0, (line, done.output)
        assert "2026-01-05" in done.output


def test_the_recall_page_names_every_setting() -> None:
    """Its table of settings has each `progressive_disclosure.*` key with the default that holds, and no other key."""
    text = (ROOT / "docs" / "recall.md").read_text(encoding="utf-8")
    settings = text.partition("## Settings")[2]
    told = dict(re.findall(r"^\| `([a-z0-9_.]+)` \| (\S+) \|", settings, re.MULTILINE))
    assert told == dict(defaults(ProgressiveDisclosureConfig))


def defaults(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted name of each setting, and its default as the page writes it."""
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from defaults(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", "unset" if field.default is None else f"`{json.dumps(field.default)}`"
