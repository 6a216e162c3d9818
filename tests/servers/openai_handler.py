"""One connection to the test endpoint: read a request, decide the reply, write it down, send it."""

import json
import select
import socket
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, cast

from tests.servers.openai_answers import answer_json, settled
from tests.servers.openai_files import RequestError
from tests.servers.openai_replies import Reply
from tests.servers.openai_shapes import (
    STORED,
    Request,
    error_json,
    kind_of,
    read_request,
    stream_events,
)

if TYPE_CHECKING:
    from tests.servers.openai_server import OpenAIServer

WRONG_KEY = Reply("Incorrect API key provided.", status=401)
ABANDONED = Reply(drop=True, fault="abandoned")
"""Stands in the ledger for a request whose client hung up before its answer: status 0, no
tokens."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def endpoint(self) -> "OpenAIServer":
        return cast("OpenAIServer", self.server)

    def parse_request(self) -> bool:
        """As the base class does, without its parser for mail, which costs more than all the
        rest."""
        try:
            self.command, self.path, _ = str(self.raw_requestline, "latin-1").split()
        except ValueError:
            self.close_connection = True
            return False
        self.fields = {}
        while line := str(self.rfile.readline(), "latin-1").strip():
            name, _, value = line.partition(":")
            self.fields[name.strip().lower()] = value.strip()
        self.close_connection = self.fields.get("connection", "").lower() == "close"
        return True

    def do_GET(self) -> None:
        self.handle_request()

    def do_POST(self) -> None:
        self.handle_request()

    def do_DELETE(self) -> None:
        self.handle_request()

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.fields.get("content-length", 0)))
        path, _, query = self.path.partition("?")
        if path == "/ledger":
            return self.send_json(200, self.endpoint.summary(), {})
        try:
            if kind_of(path) in STORED:
                return self.answer_stored(path, query, body)
            self.answer(path, json.loads(body) if body else {})
        except json.JSONDecodeError:
            self.send_json(400, error_json(400, "The body is not JSON."), {})

    def answer(self, path: str, body: Mapping[str, Any]) -> None:
        request = read_request(self.command, path, body, self.endpoint.counting)
        if request is None:
            message = f"Unknown request URL: {self.command} {path}."
            return self.send_json(404, error_json(404, message), {})
        with self.endpoint.slots.turn(self.has_hung_up) as has_slot:
            if not has_slot:
                self.endpoint.write_down(settled(request, ABANDONED, self.endpoint.counting))
                return self.hang_up()
            self.answer_in_turn(request)

    def answer_in_turn(self, request: Request) -> None:
        if self.has_key():
            request, reply = self.endpoint.answer(request)
        else:
            request, reply = settled(request, WRONG_KEY, self.endpoint.counting), WRONG_KEY
        self.endpoint.write_down(request)
        with self.endpoint.in_flight(reply):
            if reply.status < 400 and self.has_hung_up():
                self.endpoint.rewrite(request, settled(request, ABANDONED, self.endpoint.counting))
            self.send(request, reply)

    def has_hung_up(self) -> bool:
        """Return whether the client has closed its side of the connection."""
        with suppress(OSError):
            is_readable = bool(select.select([self.connection], [], [], 0)[0])
            return is_readable and not self.connection.recv(1, socket.MSG_PEEK)
        return True

    def answer_stored(self, path: str, query: str, body: bytes) -> None:
        request = read_request(self.command, path, {}, self.endpoint.counting)
        assert request is not None
        told = self.endpoint.next_scripted(request.kind) or Reply() if self.has_key() else WRONG_KEY
        content: Mapping[str, Any] | bytes = b""
        if told.status < 400:
            try:
                content = self.endpoint.answer_stored(
                    self.command, path, query, self.fields.get("content-type", ""), body
                )
            except RequestError as refused:
                told = Reply(refused.message, status=refused.status)
        self.endpoint.write_down(settled(request, told, self.endpoint.counting))
        with self.endpoint.in_flight(told):
            if told.status >= 400 or told.drop or told.hold:
                self.send(request, told)
            elif isinstance(content, bytes):
                self.send_body(200, content, {"Content-Type": "application/octet-stream"})
            else:
                self.send_json(200, content, told.headers)

    def has_key(self) -> bool:
        return self.fields.get("authorization", "").removeprefix("Bearer ") == self.endpoint.key

    def send(self, request: Request, reply: Reply) -> None:
        if reply.hold:
            self.wait_for_the_end()
        elif reply.status >= 400:
            message = reply.text or f"Scripted failure {reply.status}."
            self.send_json(
                reply.status, error_json(reply.status, message, reply.error), reply.headers
            )
        elif reply.spaces:
            self.send_spaces()
        elif reply.raw is not None:
            self.send_body(reply.status, reply.raw, reply.headers)
        elif request.body.get("stream") and self.endpoint.streams and not reply.plain:
            self.send_events(request, reply)
        elif reply.drop:
            self.hang_up()
        else:
            answer = answer_json(request, reply, self.endpoint.dimensions)
            self.send_json(200, answer, reply.headers, reply.break_at)

    def send_json(
        self,
        status: int,
        value: Mapping[str, Any],
        headers: Mapping[str, str],
        break_at: float | None = None,
    ) -> None:
        self.send_body(status, json.dumps(value).encode(), headers, break_at)

    def send_body(
        self, status: int, body: bytes, headers: Mapping[str, str], break_at: float | None = None
    ) -> None:
        """Send the body; with ``break_at`` send that share of it and hang up."""
        kind = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        sent = body if break_at is None else body[: int(len(body) * break_at)]
        self.wfile.write(head_of(status, {**kind, **headers}) + sent)
        if break_at is not None:
            self.hang_up()

    def send_events(self, request: Request, reply: Reply) -> None:
        events = stream_events(request, reply)
        chunked = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
        self.wfile.write(head_of(200, {**chunked, **reply.headers}))
        share = 0.5 if reply.drop else reply.break_at
        for event in events if share is None else events[: int(len(events) * share)]:
            self.endpoint.pause(reply.pause)
            try:
                self.send_chunk(f"data: {json.dumps(event)}\n\n".encode())
            except ConnectionError:
                self.endpoint.abandoned += 1
                raise
        if share is not None:
            return self.hang_up()
        done = b"data: [DONE]\n\n"
        # One write: a client that stops at the last event keeps the connection only if the end of
        # the answer has arrived with it.
        self.wfile.write(chunk_of(done) + chunk_of(b""))

    def send_spaces(self) -> None:
        self.close_connection = True
        self.wfile.write(
            head_of(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        )
        with suppress(OSError):
            while not select.select([self.connection], [], [], 0.02)[0]:
                self.send_chunk(b" ")

    def send_chunk(self, data: bytes) -> None:
        self.wfile.write(chunk_of(data))

    def wait_for_the_end(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.recv(1, socket.MSG_PEEK)  # returns when one of the two hangs up

    def hang_up(self) -> None:
        self.close_connection = True
        hang_up(self.connection)


def head_of(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk_of(data: bytes) -> bytes:
    """Return the data as a chunk of a body; an empty one ends the body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it may be gone already
        connection.shutdown(socket.SHUT_RDWR)
