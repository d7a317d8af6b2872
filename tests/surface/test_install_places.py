"""Where agents read their settings: files of a user, of a repository, of another folder than the usual one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from installed import handlers, install, tree, uninstall

from headwater.schemas.errors import InputError
from headwater.storage.home import Home
from headwater.surface.install import plan_install
from headwater.surface.install_parts import EVENTS
from headwater.surface.install_places import mcp_command, program


def test_a_folder_of_a_repository_stands_for_its_root(user: Path, opened: Home) -> None:
    """Agents that are started anywhere in it read the settings of the root, and name the project by it."""
    below = user / "repo" / "a" / "b"
    below.mkdir(parents=True)
    (user / "repo" / ".git").mkdir()
    assert install(opened, scope="local", folder=below) == 2
    assert (user / "repo" / ".claude" / "settings.local.json").exists()
    assert [*json.loads((user / ".claude.json").read_bytes())["projects"]] == [str((user / "repo").resolve())]


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


def test_the_server_is_the_installed_program(opened: Home) -> None:
    """By its absolute path, with the home."""
    assert mcp_command(opened)[1:] == ("mcp", "--home", str(opened.root))
    assert os.access(mcp_command(opened)[0], os.X_OK)


def test_private_settings_never_show_in_git_status(user: Path, opened: Home) -> None:
    """Neither in a repository nor in a work tree of it; without them git's own list is as it was."""

    def git(*words: str, cwd: Path) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.com")
        done = subprocess.run(["git", *who, *words], cwd=cwd, capture_output=True, text=True, check=True)
        return done.stdout

    repository, tree_of_it = user / "repo", user / "tree"
    repository.mkdir()
    git("init", "-q", cwd=repository)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=repository)
    git("worktree", "add", "-q", str(tree_of_it), cwd=repository)
    exclude = (repository / ".git" / "info" / "exclude").read_bytes()
    for folder in (repository, tree_of_it):
        install(opened, scope="local", folder=folder)
        assert (folder / ".claude" / "settings.local.json").exists()
        assert git("status", "--porcelain", cwd=folder) == ""
        assert [*json.loads((user / ".claude.json").read_bytes())["projects"]] == [str(repository.resolve())]
    uninstall(opened)
    assert (repository / ".git" / "info" / "exclude").read_bytes() == exclude
    assert git("status", "--porcelain", "--ignored", cwd=repository) == ""
