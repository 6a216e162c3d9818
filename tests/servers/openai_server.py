"""A real HTTP server on loopback that speaks the OpenAI protocol, keeps a ledger, and fails when
told to.

By hand: ``python tests/servers/openai_server.py --port 8000 --limits-rpm 60``. ``GET /ledger`` then
says what was asked so far.
"""

import argparse
import signal
import socket
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.servers.openai_answers import answer, settled
from tests.servers.openai_batches import Batch, Batches
from tests.servers.openai_faults import Faults, canonical
from tests.servers.openai_files import Files, StoredFile
from tests.servers.openai_handler import Handler, hang_up
from tests.servers.openai_limits import Admitted, Limits, Window
from tests.servers.openai_machine import OutputRules, Starting
from tests.servers.openai_prefixes import PrefixCache
from tests.servers.openai_replies import Reader, Reply, UsageReport, default_reply
from tests.servers.openai_shapes import KINDS, STORED, Counting, Request
from tests.servers.openai_slots import Slots
from tests.servers.openai_stored import answer_stored

LOADING = Reply("Loading model", status=503, fault="loading", at_once=True)

__all__ = ["Counting", "Faults", "Limits", "OpenAIServer", "Reply", "Request", "openai_server"]


class OpenAIServer(ThreadingHTTPServer):
    """What may be changed while it runs:

    ``reply``, ``delay`` (seconds, all requests), ``dimensions``, ``key``; ``counting`` (of tokens,
    at first by bytes); ``usage`` (how every answer reports its tokens: "tokens", "none" or "zeros",
    see UsageReport); ``faults`` (whose draws begin anew when they are set) and ``limits``, both
    None if there are none.

    Batches: ``batch_polls`` (how often a batch is said to be in progress), ``batch_hold`` (it stays
    so until this is False), ``batch_expire_after`` (the batch expires after so many rows),
    ``batch_cancel_polls`` (how often a cancelled one is still cancelling),
    ``batch_cancelled_after`` (rows it has answered by then), ``fail_batch_rows`` (by custom_id:
    True for an error without a response, or a status), ``max_batch_requests``, ``max_file_bytes``.

    Weak models, for checks of what a server can do: ``context_tokens`` cuts prompts silently to
    their last tokens, as servers of local models do; ``prefix_cache`` counts only the prompt tokens
    that it did not hold; where ``streams`` is False, a streamed question is answered by one JSON
    object, as some gateways do. ``thinking`` puts ``<think>...</think>`` before each text,
    ``json_ability`` False refuses ``response_format`` with status 400 and "ignored" pays no heed to
    it.

    What the machine does: ``starting`` refuses the first requests, ``output`` says how limits on
    the output are taken.

    Busy and starting servers: ``slots.limit`` is how many requests are worked on at once,
    ``loading`` refuses all with status 503 and "Loading model", ``stop_listening`` lets connections
    be refused until ``listen_again``.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(
        self,
        port: int = 0,
        key: str = "test-key",
        reply: Reader = default_reply,
        delay: float = 0.0,
    ):
        super().__init__(("127.0.0.1", port), Handler)
        self.key, self.reply, self.delay = key, reply, delay
        self.dimensions = 64
        self.counting = Counting()
        self.usage: UsageReport = "tokens"
        self.limits: Limits | None = None
        self.slots = Slots()
        self.loading = False
        self.starting: Starting | None = None
        self.output = OutputRules()
        self.context_tokens: int | None = None
        self.prefix_cache: PrefixCache | None = None
        self.streams = True
        self.thinking = False
        self.json_ability: Literal[True, False, "ignored"] = True
        self.batch_polls = 1
        self.batch_hold = False
        self.batch_expire_after: int | None = None
        self.batch_cancel_polls = 0
        self.batch_cancelled_after = 0
        self.fail_batch_rows: Callable[[str], bool | int] = lambda custom_id: False
        self.max_batch_requests = 50_000
        self.max_file_bytes = 200_000_000
        self.file_store = Files()
        self.batch_store = Batches(self, self.file_store)
        self.peak = 0  # most requests that were in flight at once
        self.abandoned = 0  # streams whose client hung up before their end
        self._in_flight = 0
        self._ledger: list[Request] = []
        self._scripts: dict[str, deque[Reply | int]] = {
            kind: deque() for kind in (*KINDS.values(), *STORED, "batch")
        }
        self._faults: Faults | None = None
        self._seen: Counter[bytes] = Counter()
        self._windows: dict[str, Window] = defaultdict(Window)
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stores = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread()

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

    @property
    def files(self) -> list[StoredFile]:
        """Every file that was ever there, the deleted ones without their content."""
        with self._stores:
            return list(self.file_store.stored.values())

    @property
    def batches(self) -> list[Batch]:
        with self._stores:
            return list(self.batch_store.made.values())

    @property
    def faults(self) -> Faults | None:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults | None) -> None:
        with self._lock:
            self._faults = faults
            self._seen.clear()

    def summary(self) -> dict[str, Any]:
        """The ledger in JSON, for those who run the server as a process of its own; CPU in
        seconds."""
        names = ("kind", "model", "status", "at", "prompt_tokens", "completion_tokens", "fault")
        rows = [[getattr(request, name) for name in names] for request in self.requests]
        return {"columns": names, "requests": rows, "peak": self.peak, "cpu": time.process_time()}

    def count(self, kind: str, status: int | None = None) -> int:
        return sum(r.kind == kind and status in (None, r.status) for r in self.requests)

    def forget(self) -> None:
        """Empty the ledger."""
        with self._lock:
            self._ledger.clear()
            self.peak = 0

    def script(self, kind: str, replies: Iterable[Reply | int]) -> None:
        """Answer the next requests of this kind ("chat", "embeddings", "models", "files",
        "batches") so, one each; "batch" is for the rows of batches, in the order of the input.

        An int is a status, and 200 lets that request have its usual answer. A request for files or
        batches whose answer is dropped has been carried out.
        """
        with self._lock:
            self._scripts[kind].extend(replies)

    def next_scripted(self, kind: str) -> Reply | None:
        with self._lock:
            step = self._scripts[kind].popleft() if self._scripts[kind] else None
        return Reply(status=step) if isinstance(step, int) else step

    def draw_fault(self, request: Request) -> Reply | None:
        faults = self._faults
        if faults is None:
            return None
        body = canonical(request.body)
        with self._lock:
            times = self._seen[body]
            self._seen[body] += 1
        return faults.draw(request.messages, request.body, times)

    def answer(self, request: Request) -> tuple[Request, Reply]:
        if self.loading:
            return settled(request, LOADING, self.counting), LOADING
        if self.starting and (refusal := self.starting.answer(request)):
            return settled(request, refusal, self.counting), refusal
        admitted = self.admit(request)
        if isinstance(admitted, Reply):
            return settled(request, admitted, self.counting), admitted
        request, reply = answer(self, request)
        if admitted:
            with self._lock:
                self._windows[request.model].charge(admitted, request.completion_tokens)
        return request, reply

    def admit(self, request: Request) -> Admitted | Reply | None:
        limits = self.limits
        if limits is None or request.kind == "models":
            return None
        with self._lock:
            window = self._windows[request.model]
            return window.admit(limits, request.model, request.prompt_tokens, request.at)

    def answer_stored(
        self, method: str, path: str, query: str, content_type: str, body: bytes
    ) -> Mapping[str, Any] | bytes:
        with self._stores:
            return answer_stored(self, method, path, query, content_type, body)

    def write_down(self, request: Request) -> None:
        with self._lock:
            self._ledger.append(request)

    def rewrite(self, request: Request, as_it_ended: Request) -> None:
        """Put another entry in the place of one that is in the ledger."""
        with self._lock:
            places = [place for place, entry in enumerate(self._ledger) if entry is request]
            for place in places:
                self._ledger[place] = as_it_ended

    @property
    def connected(self) -> set[socket.socket]:
        return set(self._connections)

    def await_silence(self, but: Set[socket.socket] = frozenset()) -> None:
        """Wait until nobody else is connected: what a killed client has sent is then in the
        ledger."""
        while self.connected - but:
            time.sleep(0.005)

    @contextmanager
    def in_flight(self, reply: Reply) -> Iterator[None]:
        with self._lock:
            self._in_flight += 1
            self.peak = max(self.peak, self._in_flight)
        try:
            delay = 0 if reply.at_once else self.delay + reply.delay
            if delay:
                self._closed.wait(delay)
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def pause(self, seconds: float) -> None:
        """Until the server is closed, at most."""
        if seconds:
            self._closed.wait(seconds)

    def start(self) -> None:
        """Answer requests in a thread."""
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def stop_listening(self) -> None:
        """Hang up on everybody and let new connections be refused, as a server does that is being
        restarted."""
        self.shutdown()
        self._thread.join()
        self.server_close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            hang_up(connection)

    def listen_again(self) -> None:
        """Listen on the same port once more."""
        self.socket = socket.socket(self.address_family, self.socket_type)
        self.server_bind()
        self.server_activate()
        self.start()

    def close(self) -> None:
        """Stop listening and hang up on those who are still connected."""
        self._closed.set()
        self.stop_listening()

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
    server.start()
    try:
        yield server
    finally:
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="An endpoint that speaks the OpenAI protocol, for trying things."
    )
    parser.add_argument("--port", type=int, default=8000, help="0: a free one")
    parser.add_argument("--key", default="test-key")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that every answer takes")
    parser.add_argument("--limits-rpm", type=int, help="requests per minute")
    parser.add_argument("--limits-tpm", type=int, help="tokens per minute")
    parser.add_argument("--minute", type=float, default=60.0, help="seconds that a minute has")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with openai_server(options.port, options.key, delay=options.delay) as server:
        if options.limits_rpm is not None or options.limits_tpm is not None:
            server.limits = Limits(options.limits_rpm, options.limits_tpm, options.minute)
        print(
            f"OPENAI_BASE_URL={server.base_url} OPENAI_API_KEY={server.key}  (Ctrl-C ends it)",
            flush=True,
        )
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(f"{len(server.requests)} requests answered", flush=True)


if __name__ == "__main__":
    main()
