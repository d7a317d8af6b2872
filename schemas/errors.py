"""The error tree. Every message says where, what was wanted, what came, and the fix.

Transient errors may pass when tried again (a lock, a full disk, a busy store); terminal ones will not without a change.
Foreign exceptions are mapped to these in `storage/`; the command line prints one line of them and no traceback.
"""

from __future__ import annotations


class HeadwaterError(Exception):
    """Base of all our errors.

    `where` names the place (file, table, setting), `problem` what was wanted and what came, `fix` the next step.
    """

    def __init__(self, where: str, problem: str, fix: str) -> None:
        """Keep the three parts; `str()` joins them into one line."""
        super().__init__(where, problem, fix)
        self.where = where
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        """One line: `where: problem. Fix: fix`."""
        return " ".join(f"{self.where}: {self.problem}. Fix: {self.fix}".split())


class TransientError(HeadwaterError):
    """May succeed when tried again without any change."""


class TerminalError(HeadwaterError):
    """Will fail again until somebody changes something."""


class BusyError(TransientError):
    """Another process holds what we need (an instance lock, a worker lock)."""


class StoreError(TransientError):
    """A store could not be read or written: disk full, file handles gone, a commit conflict."""


class DamagedError(TerminalError):
    """A store can be opened but what it holds is not what it should hold; it has to be rebuilt."""


class HomeError(TerminalError):
    """The Headwater home cannot be used: missing, read-only, or of another format version."""


class ConfigError(TerminalError):
    """A setting has a value that cannot be used."""


class ModelError(TerminalError):
    """An embedding model cannot be found, or its files are not what was pinned."""


class InputError(TerminalError):
    """What the caller gave cannot be used: a path, an id, an option."""


class TransitionError(TerminalError):
    """A job was asked to make a move that its state does not allow."""
