"""The home: every path from one root, its format version, and the one file that says which tables are current."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_data_dir

from headwater.schemas import config as config_module
from headwater.schemas import limits
from headwater.schemas.errors import HomeError
from headwater.schemas.ids import digest
from headwater.storage.locks import wait_for_lock

if TYPE_CHECKING:
    from headwater.schemas.config import Config

FORMAT_VERSION = 1
FIRST_GENERATION = "gen-1"
_GENERATION = re.compile(r"gen-[0-9A-Za-z_-]+")
_FAILURES_FILE = "hook_failures"
_CURRENT_LOCK = "current.lock"
_FOLDERS = ("journal", "archive", "lance", "recovery", "logs", "run")


@dataclass(frozen=True, slots=True)
class Current:
    """What is current: the generation of derived tables, and the embedding version that answers (None: none yet).

    `model`: the name of the model that makes it; `configured`: what `embedding.model` said when it became current.
    """

    generation: str = FIRST_GENERATION
    embedding_version: str | None = None
    model: str | None = None
    configured: str | None = None


@dataclass(frozen=True, slots=True)
class Home:
    """Paths of one home. Making one touches nothing; `open` does.

    `generation`: whose tables, register and snapshots the paths lead to; None: those of the current one.
    """

    root: Path
    generation: str | None = None

    @classmethod
    def open(cls, root: Path | None = None, *, create: bool = True) -> Home:
        """Return the home at `root`, else at HEADWATER_HOME, else in the platform's user data folder.

        Creates what is missing (0700) unless `create` is false. Idempotent. Raises HomeError when it is missing and
        not to be created, cannot be written, or has another format version: then nothing in it was touched.
        """
        home = cls(cls.default_root() if root is None else _absolute(root))
        if not create and not os.path.isdir(home.root):  # noqa: PTH112 - a folder we may not look into is none as well
            raise HomeError(f"home {home.root}", "wanted an existing folder, found none", "run: headwater up")
        is_marked = home._check_format()
        if create:
            home._create()
            if not is_marked:
                replace_file(home.format_file, f"{FORMAT_VERSION}\n".encode())
        return home

    @staticmethod
    def default_root() -> Path:
        """Return HEADWATER_HOME, else the platform's user data folder."""
        named = os.environ.get("HEADWATER_HOME")
        return _absolute(named or user_data_dir("headwater", appauthor=False))

    def at(self, generation: str) -> Home:
        """Return this home with the paths of one generation, whichever is current. Raises ValueError for no name."""
        return Home(self.root, _current(generation).generation)

    def pinned(self) -> Home:
        """Return this home with the paths of its present generation, also after a switch."""
        return self.at(self._generation_name())

    @property
    def config_file(self) -> Path:
        """Settings of a person."""
        return self.root / "config.toml"

    @property
    def format_file(self) -> Path:
        """Format version of everything here."""
        return self.root / "FORMAT_VERSION"

    @property
    def current_file(self) -> Path:
        """Generation and embedding version in use."""
        return self.root / "CURRENT"

    @property
    def journal(self) -> Path:
        """Folder of journal files: flat, one file per agent and session."""
        return self.root / "journal"

    @property
    def archive(self) -> Path:
        """Folder of sealed journal lines and exported days."""
        return self.root / "archive"

    @property
    def lance(self) -> Path:
        """Tables of the generation."""
        return self.root / "lance" / self._generation_name()

    @property
    def vectors(self) -> Path:
        """Vector tables of all embedding versions."""
        return self.root / "lance" / "vectors"

    @property
    def recovery(self) -> Path:
        """Bytewax snapshots of the generation; disposable."""
        return self.root / "recovery" / self._generation_name()

    @property
    def outbox_file(self) -> Path:
        """Vector jobs; disposable."""
        return self.root / "outbox.sqlite"

    @property
    def ids_file(self) -> Path:
        """Known ids and the fate of each line of the generation; disposable."""
        name = self._generation_name()
        return self.root / ("ids.sqlite" if name == FIRST_GENERATION else f"ids.{name}.sqlite")

    @property
    def usage_file(self) -> Path:
        """Access and use counts."""
        return self.root / "usage.sqlite"

    @property
    def llm_file(self) -> Path:
        """Summaries in a language model's words; disposable."""
        return self.root / "llm.sqlite"

    @property
    def quarantine_file(self) -> Path:
        """Lines that could not be used."""
        return self.root / "quarantine.jsonl"

    @property
    def migrations_file(self) -> Path:
        """Which migrations this home went through."""
        return self.root / "migrations.jsonl"

    @property
    def logs(self) -> Path:
        """Logs of the processes."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """Locks, process files, the socket, the hook's failure counter."""
        return self.root / "run"

    @property
    def socket(self) -> Path:
        """The server's socket: in `run`, or in a private folder of a temp folder when that path is too long for one."""
        path = self.run / "server.sock"
        for temp in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - the folder below it is ours alone
            if len(os.fsencode(path)) <= limits.SOCKET_PATH_BYTES:
                return path
            path = Path(temp) / f"headwater-{os.getuid()}" / f"{config_hash(self.root)}.sock"
        return path

    def config(self) -> Config:
        """Return the settings of this home; raises ConfigError."""
        return config_module.load(self.config_file)

    def current(self) -> Current:
        """Return what is current; the first generation when nothing was ever switched.

        Raises HomeError when the file is not what we wrote.
        """
        try:
            data = json.loads(self.current_file.read_text(encoding="utf-8"))
            return _current(
                data["generation"], data["embedding_version"], data.get("model"), data.get("configured")
            )
        except FileNotFoundError:
            return Current()
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            fix = f"delete it to go back to {FIRST_GENERATION}, or restore a backup"
            raise HomeError(
                str(self.current_file), f"wanted generation and embedding version, got {error!r}", fix
            ) from error

    def set_current(self, current: Current) -> None:
        """Switch generation and embedding version: one rename, durable when it returns."""
        replace_file(self.current_file, json.dumps(asdict(current)).encode())

    def change_current(self, **changes: str | None) -> Current:
        """Switch some of what is current and keep the rest, whoever else switches meanwhile; return what is current."""
        with wait_for_lock(self.run / _CURRENT_LOCK, "CURRENT", limits.CURRENT_WAIT_S):
            current = replace(self.current(), **changes)  # type: ignore[arg-type]
            self.set_current(current)
        return current

    def _generation_name(self) -> str:
        return self.generation or self.current().generation

    def _create(self) -> None:
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._close_to_others()
            for name in _FOLDERS:
                (self.root / name).mkdir(mode=0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError), (self.run / _FAILURES_FILE).open("xb") as file:
                file.write(bytes(8))
        except (OSError, ValueError) as error:
            raise HomeError(
                f"home {self.root}",
                f"wanted a folder we can write, got: {error}",
                "set HEADWATER_HOME to a writable folder",
            ) from error

    def _close_to_others(self) -> None:
        """Make a folder private that somebody made for us; one that holds anything else keeps its mode."""
        found = self.root.stat()
        is_open = found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) & 0o077
        if is_open and (self.format_file.exists() or not any(self.root.iterdir())):
            self.root.chmod(0o700)

    def format_version(self) -> int | None:
        """Return the format version that the home says, None when it says none. Raises HomeError."""
        try:
            return int(self.format_file.read_text(encoding="ascii"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise HomeError(
                str(self.format_file), f"cannot be read: {error}", "check the home's permissions"
            ) from error
        except ValueError as error:
            raise HomeError(
                str(self.format_file), f"wanted a number, got {error}", f"write {FORMAT_VERSION} into it"
            ) from error

    def _check_format(self) -> bool:
        """Return whether the home says its format; raises HomeError when it is not ours."""
        found = self.format_version()
        if found is not None and found != FORMAT_VERSION:
            fix = "update headwater" if found > FORMAT_VERSION else "run: headwater migrate"
            raise HomeError(str(self.format_file), f"wanted format {FORMAT_VERSION}, found {found}", fix)
        return found is not None


def config_hash(root: Path) -> str:
    """Return 12 characters that stand for a home's folder, by whichever path it is named."""
    return digest("home", os.path.realpath(root))


def _absolute(path: Path | str) -> Path:
    """Return the path from the root of the file system, without `~`, `.` and `..`, as the hook names it."""
    return Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111 - pathlib keeps `..`, and raises for `~nobody`


def _current(generation: object, version: object = None, *names: object) -> Current:
    """Return what a file says is current; raises ValueError when it cannot be: the generation names folders."""
    if not isinstance(generation, str) or _GENERATION.fullmatch(generation) is None:
        raise ValueError(f"generation {generation!r}")
    if version is not None and not isinstance(version, str):
        raise ValueError(f"embedding version {version!r}")
    model, configured = (name if isinstance(name, str) else None for name in (*names, None, None)[:2])
    return Current(generation, version, model, configured)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: temp file beside it, fsync, rename, fsync of the folder. Raises HomeError."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise HomeError(
            str(path), f"cannot be written: {error}", "free disk space and check its permissions"
        ) from error
