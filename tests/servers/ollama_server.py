"""A real HTTP server on loopback that speaks Ollama's own protocol, and cuts long prompts as Ollama
does."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from tests.servers.openai_answers import last_tokens
from tests.servers.openai_replies import Messages, Reader, content_of, count_tokens, default_reply
from tests.servers.serving import serving

DEFAULT_NUM_CTX = 4096
NANOSECONDS = 1_000_000


class OllamaServer(ThreadingHTTPServer):
    """What may be changed while it runs:

    ``models``: name -> the context length of its own; all others are not pulled.
    ``knows_truncate``: it honours ``truncate: false``, as newer servers do; else a prompt that does
    not fit is cut without a word. ``scripted``: (status, error) of the next requests for a chat.
    ``breaks``: an error that ends each stream in its middle.
    """

    daemon_threads = True

    def __init__(self, reply: Reader = default_reply):
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply = reply
        self.models = {"llama3.2": 131_072}
        self.knows_truncate = True
        self.breaks = ""
        self.scripted: list[tuple[int, str]] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def chats(self) -> list[dict[str, Any]]:
        """The bodies of all requests for a chat."""
        return [body for path, body in self.requests if path == "/api/chat"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def ollama(self) -> OllamaServer:
        return cast(OllamaServer, self.server)

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        self.ollama.requests.append((self.path, body))
        if self.path not in ("/api/chat", "/api/show"):
            return self.send_plain(404, b"404 page not found", "text/plain")
        if body["model"] not in self.ollama.models:
            return self.send_object(404, {"error": f"model '{body['model']}' not found"})
        if self.path == "/api/show":
            return self.send_object(200, self.shown(body["model"]))
        if self.ollama.scripted:
            status, error = self.ollama.scripted.pop(0)
            return self.send_object(status, {"error": error})
        self.chat(body)

    def shown(self, model: str) -> dict[str, Any]:
        info = {"general.architecture": "llama", "llama.context_length": self.ollama.models[model]}
        return {"details": {"family": "llama", "format": "gguf"}, "model_info": info}

    def chat(self, body: Mapping[str, Any]) -> None:
        messages: Messages = body["messages"]
        num_ctx = body.get("options", {}).get("num_ctx", DEFAULT_NUM_CTX)
        tokens = sum(count_tokens(content_of(message)) for message in messages)
        if tokens > num_ctx:
            if self.ollama.knows_truncate and body.get("truncate") is False:
                return self.send_object(
                    400, {"error": "the input length exceeds the context length"}
                )
            messages = last_tokens(messages, num_ctx // 2)
            tokens = sum(count_tokens(content_of(message)) for message in messages)
        asked = dict(body)
        if body.get("format"):
            asked["response_format"] = {
                "type": "json_schema",
                "json_schema": {"schema": body["format"]},
            }
        reply = self.ollama.reply(messages, asked)
        text, reason = reply.text or "", reply.finish_reason
        room = num_ctx - tokens
        most = min(room, body.get("options", {}).get("num_predict", room))
        if count_tokens(text) > most:
            text, reason = text[: 4 * most], "length"
        end = {
            "done": True, "done_reason": reason, "total_duration": 9 * NANOSECONDS,
            "load_duration": NANOSECONDS,
            "prompt_eval_count": tokens, "prompt_eval_duration": 3 * NANOSECONDS,
            "eval_count": count_tokens(text),
            "eval_duration": 5 * NANOSECONDS,
        }  # fmt: skip
        if body.get("stream", True):
            self.send_lines(body["model"], text, end)
        else:
            self.send_object(200, {**self.piece(body["model"], text), **end})

    def piece(self, model: str, text: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        return {
            "model": model,
            "created_at": "2026-11-23T19:22:45.499127Z",
            "message": message,
            "done": False,
        }

    def send_lines(self, model: str, text: str, end: Mapping[str, Any]) -> None:
        pieces = [self.piece(model, text[start : start + 8]) for start in range(0, len(text), 8)]
        lines: list[Mapping[str, Any]] = [*pieces, {**self.piece(model, ""), **end}]
        if self.ollama.breaks:
            lines = [*lines[: len(lines) // 2], {"error": self.ollama.breaks}]
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            data = json.dumps(line).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def send_object(self, status: int, value: Mapping[str, Any]) -> None:
        self.send_plain(status, json.dumps(value).encode(), "application/json; charset=utf-8")

    def send_plain(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def ollama_server(reply: Reader = default_reply) -> Iterator[OllamaServer]:
    """A server that listens until the block ends."""
    server = OllamaServer(reply)
    with serving(server):
        yield server
