"""The lock of the one worker that writes the vectors of an embedding version."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from headwater.schemas.errors import BusyError
from headwater.storage.locks import hold_lock, owner_pid
from headwater.storage.vectors import lock_name

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.storage.home import Home


def version_lock(home: Home, embedding_version: str) -> WorkerLock:
    """Return the lock of the one worker that writes a version's vectors, not taken."""
    return WorkerLock(home.run / lock_name(embedding_version), f"embedding {embedding_version}")


class WorkerLock:
    """Held by one worker at a time, over all processes and threads. The kernel lets go for one that dies.

    So neither a file that a dead worker left, nor another process with its number, keeps anybody out. Use one from one
    thread. Usable in a `with`, which raises BusyError when another worker holds it.
    """

    def __init__(self, path: Path, what: str = "vector worker") -> None:
        """Remember the lock file, and what to call the work; nothing is touched."""
        self._path = path
        self._what = what
        self._held = ExitStack()
        self.is_mine = False

    def acquire(self) -> bool:
        """Take it; False when any worker holds it, through this object or another. Raises StoreError."""
        if self.is_mine:
            return False
        try:
            self._held.enter_context(hold_lock(self._path, self._what))
        except BusyError:
            return False
        self.is_mine = True
        return True

    def release(self) -> None:
        """Let it go; nothing when it is not held through this object."""
        self.is_mine = False
        self._held.close()

    def owner(self) -> int | None:
        """Return the process that holds it, None when nobody does. Raises StoreError."""
        return owner_pid(self._path)

    def __enter__(self) -> Self:
        """Take it or raise BusyError."""
        if not self.acquire():
            raise BusyError(
                self._what,
                f"another worker is running (process {self.owner() or 'unknown'})",
                "let it work, or stop it: headwater down",
            )
        return self

    def __exit__(self, *error: object) -> None:
        """Let it go."""
        self.release()
