"""One connection to the test endpoint: read a request, decide the reply, write it down, send it."""

import json
import socket
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, cast

from tests.servers.openai_replies import Reply
from tests.servers.openai_shapes import (
    Request,
    chat_json,
    completion_tokens,
    embeddings_json,
    error_json,
    models_json,
    read_request,
    stream_events,
    usage_json,
)

if TYPE_CHECKING:
    from tests.servers.openai_server import OpenAIServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def endpoint(self) -> "OpenAIServer":
        return cast("OpenAIServer", self.server)

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self.answer({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self.answer(json.loads(body))
        except json.JSONDecodeError:
            self.send_json(400, error_json(400, "The body is not JSON."), {})

    def answer(self, body: Mapping[str, Any]) -> None:
        request = read_request(self.path, body)
        if request is None:
            message = f"Unknown request URL: {self.command} {self.path}."
            return self.send_json(404, error_json(404, message), {})
        reply = self.decide(request)
        if reply.status >= 400 or reply.drop:
            request = replace(request, status=0 if reply.drop else reply.status, prompt_tokens=0)
        else:
            request = replace(request, completion_tokens=completion_tokens(request, reply))
        self.endpoint.write_down(request)
        with self.endpoint.in_flight(reply.delay):
            self.send(request, reply)

    def decide(self, request: Request) -> Reply:
        if (self.headers.get("Authorization") or "").removeprefix("Bearer ") != self.endpoint.key:
            return Reply("Incorrect API key provided.", status=401)
        scripted = self.endpoint.next_scripted(request.kind)
        if scripted and (scripted.status >= 400 or scripted.text is not None):
            return scripted
        if request.kind == "embeddings" and (not request.inputs or "" in request.inputs):
            return Reply("'$.input' is invalid: it is empty or holds an empty string.", status=400)
        if request.kind != "chat":
            return scripted or Reply()
        try:
            usual = self.endpoint.reply(request.messages, request.body)
        except Exception:
            return Reply(traceback.format_exc(), status=500)
        if scripted is None:
            return usual
        text = usual.text or ""
        return replace(scripted, text=text[: len(text) // 2] if scripted.finish_reason == "length" else text)

    def send(self, request: Request, reply: Reply) -> None:
        if reply.status >= 400:
            message = reply.text or f"Scripted failure {reply.status}."
            self.send_json(reply.status, error_json(reply.status, message), reply.headers)
        elif reply.raw is not None:
            self.send_body(reply.status, reply.raw, reply.headers)
        elif request.body.get("stream"):
            self.send_events(request, reply)
        elif reply.drop:
            self.hang_up()
        elif request.kind == "models":
            self.send_json(200, models_json(), reply.headers)
        else:
            size = self.endpoint.dimensions
            made = chat_json(request, reply) if request.kind == "chat" else embeddings_json(request, reply, size)
            usage = {"usage": usage_json(request)} if reply.usage else {}
            self.send_json(200, {**made, **usage}, reply.headers)

    def send_json(self, status: int, value: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self.send_body(status, json.dumps(value).encode(), headers)

    def send_body(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        kind = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        self.send_head(status, {**kind, **headers})
        self.wfile.write(body)

    def send_events(self, request: Request, reply: Reply) -> None:
        events = stream_events(request, reply)
        chunked = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
        self.send_head(200, {**chunked, **reply.headers})
        for event in events[: len(events) // 2] if reply.drop else events:
            self.send_chunk(f"data: {json.dumps(event)}\n\n".encode())
        if reply.drop:
            return self.hang_up()
        self.send_chunk(b"data: [DONE]\n\n")
        self.send_chunk(b"")

    def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def hang_up(self) -> None:
        self.close_connection = True
        hang_up(self.connection)


def hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it may be gone already
        connection.shutdown(socket.SHUT_RDWR)
