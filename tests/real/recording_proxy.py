"""A proxy that hands requests to a model server and answers back as they are, and notes what each
of them cost."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from tests.servers.serving import serving

CHAT = "/v1/chat/completions"
UNREACHABLE = (
    b'{"error": {"message": "The model server is not there.", "type": "proxy", "code": 502}}'
)


@dataclass(frozen=True)
class Exchange:
    """One request for a reply, and the server's own count of its tokens: None where its answer
    reports none, or did not arrive whole. ``status`` 0: the connection to the server broke."""

    body: dict[str, Any]
    status: int
    tokens: tuple[int, int] | None

    @property
    def prompt(self) -> str:
        return "\n".join(message["content"] for message in self.body["messages"])


class RecordingProxy(ThreadingHTTPServer):
    """``exchanges``: every request for a reply that has been answered; ``begun``: how many were
    sent to the server. ``target``: the port of the model server on 127.0.0.1."""

    daemon_threads = True

    def __init__(self, target: int):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.begun = 0
        self.exchanges: list[Exchange] = []
        self.lock = threading.Lock()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def forget(self) -> None:
        with self.lock:
            self.begun = 0
            self.exchanges = []

    def note_begin(self) -> None:
        with self.lock:
            self.begun += 1

    def note(self, body: bytes, status: int, answer: bytes, is_whole: bool) -> None:
        tokens = usage_in(answer) if is_whole else None
        with self.lock:
            self.exchanges.append(Exchange(json.loads(body), status, tokens))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep silent: clients of these tests hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"  # an answer ends with its connection

    @property
    def proxy(self) -> RecordingProxy:
        return cast("RecordingProxy", self.server)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep silent."""

    def do_GET(self) -> None:
        self.hand_over()

    def do_POST(self) -> None:
        self.hand_over()

    def hand_over(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_chat = self.path == CHAT
        if is_chat:
            self.proxy.note_begin()
        received, status, is_whole = bytearray(), 0, False
        server = HTTPConnection("127.0.0.1", self.proxy.target)
        try:
            fields = {
                name: self.headers[name]
                for name in ("Authorization", "Content-Type")
                if name in self.headers
            }
            server.request(self.command, self.path, body, fields)
            answer = server.getresponse()
            status = answer.status
            self.send_response(status)
            self.send_header("Content-Type", answer.getheader("Content-Type", "application/json"))
            self.end_headers()
            while piece := answer.read1():
                received += piece
                self.wfile.write(piece)
                self.wfile.flush()
            is_whole = True
        except (OSError, HTTPException):
            if not status:  # nothing has been sent yet
                status = 502
                with suppress(OSError):
                    self.send_response(status)
                    self.end_headers()
                    self.wfile.write(UNREACHABLE)
        finally:
            server.close()  # the server stops working on a reply that nobody waits for
            if is_chat:
                self.proxy.note(body, status, bytes(received), is_whole)


def usage_in(answer: bytes) -> tuple[int, int] | None:
    """Return the (input, output) tokens that an answer reports, be it one JSON object or a stream
    of events."""
    lines = answer.splitlines() if answer.startswith(b"data:") else [b"data: " + answer]
    found = None
    for line in lines:
        with suppress(ValueError):
            usage = json.loads(line.removeprefix(b"data:")).get("usage")
            found = usage or found
    return (found["prompt_tokens"], found["completion_tokens"]) if found else None


@contextmanager
def recording_proxy(target: int) -> Iterator[RecordingProxy]:
    proxy = RecordingProxy(target)
    with serving(proxy):
        yield proxy
