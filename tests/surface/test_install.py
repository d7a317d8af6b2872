"""Installing into the settings of agents and out again: other entries are untouched, and every byte comes back."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from installed import handlers, install, settings_file, tree, uninstall

from headwater.schemas import limits
from headwater.schemas.errors import HomeError, InputError
from headwater.storage.home import Home
from headwater.surface import install as installing
from headwater.surface import install_text
from headwater.surface.cli import cli
from headwater.surface.install import apply, diff_text, plan_install, plan_uninstall
from headwater.surface.install_parts import EVENTS, Hooks
from headwater.surface.install_places import mcp_command, places, program
from headwater.surface.install_record import Record

OTHERS = """{
  "model": "opus",
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "/usr/bin/say 'done'"}]}],
    "PreToolUse": [
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "python3 \\"$CLAUDE_PROJECT_DIR\\"/check.py"}]}
    ]
  },
  "mcpServers": {"github": {"type": "http", "url": "https://example.com/mcp"}}
}
"""
DEEP = '{"deep": ' + '{"k": [' * 40 + "1" + "]}" * 40 + ', "n": [1e400, -0.0, 1.50, 12345678901234567890123]}'
FILES = {
    "comments": b'// mine\n{\n  /* a */ "model": "opus", // the big one\n  "x": [1, 2,], // trailing\n}\n',
    "empty": b"",
    "braces": b"{}",
    "crlf": b'{\r\n  "model": "opus"\r\n}',
    "tabs": b'{\n\t"permissions": {\n\t\t"allow": []\n\t}\n}\n',
    "others": OTHERS.encode(),
    "bom": b'\xef\xbb\xbf{"model": "opus"}\n',
    "deep": DEEP.encode(),
    "unicode": '{"note": "결제 🚀 \\ud83d", "hooks": {}}\n\n'.encode(),
    "empty lists": b'{"hooks": {"Stop": [], "SessionEnd": [\n]}}',
}


@pytest.mark.parametrize("name", FILES)
def test_install_and_uninstall_give_every_file_back(user: Path, opened: Home, name: str) -> None:
    """Our hooks stand in it once each, all else is there still, a second install does nothing, and the bytes return."""
    path = settings_file(user, FILES[name])
    path.chmod(0o640)
    before = tree(user)
    assert install(opened) == 2
    first = path.read_bytes()
    mine = [
        str(one["command"])
        for all_of in handlers(first).values()
        for one in all_of
        if "--agent" in one["command"]
    ]
    assert len(mine) == len(EVENTS["claude-code"]) == 11
    assert len(set(mine)) == 1
    said = install_text.plain(FILES[name].decode())
    assert said.keys() - {"hooks"} == install_text.plain(first.decode()).keys() - {"hooks"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert install(opened) == 0
    assert path.read_bytes() == first
    assert uninstall(opened) == 2
    assert tree(user) == before
    assert path.stat().st_mode & 0o777 == 0o640
    assert not Record(opened).folder.exists()


def test_no_file_is_made_and_removed_again(user: Path, opened: Home) -> None:
    """Where there was no settings folder, there is none in the end; what was made is private."""
    assert install(opened) == 2
    assert sorted(tree(user)) == [".claude", ".claude.json", ".claude/settings.json"]
    assert settings_file(user).stat().st_mode & 0o777 == 0o600
    assert uninstall(opened) == 2
    assert tree(user) == {}


def test_a_link_stays_a_link(user: Path, opened: Home) -> None:
    """Settings kept elsewhere are changed there."""
    real = user / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_bytes(FILES["tabs"])
    (user / ".claude").mkdir()
    settings_file(user).symlink_to("../dotfiles/claude.json")
    before = tree(user)
    install(opened)
    assert settings_file(user).is_symlink()
    assert b"hook.py" in real.read_bytes()
    uninstall(opened)
    assert tree(user) == before


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{\n  "a": 1,\n  "b" 2\n}', r"settings\.json line 3: wanted :, got '2'"),
        (b'{\n  "a": "\xff"\n}', r"settings\.json line 2: wanted UTF-8"),
        (b'{"a": 1,\n "hooks": []}', r"settings\.json line 2: hooks: wanted another kind of value"),
        (b'{"hooks":\n {"Stop": 3}}', r"settings\.json line 2: hooks\.Stop: wanted another kind of value"),
        (b"[1]", r"settings\.json line 1: the file: wanted another kind of value"),
    ],
)
def test_a_broken_file_is_refused_with_the_line(user: Path, opened: Home, data: bytes, said: str) -> None:
    """Nothing is written anywhere then, not even into the sound files."""
    settings_file(user, data)
    before = tree(user)
    with pytest.raises(InputError, match=said):
        install(opened)
    assert tree(user) == before


def test_a_read_only_file_is_told(user: Path, opened: Home) -> None:
    """Its owner meant it: it is not replaced, though a rename would pass."""
    settings_file(user, b"{}").chmod(0o444)
    with pytest.raises(InputError, match=r"settings\.json: is read-only"):
        install(opened)
    assert settings_file(user).read_bytes() == b"{}"
    settings_file(user).unlink()
    settings_file(user).mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        install(opened)


def test_only_our_entries_leave_a_file_that_was_changed(user: Path, opened: Home) -> None:
    """Whatever somebody added since stays byte for byte, also inside of containers that we made."""
    path = settings_file(user, b'{\n  "model": "opus"\n}\n')
    install(opened)
    text = path.read_text(encoding="utf-8")
    text = text.replace('"model": "opus"', '"model":   "haiku" /* cheap */')
    text = text.replace('"Stop": [', '"Stop": [ {"hooks": [{"type": "command", "command": "beep"}]},')
    path.write_text(text, encoding="utf-8")
    state = user / ".claude.json"
    state.write_text(
        state.read_text(encoding="utf-8").replace("{", '{"numStartups": 3,', 1), encoding="utf-8"
    )
    assert install(opened) == 0
    assert uninstall(opened) == 2
    wanted = (
        '{\n  "model":   "haiku" /* cheap */,\n  "hooks": {\n    "Stop": '
        '[ {"hooks": [{"type": "command", "command": "beep"}]}\n    ]\n  }\n}\n'
    )
    assert path.read_text(encoding="utf-8") == wanted
    assert json.loads(state.read_bytes()) == {"numStartups": 3}


def test_a_handler_of_somebody_else_in_our_group_stays(user: Path, opened: Home) -> None:
    """Only the handler goes, and its group with it when nothing else is in it."""
    path = settings_file(user, b"{}")
    install(opened)
    text = path.read_text(encoding="utf-8")
    at = text.index('"hooks": [')
    path.write_text(
        f'{text[:at]}"hooks": [{{"type": "command", "command": "beep"}}, {text[at + 10 :]}', encoding="utf-8"
    )
    uninstall(opened)
    assert handlers(path.read_bytes()) == {"SessionStart": [{"type": "command", "command": "beep"}]}


def test_what_another_version_wrote_is_brought_up_to_date(
    user: Path, opened: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another interpreter, another place: the same number of entries, the new command, and the way back is the same."""
    path = settings_file(user, FILES["others"])
    before = tree(user)
    with monkeypatch.context() as older:
        old = [
            "/old/python3",
            "-I",
            "-S",
            "/old/surface/hook.py",
            "--home",
            str(opened.root),
            "--agent",
            "claude-code",
        ]
        older.setattr("headwater.surface.install_places.hook_command", lambda *_: old)
        install(opened)
    assert install(opened) == 1
    commands = [one["command"] for all_of in handlers(path.read_bytes()).values() for one in all_of]
    assert len(commands) == 13
    assert "/old/python3" not in " ".join(commands)
    uninstall(opened)
    assert tree(user) == before


