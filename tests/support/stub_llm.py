"""A local endpoint that speaks like a language model's server, well or badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def chat(text: Any) -> bytes:
    """Return the body of a good answer."""
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


@dataclass
class Stub:
    """What is answered, in how many pieces and how slowly, and what was asked."""

    body: bytes = chat("In short: it works.")
    status: int = 200
    pieces: int = 1
    pause_s: float = 0.0
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def endpoint() -> Iterator[Stub]:
    """Answer on a port of this machine."""
    stub = Stub()
    stop = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            stub.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            stub.paths.append(self.path)
            self.send_response(stub.status)
            self.send_header("Content-Length", str(len(stub.body)))
            self.end_headers()
            size = max(1, -(-len(stub.body) // stub.pieces))
            try:
                for n in range(0, len(stub.body), size):
                    if stop.wait(stub.pause_s):
                        return
                    self.wfile.write(stub.body[n : n + size])
                    self.wfile.flush()
            except OSError:
                return  # who asked has given up, as it should

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        stop.set()
        server.shutdown()
        server.server_close()
        thread.join()
