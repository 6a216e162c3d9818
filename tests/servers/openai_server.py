"""A real HTTP server on loopback that speaks the OpenAI protocol, keeps a ledger, and fails when told to.

By hand: ``python tests/servers/openai_server.py --port 8000``.
"""

import argparse
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.servers.openai_handler import Handler, hang_up
from tests.servers.openai_replies import Reader, Reply, default_reply
from tests.servers.openai_shapes import KINDS, Request

__all__ = ["OpenAIServer", "Reply", "Request", "openai_server"]


class OpenAIServer(ThreadingHTTPServer):
    """``reply``, ``delay`` (seconds, all requests), ``dimensions``, ``key`` may be changed while it runs."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int = 0, key: str = "test-key", reply: Reader = default_reply, delay: float = 0.0):
        super().__init__(("127.0.0.1", port), Handler)
        self.key, self.reply, self.delay = key, reply, delay
        self.dimensions = 64
        self.peak = 0  # most requests that were in flight at once
        self._in_flight = 0
        self._ledger: list[Request] = []
        self._scripts: dict[str, deque[Reply | int]] = {kind: deque() for kind in KINDS.values()}
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def env(self) -> dict[str, str]:
        """What a command needs in its environment to talk to this server."""
        return {"OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": self.key}

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order of arrival; written down before it is answered."""
        with self._lock:
            return list(self._ledger)

    def count(self, kind: str, status: int | None = None) -> int:
        return sum(r.kind == kind and status in (None, r.status) for r in self.requests)

    def forget(self) -> None:
        """Empty the ledger."""
        with self._lock:
            self._ledger.clear()
            self.peak = 0

    def script(self, kind: str, replies: Iterable[Reply | int]) -> None:
        """Answer the next requests of this kind ("chat", "embeddings", "models") so, one each.

        An int is a status, and 200 lets that request have its usual answer.
        """
        with self._lock:
            self._scripts[kind].extend(replies)

    def next_scripted(self, kind: str) -> Reply | None:
        with self._lock:
            step = self._scripts[kind].popleft() if self._scripts[kind] else None
        return Reply(status=step) if isinstance(step, int) else step

    def write_down(self, request: Request) -> None:
        with self._lock:
            self._ledger.append(request)

    @contextmanager
    def in_flight(self, delay: float) -> Iterator[None]:
        with self._lock:
            self._in_flight += 1
            self.peak = max(self.peak, self._in_flight)
        try:
            self._closed.wait(self.delay + delay)
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def close(self) -> None:
        """Stop listening and hang up on those who are still connected."""
        self._closed.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            hang_up(connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client may be killed at any time
            super().handle_error(request, client_address)


@contextmanager
def openai_server(
    port: int = 0, key: str = "test-key", reply: Reader = default_reply, delay: float = 0.0
) -> Iterator[OpenAIServer]:
    """A server that listens (on a free port if 0) until the block ends."""
    server = OpenAIServer(port, key, reply, delay)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description="An endpoint that speaks the OpenAI protocol, for trying things.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--key", default="test-key")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that every answer takes")
    options = parser.parse_args()
    with openai_server(options.port, options.key, delay=options.delay) as server:
        print(f"OPENAI_BASE_URL={server.base_url} OPENAI_API_KEY={server.key}  (Ctrl-C ends it)", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(f"{len(server.requests)} requests answered")


if __name__ == "__main__":
    main()
