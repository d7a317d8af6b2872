"""What the doctor says of the way from agents to the home: each thing that goes wrong with settings, and its fix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from installed import install, settings_file, uninstall

from headwater.storage.home import Home
from headwater.surface import autostart
from headwater.surface.connection import connection
from headwater.surface.install import set_autostart


def said(opened: Home) -> list[tuple[str, str, str]]:
    """Return level, finding and fix of every check."""
    found = list(connection(opened))
    assert {check.name for check in found} == {"install"}
    return [(check.level, check.said, check.fix) for check in found]


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text in a file, as somebody with an editor does."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_without_an_install_it_is_told(user: Path, opened: Home) -> None:
    """And with one, where the hooks are; an install of Codex alone is one too."""
    assert said(opened) == [("warn", "no agent has hooks of this home", "run: headwater install")]
    install(opened)
    assert said(opened) == [("ok", "hooks in ~/.claude/settings.json", "")]
    install(opened, agent="codex")
    uninstall(opened, agent="claude-code")
    assert said(opened) == [("ok", "hooks in ~/.codex/hooks.json", "")]


def _plugin(user: Path) -> None:
    edit(settings_file(user), '"model"', '"enabledPlugins": {"headwater@headwater": true}, "model"')


def _all_off(user: Path) -> None:
    edit(settings_file(user), '"model"', '"disableAllHooks": true, "model"')


def _broken(user: Path) -> None:
    edit(settings_file(user), '"model":', '"model"')


def _fewer(user: Path) -> None:
    kept = json.loads(settings_file(user).read_bytes())
    del kept["hooks"]["StopFailure"]
    settings_file(user).write_text(json.dumps(kept), encoding="utf-8")


def _interpreter(user: Path) -> None:
    edit(settings_file(user), " -I -S ", ".gone -I -S ")


def _no_hooks(user: Path) -> None:
    settings_file(user).write_text("{}", encoding="utf-8")


def _no_server(user: Path) -> None:
    (user / ".claude.json").write_text("{}", encoding="utf-8")


def _server_gone(user: Path) -> None:
    edit(user / ".claude.json", '/headwater",', '/gone/headwater",')


def _start_gone(user: Path) -> None:
    (user / "head water" / autostart.NAME).write_text("/gone/python\n-c\n", encoding="utf-8")


AGAIN = "run: headwater install --agent claude-code"


@pytest.mark.parametrize(
    ("spoil", "level", "what", "fix"),
    [
        (
            _plugin,
            "warn",
            "has the plugin and ~/.claude/settings.json the hooks",
            "run: headwater uninstall --agent",
        ),
        (_all_off, "warn", "~/.claude/settings.json switches all hooks off", "remove disableAllHooks there"),
        (_broken, "warn", "settings.json line 2: wanted :", "correct that line"),
        (_fewer, "warn", "has hooks for 10 of 11 events", AGAIN),
        (_interpreter, "bad", ".gone, which is gone", AGAIN),
        (_no_hooks, "warn", "11 hooks went from ~/.claude/settings.json", AGAIN),
        (_no_server, "warn", "the MCP server went from ~/.claude.json", AGAIN),
        (_server_gone, "bad", "the MCP server in ~/.claude.json is", "run: headwater install"),
        (_start_gone, "bad", "start the stream with /gone/python, which is gone", "run: headwater install"),
    ],
)
def test_what_goes_wrong_with_settings_is_told(  # noqa: PLR0917 - a table's columns
    user: Path, opened: Home, spoil: Callable[[Path], None], level: str, what: str, fix: str
) -> None:
    """What it is, in which file, and what to do."""
    settings_file(user, b'{\n  "model": "opus"\n}\n')
    install(opened)
    set_autostart(opened, on=True)
    assert [one[0] for one in said(opened)] == ["ok"]
    spoil(user)
    first = said(opened)[0]
    assert first[0] == level
    assert what in first[1]
    assert first[2].startswith(fix)
    if spoil not in (_broken, _plugin, _all_off):
        install(opened)
        set_autostart(opened, on=True)
        assert [one[0] for one in said(opened)] == ["ok"]


def test_hooks_of_another_version_are_told(user: Path, opened: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """They work, but they are not this program's."""
    old = user / "old" / "surface" / "hook.py"
    old.parent.mkdir(parents=True)
    old.touch()
    words = ["/bin/sh", "-I", "-S", str(old), "--home", str(opened.root), "--agent", "claude-code"]
    with monkeypatch.context() as older:
        older.setattr("headwater.surface.install_places.hook_command", lambda *_: words)
        install(opened)
    assert said(opened)[0] == ("warn", f"~/.claude/settings.json has hooks of another version: {old}", AGAIN)
    install(opened)
    assert said(opened)[0][0] == "ok"


def test_hooks_of_another_home_are_told(user: Path, opened: Home) -> None:
    """Events go to both: that may be meant."""
    other = Home.open(user / "second")
    install(opened)
    install(other)
    told = [what for _, what, _ in said(opened)]
    assert told == [
        f"~/.claude/settings.json has hooks of another home too: {other.root}",
        "the MCP server went from ~/.claude.json",
    ]
    uninstall(opened)
    assert [what for _, what, _ in said(other)] == ["hooks in ~/.claude/settings.json"]


def test_the_plugin_alone_is_enough(user: Path, opened: Home) -> None:
    """It is seen in the settings that switch it on."""
    settings_file(user, b'{"enabledPlugins": {"headwater@headwater": true}}')
    assert said(opened) == [("ok", "hooks in ~/.claude/settings.json", "")]


def test_a_scope_is_named_in_the_fix(user: Path, opened: Home) -> None:
    """What was installed for one folder is looked at from everywhere."""
    folder = user / "repo"
    folder.mkdir()
    install(opened, scope="project", folder=folder)
    (folder / ".claude" / "settings.json").write_text("{}", encoding="utf-8")
    fixes = [fix for _, _, fix in said(opened)]
    assert f"{AGAIN} --scope project" in fixes
