"""What an operation works on: the open stores of a home, and the scope that a request names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.query.project_cache import ProjectCache
from headwater.query.retriever import ProgressiveRetriever
from headwater.query.scope import where
from headwater.query.stores import Stores
from headwater.schemas.answers import Scope
from headwater.storage.control import ControlJournal, effective_mode
from headwater.storage.llm_texts import LlmTexts
from headwater.storage.usage import Usage

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.schemas.config import Config
    from headwater.storage.embedder import Encoder
    from headwater.storage.home import Home


class Context:
    """Open stores of a home, and the encoder once it is loaded (None: keyword search only)."""

    def __init__(self, home: Home) -> None:
        """Tables are opened at their first use."""
        self.home = home
        self.encoder: Encoder | None = None
        self.model_error: str | None = None
        self.usage = Usage(home.usage_file)
        self.llm_texts = LlmTexts(home.llm_file)
        self._stores: Stores | None = None
        self._settings: tuple[object, Config, str] | None = None
        self._cache: tuple[Config, ProjectCache] | None = None

    @property
    def stores(self) -> Stores:
        """The tables that are current now."""
        self._stores = Stores.open(self.home) if self._stores is None else self._stores.refreshed()
        return self._stores

    def settings(self) -> tuple[Config, str]:
        """Return the settings and the mode in force; read again only when a file of theirs changed.

        Raises ConfigError, StoreError.
        """
        seen = (_stamp(self.home.config_file), ControlJournal(self.home).stamp())
        if self._settings is None or self._settings[0] != seen:
            self._settings = (seen, self.home.config(), effective_mode(self.home))
        return self._settings[1:]

    def cache(self) -> ProjectCache:
        """Return what is kept in memory of the stores that are current, made anew when settings change."""
        stores, config = self.stores, self.settings()[0]
        if self._cache is None or self._cache[0] is not config or self._cache[1].stores is not stores:
            self._cache = (config, ProjectCache(stores))
        return self._cache[1]

    def retriever(self) -> ProgressiveRetriever:
        """Return a retriever over the stores with the encoder of this moment, and the vectors of its version alone.

        After a switch to another version that is the old one until the new model is loaded.
        """
        return ProgressiveRetriever(*self.matched(), self.home.config())

    def matched(self) -> tuple[Stores, Encoder | None]:
        """Return stores and encoder of one embedding version, whatever is switched meanwhile."""
        encoder = self.encoder
        return (self.stores if encoder is None else self.stores.of_version(encoder.version)), encoder


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file changes, None when it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def scope_of(context: Context, args: dict[str, Any]) -> Scope:
    """Return the scope of a request: `project` named, `all_projects`, or the folder's project when it is known.

    A folder whose project has no events gives all projects: somebody asks from elsewhere.
    """
    stores, project = context.stores, args.get("project")
    if project is not None:
        return stores.scope(str(project))
    here = args.get("here")
    if not args.get("all_projects") and isinstance(here, str):
        scope = stores.scope(here)
        if stores.events.count(where(scope)) > 0:
            return scope
    return stores.scope(None)
