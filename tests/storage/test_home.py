from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.schemas import limits
from headwater.schemas.errors import ConfigError, HomeError
from headwater.storage.home import FORMAT_VERSION, Current, Home, replace_file
from headwater.surface import failures
from headwater.surface.hook import home_from_env


def mode(path: Path) -> int:
    """Return the permission bits of a path."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_home_is_made_private(tmp_path: Path) -> None:
    """Every folder is there and open to its owner alone, the format is written, and opening again changes nothing."""
    home = Home.open(tmp_path / "h")
    folders = (
        home.root,
        home.journal,
        home.archive,
        home.root / "lance",
        home.root / "recovery",
        home.logs,
        home.run,
    )
    assert [mode(folder) for folder in folders] == [0o700] * len(folders)
    assert home.format_file.read_text() == f"{FORMAT_VERSION}\n"
    before = {path: path.stat().st_mtime_ns for path in home.root.rglob("*")}
    assert Home.open(home.root) == home
    assert {path: path.stat().st_mtime_ns for path in home.root.rglob("*")} == before


def test_the_hooks_counter_is_allocated_once(tmp_path: Path) -> None:
    """The hook's counter has its bytes from the start, and what it counted is not lost."""
    home = Home.open(tmp_path / "h")
    assert failures.read_failures(str(home.root)) == 0
    assert Path(failures.failures_path(str(home.root))).stat().st_size == 8
    failures.count_failure(str(home.root))
    Home.open(home.root)
    assert failures.read_failures(str(home.root)) == 1


def test_an_empty_folder_is_made_private(tmp_path: Path) -> None:
    """A folder that somebody made for us is closed to others; one that holds other things keeps its mode."""
    for name in ("empty", "full"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o755)
    (tmp_path / "full" / "other.txt").touch()
    assert mode(Home.open(tmp_path / "empty").root) == 0o700
    assert mode(Home.open(tmp_path / "full").root) == 0o755
    assert mode(Home.open(tmp_path / "full").journal) == 0o700


def test_a_home_from_the_hook_is_taken_over(tmp_path: Path) -> None:
    """The hook may have been first: its journal stays, the rest is made."""
    (tmp_path / "h" / "journal").mkdir(parents=True)
    (tmp_path / "h" / "journal" / "a.jsonl").write_text("{}\n")
    home = Home.open(tmp_path / "h", create=False)
    assert not home.format_file.exists()
    home = Home.open(tmp_path / "h")
    assert (home.journal / "a.jsonl").read_text() == "{}\n"
    assert home.format_file.exists()