def test_entries_made_by_hand_are_ours_too(user: Path, opened: Home) -> None:
    """A hook that somebody wired by hand is not doubled, and leaves with the others; so is one without a record."""
    command = shlex.join(installing_command(opened))
    by_hand = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command, "timeout": 5}]}]}}
    path = settings_file(user, json.dumps(by_hand).encode())
    install(opened)
    assert len(handlers(path.read_bytes())["Stop"]) == 1
    shutil.rmtree(Record(opened).folder)
    assert install(opened) == 0
    uninstall(opened)
    assert path.read_bytes() == b"{}"
    install(opened)
    shutil.rmtree(Record(opened).folder)
    assert uninstall(opened) == 2
    assert json.loads(path.read_bytes()) == {}


def installing_command(opened: Home) -> list[str]:
    """Return the hook's command of a home."""
    (place,) = [
        one for one in places(opened, "claude-code", "user", Path("/")) if isinstance(one.part, Hooks)
    ]
    assert isinstance(place.part, Hooks)
    return list(place.part.command)


def test_the_written_line_runs_as_a_shell_runs_it(user: Path, opened: Home) -> None:
    """Quotes, spaces and foreign letters in the path: the event is in that home."""
    install(opened)
    line = handlers(settings_file(user).read_bytes())["SessionEnd"][0]
    assert line["timeout"] == install_text.Raw("1")
    payload = json.dumps({"session_id": "s", "cwd": "/", "hook_event_name": "SessionEnd", "reason": "other"})
    done = subprocess.run(
        line["command"], shell=True, input=payload, text=True, capture_output=True, check=False, env={}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (opened.journal / "claude-code-s.jsonl").exists()


def test_scopes_and_agents_go_one_by_one(user: Path, opened: Home) -> None:
    """All four places at once; taking one out leaves the others as they were, and all of them leave nothing."""
    folder = user / "repo"
    (folder / ".git" / "info").mkdir(parents=True)
    (folder / ".git" / "info" / "exclude").write_bytes(b"*.log")
    (user / ".codex").mkdir()
    (user / ".codex" / "config.toml").write_bytes(b'model = "x"\r\n[mcp_servers.github]\r\nurl = "u"')
    (user / ".claude.json").write_bytes(b'{\n  "projects": {\n    "/other": {"mcpServers": {}}\n  }\n}')
    before = tree(user)
    assert install(opened, folder=folder) == 2
    user_only = tree(user)
    assert install(opened, scope="local", folder=folder) == 3
    assert install(opened, scope="project", folder=folder) == 2
    assert install(opened, agent="codex", folder=folder) == 2
    assert install(opened, agent="codex", scope="project", folder=folder) == 2
    assert (folder / ".git" / "info" / "exclude").read_bytes() == b"*.log\n/.claude/settings.local.json\n"
    state = json.loads((user / ".claude.json").read_bytes())
    assert state["projects"][str(folder)]["mcpServers"] == state["mcpServers"]
    assert uninstall(opened, folder, agent="codex") == 4
    assert uninstall(opened, folder, scope="local") == 3
    assert uninstall(opened, folder, scope="project") == 2
    assert tree(user) == user_only
    assert uninstall(opened, folder) == 2
    assert tree(user) == before


def test_codex_has_its_own_files(user: Path, opened: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks in hooks.json, the server as a table in config.toml, in the folder that CODEX_HOME names."""
    monkeypatch.setenv("CODEX_HOME", str(user / "cx"))
    install(opened, agent="codex")
    found = handlers((user / "cx" / "hooks.json").read_bytes())
    assert set(found) == set(EVENTS["codex"])
    assert found["Stop"][0]["command"].endswith("--agent codex")
    text = (user / "cx" / "config.toml").read_text(encoding="utf-8")
    args = json.dumps(["mcp", "--home", str(opened.root)], ensure_ascii=False)
    assert text == f'[mcp_servers.headwater]\ncommand = "{program()}"\nargs = {args}\n'
    with pytest.raises(InputError, match="wanted user or project"):
        plan_install(opened, "codex", "local", user)


def test_another_folder_of_claude_code_has_everything(
    user: Path, opened: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With CLAUDE_CONFIG_DIR nothing is written anywhere else."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(user / "cc"))
    install(opened)
    assert sorted(tree(user)) == ["cc", "cc/.claude.json", "cc/settings.json"]


def test_two_homes_do_not_mix(user: Path, opened: Home) -> None:
    """Each has its own entries in one file, and takes away only these."""
    path = settings_file(user, b'{"a": 1}')
    other = Home.open(user / "head water too")
    install(opened)
    one = path.read_bytes()
    changes = [change for change in plan_install(other, "claude-code", "user", user) if change.path == path]
    apply(other, changes)
    assert {len(found) for found in handlers(path.read_bytes()).values()} == {2}
    apply(other, [change for change in plan_uninstall(other, lambda _: True, user) if change.path == path])
    assert path.read_bytes() == one


def test_a_diff_shows_no_secret_and_no_endless_line(user: Path, opened: Home) -> None:
    """What stands around our entries may be anybody's."""
    settings_file(
        user, b'{"token": "ghp_' + b"a1B2" * 9 + b'", "x": "' + b"y" * 2 * limits.DIFF_LINE_CHARS + b'"}'
    )
    (change, _) = plan_install(opened, "claude-code", "user", user)
    said = diff_text(change)
    assert "ghp_" not in said
    assert "[redacted:github]" in said
    assert max(map(len, said.splitlines())) == limits.DIFF_LINE_CHARS + 1
    assert said.startswith("--- ~/.claude/settings.json\n+++ ~/.claude/settings.json\n@@")


def test_a_file_that_changes_meanwhile_is_not_overwritten(user: Path, opened: Home) -> None:
    """Between looking and writing."""
    path = settings_file(user, b"{}")
    changes = plan_install(opened, "claude-code", "user", user)
    path.write_bytes(b'{"new": 1}')
    with pytest.raises(InputError, match="changed it just now"):
        apply(opened, changes)
    assert path.read_bytes() == b'{"new": 1}'


def test_an_install_that_was_cut_off_is_finished_by_the_next(
    user: Path, opened: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record stands before the file does; then the file is as before, or as after."""
    path = settings_file(user, b'{"a": 1}')
    before = tree(user)
    with monkeypatch.context() as broken:
        broken.setattr(installing, "_write", _refuse)
        with pytest.raises(HomeError):
            install(opened)
    assert tree(user) == before
    assert install(opened) == 2
    assert path.read_bytes() != b'{"a": 1}'
    uninstall(opened)
    assert tree(user) == before


def _refuse(*_: object) -> None:
    raise HomeError("settings.json", "no space left", "free some")


def test_without_the_former_bytes_the_entries_are_cut_out(user: Path, opened: Home) -> None:
    """Somebody cleaned up in the home: nothing of ours stays all the same."""
    path = settings_file(user, b'{\n  "model": "opus"\n}\n')
    install(opened)
    for kept in Record(opened).folder.glob("*.before"):
        kept.unlink()
    assert uninstall(opened) == 2
    assert path.read_bytes() == b'{\n  "model": "opus"\n}\n'


def test_a_record_that_is_not_ours_is_told(opened: Home) -> None:
    """With the way on: without it, entries are found by what they call."""
    Record(opened).folder.mkdir()
    Record(opened).path.write_text("{", encoding="utf-8")
    with pytest.raises(HomeError, match="wanted the record of an install"):
        Record.load(opened)


def call(*words: str) -> Result:
    """Run a verb in this process."""
    return CliRunner().invoke(cli, words)


def test_the_verbs_say_what_they_do(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dry runs write nothing; then the diff, what to do next, and the end of it."""
    monkeypatch.chdir(user)
    settings_file(user, b"{}")
    before = tree(user)
    dry = call("install", "--dry-run")
    assert dry.output.endswith("nothing was written: --dry-run\n")
    assert tree(user) == before
    assert not (user / "head water").exists()
    done = call("install")
    assert "~/.claude/settings.json: 11 hooks\n--- ~/.claude/settings.json\n" in done.output
    assert "a session of the agent starts the stream" in done.output
    assert (user / "head water" / "AUTOSTART").read_text(encoding="utf-8").splitlines()[0] == sys.executable
    assert call("install").output == "nothing to do: claude-code has everything already (user)\n"
    assert call("uninstall", "--agent", "codex").output.startswith("nothing to do")
    assert call("uninstall", "--dry-run").output.endswith("nothing was written: --dry-run\n")
    assert "uninstalled; events and memories stay" in call("uninstall").output
    assert tree(user) == before
    assert not (user / "head water" / "AUTOSTART").exists()
    shown = call("install", "--show-command").output
    assert shlex.split(shown)[1:3] == ["-I", "-S"]
    call("install", "--no-start")
    assert not (user / "head water" / "AUTOSTART").exists()


def test_the_server_is_the_installed_program(opened: Home) -> None:
    """By its absolute path, with the home."""
    assert mcp_command(opened)[1:] == ("mcp", "--home", str(opened.root))
    assert os.access(mcp_command(opened)[0], os.X_OK)
