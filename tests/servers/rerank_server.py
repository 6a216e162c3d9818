"""A real HTTP server on loopback with ``POST /v1/rerank``: the more of a query's words a document
has, the better."""

import json
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, cast

from tests.servers.openai_replies import UsageReport
from tests.servers.serving import serving

Style = Literal["jina", "tei"]


@dataclass(frozen=True)
class RerankReply:
    """An answer in the place of the usual one; ``raw`` is the body. ``hold``: none comes before the
    server closes."""

    status: int = 200
    raw: str = "{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    hold: bool = False


@dataclass(frozen=True)
class Ranked:
    """A request: when it came, and its JSON."""

    at: float
    body: Mapping[str, Any]

    @property
    def texts(self) -> list[str]:
        return self.body.get("documents", self.body.get("texts", []))


class RerankServer(ThreadingHTTPServer):
    """``style``: whose protocol it speaks, Jina's or Text Embeddings Inference's; ``longest``:
    characters of a document above which it refuses a request; ``keep``: how many results it tells
    at most. ``usage``: how an answer reports its tokens (see UsageReport of openai_replies.py).
    ``script``: the next answers."""

    daemon_threads = True

    def __init__(self, key: str = "rerank-key", style: Style = "jina") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.key, self.style = key, style
        self.longest: int | None = None
        self.keep: int | None = None
        self.usage: UsageReport = "tokens"
        self.script: deque[RerankReply] = deque()
        self.requests: list[Ranked] = []
        self.closed = threading.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, body: Mapping[str, Any]) -> RerankReply:
        names = {"jina": "documents", "tei": "texts"}
        if names[self.style] not in body:
            return RerankReply(
                422,
                f"Failed to deserialize the JSON body: missing field `{names[self.style]}` at"
                " line 1",
            )
        texts = body[names[self.style]]
        if self.longest is not None and max(map(len, texts), default=0) > self.longest:
            return RerankReply(
                413, json.dumps({"error": "the input is too long", "error_type": "Validation"})
            )
        best = sorted(
            ((overlap(body["query"], text), index) for index, text in enumerate(texts)),
            reverse=True,
        )
        best = best[: self.keep]
        if self.style == "tei":
            return RerankReply(
                200, json.dumps([{"index": index, "score": score} for score, index in best])
            )
        results = [
            {"index": index, "relevance_score": score, "document": {}} for score, index in best
        ]
        answer = {"model": body.get("model"), "results": results}
        if self.usage != "none":
            answer["usage"] = {"total_tokens": 0 if self.usage == "zeros" else 1}
        return RerankReply(200, json.dumps(answer))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.tell(
            RerankReply(404, '{"detail": "Not Found"}')
            if self.has_key()
            else RerankReply(401, '{"detail": "no such key"}')
        )

    def do_POST(self) -> None:
        server = cast(RerankServer, self.server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/rerank":
            return self.tell(RerankReply(404, '{"detail": "Not Found"}'))
        server.requests.append(Ranked(time.monotonic(), body))
        if not self.has_key():
            return self.tell(
                RerankReply(
                    401, json.dumps({"detail": f"no such key: {self.headers['Authorization']}"})
                )
            )
        told = server.script.popleft() if server.script else server.answer(body)
        if told.hold:
            self.close_connection = True
            server.closed.wait(30)
            return
        self.tell(told)

    def has_key(self) -> bool:
        return self.headers["Authorization"] == f"Bearer {cast(RerankServer, self.server).key}"

    def tell(self, told: RerankReply) -> None:
        content = told.raw.encode()
        self.send_response(told.status)
        kind = "application/json" if told.raw[:1] in "[{" else "text/plain"
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            **told.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        return


def overlap(query: str, text: str) -> float:
    """The share of the query's words that the text has."""
    words = set(re.findall(r"\w+", query.lower()))
    return len(words & set(re.findall(r"\w+", text.lower()))) / max(1, len(words))


@contextmanager
def rerank_server(key: str = "rerank-key", style: Style = "jina") -> Iterator[RerankServer]:
    """A server that listens on a free port until the block ends."""
    server = RerankServer(key, style)
    with serving(server):
        try:
            yield server
        finally:
            server.closed.set()
