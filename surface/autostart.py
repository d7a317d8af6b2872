"""Starting the stream from a hook: spawned apart, once, and only when `install` said so.

The file AUTOSTART in the home holds the words of the command, one a line. Standard library only: the hook loads this
module at the start of a session. Whoever starts the stream so holds `run/start.lock` and hands it on to it, so that it
is held from before the start to the end: two sessions that begin at once start one.
"""
# Paths are plain strings: importing pathlib takes longer than all that is done here.
# ruff: noqa: PTH117, PTH118, PTH123

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

NAME = "AUTOSTART"
START_LOCK = "start.lock"
UP_LOCK = "up.lock"  # of a running supervisor; mirrors storage/run_files.py
_LOG = "supervisor.log"
_BYTES = 16 * 1024  # of the file: a command is a few hundred
_HANDLES = 256  # that an agent may have left open for us: its pipes must not stay open for as long as the stream runs
# Of an agent's environment, which may hold tokens of its own, the stream needs where things are and what language.
_KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_KEPT_STARTS = ("LC_", "XDG_", "HEADWATER_", "HF_")


def words_of(home: str) -> "list[str]":
    """Return the command that starts the stream; none when a session is not to start it. Raises OSError."""
    try:
        with open(os.path.join(home, NAME), encoding="utf-8") as file:
            return file.read(_BYTES).split("\n")[:-1]
    except FileNotFoundError:
        return []


def start(home: str, env: "Mapping[str, str]") -> bool:
    """Start the stream when it is wanted and not up; return whether this call did.

    Takes a fork, waits for nothing, and leaves nothing open. Raises OSError.
    """
    words = words_of(home)
    if not words or not os.path.isabs(words[0]):
        return False
    run = os.path.join(home, "run")
    lock = _take(os.path.join(run, START_LOCK))
    if lock is None:
        return False
    try:
        if _is_held(os.path.join(run, UP_LOCK)):  # started by hand
            return False
        kept = {name: env[name] for name in env if name in _KEPT or name.startswith(_KEPT_STARTS)}
        if os.fork() == 0:
            _become(home, words, kept, lock)
        return True
    finally:
        os.close(lock)  # the child has its own


def _take(path: str) -> "int | None":
    """Lock a file and return its handle, None when somebody holds it."""
    import fcntl  # only sessions that start need it

    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _is_held(path: str) -> bool:
    import fcntl  # see _take

    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _become(home: str, words: "list[str]", env: "dict[str, str]", lock: int) -> "NoReturn":
    """Turn this process, a copy of the hook, into the stream: without terminal, folder, or files of the agent."""
    try:
        os.setsid()
        os.chdir(home)
        os.set_inheritable(lock, True)
        nothing = os.open(os.devnull, os.O_RDWR)
        log = os.open(os.path.join(home, "logs", _LOG), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for number, handle in ((0, nothing), (1, log), (2, log)):
            os.dup2(handle, number)
        os.closerange(3, lock)
        os.closerange(lock + 1, _HANDLES)
        os.execve(words[0], words, env)  # noqa: S606 - the command that `install` wrote
    finally:
        os._exit(127)
