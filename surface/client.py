"""Asking: the server of a home over its socket, or, when none runs, the same operations in this process."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

from headwater.schemas import errors, limits
from headwater.schemas.errors import HeadwaterError, StoreError

if TYPE_CHECKING:
    from headwater.storage.home import Home


def ask_server(home: Home, operation: str, args: dict[str, Any], limit_s: float = limits.REQUEST_S) -> Any:
    """Return the server's answer, None when no server listens. Raises what the operation raised there."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(limit_s)
            link.connect(str(home.socket))
            link.sendall(json.dumps({"op": operation, "args": args}).encode() + b"\n")
            with link.makefile("rb") as file:
                line = file.readline()
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except OSError as error:
        raise StoreError(
            str(home.socket), f"no answer from the server: {error}", "run: headwater status"
        ) from error
    if not line:
        raise StoreError(
            str(home.socket), "the server ended before it answered", "run: headwater up, then try again"
        )
    body = json.loads(line)
    if body["ok"]:
        return body["result"]
    parts = body["error"]
    kind = getattr(errors, parts["type"], HeadwaterError)
    raise kind(parts["where"], parts["problem"], parts["fix"])


def ask(home: Home, operation: str, args: dict[str, Any], *, with_model: bool = False) -> Any:
    """Return the answer of the server, or work it out here; `with_model` then loads the model (seconds)."""
    answer = ask_server(home, operation, args)
    if answer is not None:
        return answer
    from headwater.surface.operations import OPERATIONS, Context

    context = Context(home)
    if with_model and home.current().embedding_version is not None:
        from headwater.storage.active import active_model
        from headwater.storage.embedder import load

        context.encoder = load(active_model(home))
    return OPERATIONS[operation](context, args)
