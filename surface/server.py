"""The server: answers over a Unix socket, embeds in a thread while jobs exist. A model never delays keyword search."""

from __future__ import annotations

import json
import os
import socketserver
import sys
import threading
from typing import TYPE_CHECKING, Any

from headwater.schemas import limits
from headwater.schemas.errors import HeadwaterError, InputError, StoreError
from headwater.storage.home import replace_file
from headwater.storage.locks import hold_lock
from headwater.storage.run_files import SERVER_ADDRESS, SERVER_LOCK
from headwater.surface import activity
from headwater.surface.embedding import EmbedLoop
from headwater.surface.llm_loop import LlmLoop
from headwater.surface.operations import OPERATIONS, Context
from headwater.surface.workers import LOG

if TYPE_CHECKING:
    from headwater.storage.home import Home


def serve(home: Home, stop: threading.Event) -> None:
    """Answer until told to stop. Raises BusyError when a server of this home runs already."""
    with hold_lock(home.run / SERVER_LOCK, "headwater server"):
        sys.setswitchinterval(limits.SWITCH_S)
        context = Context(home)
        loop = EmbedLoop(home, context, stop)
        with _bind(home, context) as server:
            say_address(home)
            loop.start()
            LlmLoop(home, stop).start()
            threading.Thread(target=_warm_up, args=(context,), name="warm-up", daemon=True).start()
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
            thread.start()
            stop.wait()
            server.shutdown()
            loop.join()
        home.socket.unlink(missing_ok=True)
        (home.run / SERVER_ADDRESS).unlink(missing_ok=True)


def say_address(home: Home) -> None:
    """Write where the socket is when it is not in `run/`, for hooks: they cannot work it out. Raises HomeError."""
    path = home.run / SERVER_ADDRESS
    if home.socket.parent == home.run:
        path.unlink(missing_ok=True)
    else:
        replace_file(path, str(home.socket).encode())


def _warm_up(context: Context) -> None:
    """Load libraries and open tables before the first hook asks: it waits a fifth of a second at most."""
    try:
        OPERATIONS["preview"](context, {"project": "/", "prompt": "warm up the tables"})
    except HeadwaterError as error:
        LOG.warning("the tables cannot be read yet: %s", error)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: str, context: Context) -> None:
        self.context = context
        super().__init__(path, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    """One request a connection: a line of JSON in, a line of JSON out."""

    timeout = limits.REQUEST_S
    server: _Server

    def handle(self) -> None:
        line = self.rfile.readline(limits.REQUEST_BYTES + 1)
        answer = answer_line(self.server.context, line)
        try:
            self.wfile.write(answer)
        except (BrokenPipeError, ConnectionResetError):
            LOG.info("a client left before its answer")


def answer_line(context: Context, line: bytes) -> bytes:
    """Return the answer line of a request line: `{"ok": true, "result"}` or `{"ok": false, "error"}`. Never raises."""
    try:
        body: dict[str, Any] = {"ok": True, "result": _work(context, line)}
    except HeadwaterError as error:
        body = {"ok": False, "error": _parts(error)}
    except Exception as error:  # noqa: BLE001 - one bad request must not end the server; it is logged and told
        LOG.exception("a request failed by a fault of ours")
        fix = "see logs/server.log, then try again"
        body = {
            "ok": False,
            "error": _parts(StoreError("server", f"fault: {type(error).__name__}: {error}", fix)),
        }
    return json.dumps(body, ensure_ascii=False, default=_plain).encode("utf-8", "replace") + b"\n"


def _work(context: Context, line: bytes) -> dict[str, Any]:
    if len(line) > limits.REQUEST_BYTES:
        raise InputError(
            "request", f"wanted at most {limits.REQUEST_BYTES} bytes, got more", "ask for less at once"
        )
    try:
        request = json.loads(line)
    except ValueError as error:
        raise InputError("request", f"not JSON: {error}", "send one JSON line") from error
    operation = OPERATIONS.get(str(request.get("op"))) if isinstance(request, dict) else None
    if operation is None:
        raise InputError(
            "request", f"wanted one of {', '.join(OPERATIONS)}", "use the same version of headwater"
        )
    if request["op"] not in activity.LOOKING:
        activity.note_question(context.home)
    return operation(context, request.get("args") or {})


def _parts(error: HeadwaterError) -> dict[str, str]:
    return {"type": type(error).__name__, "where": error.where, "problem": error.problem, "fix": error.fix}


def _plain(value: object) -> str:
    return str(value)


def _bind(home: Home, context: Context) -> _Server:
    """Bind the socket, 0600 from its first moment; what a dead server left is removed: our lock proves it dead."""
    path = home.socket
    old = os.umask(0o077)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.umask(0o177)
        return _Server(str(path), context)
    except OSError as error:
        fix = "make the home writable, free disk space, and raise the limit of open files"
        fix = "set HEADWATER_HOME to a shorter path" if "path too long" in str(error) else fix
        raise StoreError(str(path), f"socket cannot be made: {error}", fix) from error
    finally:
        os.umask(old)
