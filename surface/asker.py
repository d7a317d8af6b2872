"""Asking from a process that stays: the server of a home while it runs, else the same operations in this process.

The model is loaded in the background at the first search without a server; until it is there, words alone decide.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from headwater.schemas.errors import HeadwaterError
from headwater.surface.client import ask_server

if TYPE_CHECKING:
    from headwater.storage.home import Home
    from headwater.surface.request_context import Context


class Asker:
    """Answers operations of one home. Safe to share between threads."""

    def __init__(self, home: Home) -> None:
        """Open nothing yet."""
        self._home = home
        self._context: Context | None = None
        self._loading: threading.Thread | None = None
        self._guard = threading.Lock()
        self._is_alone = False

    def ask(self, operation: str, args: dict[str, Any]) -> Any:
        """Return an operation's answer. Raises what the operation raises."""
        answer = ask_server(self._home, operation, args)
        self._is_alone = answer is None
        if answer is not None:
            return answer
        from headwater.surface.operations import OPERATIONS
        from headwater.surface.request_context import Context

        with self._guard:
            if self._context is None:
                self._context = Context(self._home)
            if operation == "search":
                self._load(self._context)
        return OPERATIONS[operation](self._context, args)

    def note(self) -> str:
        """Return what is to be known about the last search, "" for nothing."""
        context = self._context
        if not self._is_alone or context is None or context.encoder is not None:
            return ""
        if context.model_error is not None:
            return f"Found by words alone: {context.model_error}"
        return "Found by words alone: the model is still loading." if self._loading is not None else ""

    def close(self) -> None:
        """Wait for a model that is being loaded: a process must not end in the middle of it."""
        if self._loading is not None:
            self._loading.join()

    def _load(self, context: Context) -> None:
        """Load the model of the current version in a thread, unless it is there, being loaded, or there is none."""
        version = self._home.current().embedding_version
        has_it = context.encoder is not None and context.encoder.version == version
        if version is None or has_it or (self._loading is not None and self._loading.is_alive()):
            return
        if context.model_error is not None:
            return
        self._loading = threading.Thread(target=self._loaded, args=(context,), name="model", daemon=True)
        self._loading.start()

    def _loaded(self, context: Context) -> None:
        try:
            from headwater.storage.active import active_model
            from headwater.storage.embedder import load

            context.encoder = load(active_model(self._home))
        except HeadwaterError as error:
            context.model_error = str(error)
        except Exception as error:  # noqa: BLE001 - keyword search goes on; it is told with each answer
            context.model_error = f"{type(error).__name__}: {error}"