def test_a_missing_home_is_not_made_by_a_reader(tmp_path: Path) -> None:
    """Who only reads gets an error with the fix, and nothing appears."""
    with pytest.raises(HomeError, match="Fix: run: headwater up"):
        Home.open(tmp_path / "h", create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{FORMAT_VERSION + 1}\n", "Fix: update headwater"),
        (f"{FORMAT_VERSION - 1}\n", "Fix: run: headwater migrate"),
        ("one\n", f"Fix: write {FORMAT_VERSION} into it"),
        ("", f"Fix: write {FORMAT_VERSION} into it"),
        ("١\n", f"Fix: write {FORMAT_VERSION} into it"),
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_another_format_is_refused_untouched(tmp_path: Path, text: str, said: str, *, create: bool) -> None:
    """A home of a newer or older format, or without a sense, is refused before anything in it changes."""
    root = tmp_path / "h"
    root.mkdir()
    (root / "FORMAT_VERSION").write_text(text, encoding="utf-8")
    with pytest.raises(HomeError, match=said):
        Home.open(root, create=create)
    assert [path.name for path in root.iterdir()] == ["FORMAT_VERSION"]
    assert (root / "FORMAT_VERSION").read_text(encoding="utf-8") == text


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    """A path below a file, or with a NUL, is our error with the fix."""
    (tmp_path / "file").touch()
    for root in (tmp_path / "file" / "h", tmp_path / "file", tmp_path / "a\0b"):
        with pytest.raises(HomeError, match="Fix: "):
            Home.open(root)
        with pytest.raises(HomeError, match="Fix: "):
            Home.open(root, create=False)
    with pytest.raises(HomeError, match="set HEADWATER_HOME to a writable folder"):
        Home.open(tmp_path / "file" / "h")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere, whatever the mode")
def test_a_read_only_folder_is_told(tmp_path: Path) -> None:
    """A folder we may not write into is our error with the fix."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(HomeError, match="set HEADWATER_HOME to a writable folder"):
            Home.open(tmp_path / "h")
    finally:
        tmp_path.chmod(0o700)


def test_current_is_switched_in_one_go(tmp_path: Path) -> None:
    """Before any switch the first generation is current; a switch moves tables and snapshots, not the vectors."""
    home = Home.open(tmp_path / "h")
    assert home.current() == Current("gen-1", None)
    home.set_current(Current("gen-2", "minilm-384-abc"))
    assert Home(home.root).current() == Current("gen-2", "minilm-384-abc")
    assert home.lance == home.root / "lance" / "gen-2"
    assert home.recovery == home.root / "recovery" / "gen-2"
    assert home.vectors == home.root / "lance" / "vectors"
    assert mode(home.current_file) == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"generation": "gen-1"}',
        '{"generation": null, "embedding_version": null}',
        '{"generation": "../gen-1", "embedding_version": null}',
        '{"generation": "", "embedding_version": null}',
        '{"generation": "vectors", "embedding_version": null}',
        '{"generation": "gen-1", "embedding_version": 5}',
        "[" * 100_000,
    ],
)
def test_damaged_current_is_told(tmp_path: Path, text: str) -> None:
    """A file that does not name what is current is an error with the way back, never a guess."""
    home = Home.open(tmp_path / "h")
    home.current_file.write_text(text)
    with pytest.raises(HomeError, match="Fix: delete it to go back to gen-1, or restore a backup"):
        home.current()
    home.current_file.write_bytes(b"\xff\xfe")
    with pytest.raises(HomeError):
        _ = home.lance


@pytest.mark.parametrize("name", ["with space", "홈 디렉터리", "家-ホーム", "q'u\"o&te", "émile"])
def test_names_of_all_kinds(tmp_path: Path, name: str) -> None:
    """Spaces, quotes and other scripts in the path work."""
    home = Home.open(tmp_path / name / "h")
    home.set_current(Current("gen-3"))
    assert Home.open(home.root).current() == Current("gen-3")
    assert home.socket.name.endswith(".sock")


def test_a_long_path_has_a_short_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Unix socket's path is short: a deep home has its socket in a temp folder, the same by whichever path."""
    deep = Home(tmp_path / ("d" * 120) / "h")
    assert len(os.fsencode(deep.socket)) <= limits.SOCKET_PATH_BYTES
    assert deep.socket != Home(tmp_path / ("d" * 120) / "g").socket
    assert deep.socket.parent.name == f"headwater-{os.getuid()}"
    (tmp_path / ("d" * 120)).mkdir()
    (tmp_path / ("e" * 120)).symlink_to(tmp_path / ("d" * 120))
    assert Home(tmp_path / ("e" * 120) / "h").socket == deep.socket
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("t" * 120)))
    assert len(os.fsencode(deep.socket)) <= limits.SOCKET_PATH_BYTES
    short = Home(Path("/h"))
    assert short.socket == Path("/h/run/server.sock")


def test_where_the_home_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HEADWATER_HOME, else the user's data folder; the hook, which cannot ask us, says the same."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    for named in (
        "",
        "/a/b",
        "rel/ative",
        "~/mine",
        "~nobody-of-that-name/h",
        "/a/./b/../c",
        str(tmp_path / "한 글"),
    ):
        monkeypatch.setenv("HEADWATER_HOME", named)
        assert str(Home.default_root()) == home_from_env(os.environ)
    monkeypatch.setenv("HEADWATER_HOME", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert str(Home.default_root()) == home_from_env(os.environ)


def test_a_custom_home_leaves_the_users_folder_alone(tmp_path: Path) -> None:
    """With HEADWATER_HOME set, nothing is written below HOME."""
    (tmp_path / "user").mkdir()
    env = {**os.environ, "HOME": str(tmp_path / "user"), "HEADWATER_HOME": str(tmp_path / "h")}
    script = "from headwater.storage.home import Home; Home.open().config()"
    subprocess.run([sys.executable, "-c", script], env=env, check=True)
    assert list((tmp_path / "user").iterdir()) == []
    assert (tmp_path / "h" / "journal").is_dir()


def test_settings_of_a_home(tmp_path: Path) -> None:
    """A home's settings are those of its file."""
    home = Home.open(tmp_path / "h")
    assert home.config().mode == "session"
    home.config_file.write_text('mode = "endless"\n')
    assert home.config().mode == "endless"
    home.config_file.write_text("mode = 1\n")
    with pytest.raises(ConfigError, match="line 1, key mode"):
        home.config()


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    """When the new text cannot be written, the old one stays and nothing is left beside it."""
    path = tmp_path / "file"
    replace_file(path, b"old")
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from headwater.schemas.errors import HomeError\n"
        "from headwater.storage.home import replace_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: replace_file(Path(sys.argv[1]), b'x' * 5000)\n"
        "except HomeError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert "Fix: free disk space" in done.stdout
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]
    with pytest.raises(HomeError, match="cannot be written"):
        replace_file(tmp_path / "none" / "file", b"")
