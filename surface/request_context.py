"""What an operation works on: the open stores of a home, and the scope that a request names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.query.cache import ProgressiveCache, state_of
from headwater.query.project_cache import ProjectCache
from headwater.query.retriever import ProgressiveRetriever
from headwater.query.scope import where
from headwater.query.stores import Stores
from headwater.schemas import clock
from headwater.schemas.answers import Scope
from headwater.schemas.clock import parse_iso
from headwater.schemas.errors import InputError
from headwater.schemas.events import Kind
from headwater.storage.control import ControlJournal, effective_mode
from headwater.storage.llm_texts import LlmTexts
from headwater.storage.usage import Usage

if TYPE_CHECKING:
    from datetime import datetime
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
        self._answers: tuple[Config, ProgressiveCache] | None = None

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
        return ProgressiveRetriever(*self.matched(), self.settings()[0], self.answers())

    def answers(self) -> ProgressiveCache:
        """Return the answers kept in memory, none of them when settings changed."""
        config = self.settings()[0]
        if self._answers is None or self._answers[0] is not config:
            self._answers = (config, ProgressiveCache(config.progressive_disclosure.cache, clock.SYSTEM))
        return self._answers[1]

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

    A folder whose project has no events gives all projects: somebody asks from elsewhere. The rest of the scope is
    `since`, `until` (ISO 8601, until exclusive), `kinds`, `session`, `agent`, `file`. Raises InputError for a time that
    is none, and for a kind that does not exist.
    """
    return replace(
        _scope_of_project(context, args),
        since=time_of(args.get("since")),
        until=time_of(args.get("until")),
        kinds=_kinds_of(args.get("kinds")),
        session_id=_text_of(args.get("session")),
        agent=_text_of(args.get("agent")),
        file=_text_of(args.get("file")),
    )


def project_scope(context: Context, args: dict[str, Any]) -> Scope:
    """Return the scope of a request that is about a whole project, or all."""
    return _scope_of_project(context, args)


def time_of(value: object) -> datetime | None:
    """Return the time of an argument, None for none. Raises InputError."""
    if value is None:
        return None
    try:
        return parse_iso(str(value))
    except ValueError as error:
        raise InputError(
            "time", f"wanted ISO 8601, got {value!r:.60}", "such as 2026-03-24T15:00Z"
        ) from error


def _scope_of_project(context: Context, args: dict[str, Any]) -> Scope:
    stores, project = context.stores, args.get("project")
    if project is not None:
        return stores.scope(str(project))
    here = args.get("here")
    if args.get("all_projects") or not isinstance(here, str):
        return stores.scope(None)
    scope = stores.scope(here)
    key = ("known", here, state_of(stores))
    known = context.answers().get(1, key, lambda: stores.events.count(where(scope)) > 0)
    return scope if known else stores.scope(None)


def _kinds_of(value: object) -> tuple[str, ...]:
    kinds = tuple(str(one) for one in value) if isinstance(value, list | tuple) else ()
    allowed = [kind.value for kind in Kind]
    for one in kinds:
        if one not in allowed:
            raise InputError(
                "kind", f"wanted one of {', '.join(allowed)}, got {one!r:.60}", "name one of them"
            )
    return kinds


def _text_of(value: object) -> str | None:
    return None if value is None or value == "" else str(value)
