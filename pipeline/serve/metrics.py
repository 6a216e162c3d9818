"""/metrics of the server: what the project's runs and this server's answers come to.

The counts of all workers lie in one array that the workers share. Each worker writes only its own
part, so no lock between processes is needed, and a worker that is killed holds up no other.
"""

import asyncio
import hmac
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, MutableSequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast, get_args

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.engine.usage.run_budget import THROTTLED
from pipeline.errors import UsageError
from pipeline.models.base import Usage
from pipeline.pages.environment import texts
from pipeline.project import Project
from pipeline.runs.metrics import Metric, RunMetrics, Sample, exposition
from pipeline.serve.failures import refusal
from pipeline.serve.queries import Queries
from pipeline.serve.server import is_loopback, listen
from pipeline.serve.tries import Tries, sender_of
from pipeline.settings.query_fields import Mode

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MODES: tuple[str, ...] = get_args(Mode)
BOUNDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Seconds at which buckets of the latency end. Without a chat model an answer takes a tenth of a
second; with one it takes seconds, and at most ``serve.timeout``."""
HUNG_UP = 499
"""The status of a request whose client has disconnected before an answer began, as nginx counts
it."""
WATCHED_EVERY = 0.5
"""Seconds between two looks at the queue. Another worker, or the port for /metrics, shows them."""
FIRST_STATUS, STATUSES = 100, 500
_BUCKETS = len(BOUNDS) + 1
_MODE_SIZE = _BUCKETS + 1
_LATENCY = STATUSES
_SPENT = _LATENCY + len(MODES) * _MODE_SIZE
_CALLS, _INPUT, _OUTPUT, _COST, _RUNNING, _WAITING = range(_SPENT, _SPENT + 6)
SIZE = _SPENT + 6
"""The numbers of one worker: answers by status; seconds by mode, as buckets and a sum; what
questions have spent; running and waiting queries."""


@dataclass
class Counts:
    """The counts of a server: ``values`` of all workers, of which ``worker`` writes its own."""

    values: MutableSequence[float] = field(default_factory=lambda: array("d", [0.0] * SIZE))
    worker: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # A lock cannot be sent to a worker's process, and each needs one of its own.
        return Counts, (self.values, self.worker)

    def of_worker(self, worker: int) -> "Counts":
        """Return the same counts for one of the workers to write to."""
        return Counts(self.values, worker)

    def count_call(self, usage: Usage) -> None:
        """Count a call of a model for a question, whether or not the question is answered."""
        # A call that its endpoint refused as one too many is made again.
        if usage.outcome != THROTTLED:
            self._add(_CALLS, usage.calls)
        self._add(_INPUT, usage.input_tokens)
        self._add(_OUTPUT, usage.output_tokens)
        self._add(_COST, usage.cost or 0.0)

    def count_status(self, status: int) -> None:
        """Count an answer by its HTTP status; 0 stands for none."""
        known = status if FIRST_STATUS <= status < FIRST_STATUS + STATUSES else HUNG_UP
        self._add(known - FIRST_STATUS, 1)

    def count_seconds(self, mode: str, seconds: float) -> None:
        """Count the time from a question's arrival to the end of its answer."""
        if mode not in MODES:
            return
        place = _LATENCY + MODES.index(mode) * _MODE_SIZE
        bucket = sum(seconds > bound for bound in BOUNDS)
        self._add(place + bucket, 1)
        self._add(place + _BUCKETS, seconds)

    async def watch(self, queries: Queries) -> None:
        """Note again and again how many queries run and wait. It goes on until it is cancelled."""
        start = self.worker * SIZE
        while True:
            self.values[start + _RUNNING] = queries.running
            self.values[start + _WAITING] = queries.waiting
            await asyncio.sleep(WATCHED_EVERY)

    def metrics(self) -> list[Metric]:
        """Return the metrics of all workers together."""
        sums = [sum(self.values[place::SIZE]) for place in range(SIZE)]
        answers = [
            Sample({"status": str(FIRST_STATUS + place)}, sums[place])
            for place in range(STATUSES)
            if sums[place]
        ]
        tokens = [
            Sample({"direction": "input"}, sums[_INPUT]),
            Sample({"direction": "output"}, sums[_OUTPUT]),
        ]
        plain = {
            "graphmill_question_model_calls_total": ("Calls of models by questions.", _CALLS),
            "graphmill_question_cost_total": (
                "The cost of questions by the models' prices; 0 without a price.",
                _COST,
            ),
        }
        now = {
            "graphmill_queries_running": ("Queries that run now.", _RUNNING),
            "graphmill_queries_waiting": ("Queries that wait for their turn now.", _WAITING),
        }
        counters = [
            Metric(name, "counter", about, [Sample({}, sums[place])])
            for name, (about, place) in plain.items()
        ]
        gauges = [
            Metric(name, "gauge", about, [Sample({}, sums[place])])
            for name, (about, place) in now.items()
        ]
        return [
            Metric(
                "graphmill_http_answers_total",
                "counter",
                f"Answers by HTTP status; {HUNG_UP}: the client disconnected before.",
                answers,
            ),
            Metric(
                "graphmill_query_duration_seconds",
                "histogram",
                "Seconds from a question's arrival to the end of its answer, by mode.",
                _latencies(sums),
            ),
            *counters,
            Metric("graphmill_question_tokens_total", "counter", "Tokens of questions.", tokens),
            *gauges,
        ]

    def _add(self, place: int, value: float) -> None:
        with self._lock:
            self.values[self.worker * SIZE + place] += value


def shared_counts(workers: int) -> Counts:
    """Return counts in memory that so many workers can share."""
    from multiprocessing.sharedctypes import RawArray

    values = RawArray("d", SIZE * workers)
    return Counts(cast("MutableSequence[float]", values))


def _latencies(sums: list[float]) -> list[Sample]:
    """Return the samples of the histogram; a mode that nobody has asked has none."""
    samples = []
    for number, mode in enumerate(MODES):
        start = _LATENCY + number * _MODE_SIZE
        buckets = sums[start : start + _BUCKETS]
        asked = sum(buckets)
        if not asked:
            continue
        below = 0.0
        for bound, count in zip(BOUNDS, buckets, strict=False):
            below += count
            samples.append(Sample({"mode": mode, "le": f"{bound:g}"}, below, "_bucket"))
        samples.append(Sample({"mode": mode, "le": "+Inf"}, asked, "_bucket"))
        samples.append(Sample({"mode": mode}, sums[start + _BUCKETS], "_sum"))
        samples.append(Sample({"mode": mode}, asked, "_count"))
    return samples


@dataclass(frozen=True)
class Counting:
    """An ASGI application around another that counts its answers.

    ``scope["counted"]`` is a dictionary in which a route notes the mode of a question.
    """

    app: ASGIApp
    counts: Counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, status = time.perf_counter(), 0
        counted: dict[str, str] = {}

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self.app({**scope, "counted": counted}, receive, noted)
        finally:
            self.counts.count_status(status)
            if status == 200 and "mode" in counted:
                self.counts.count_seconds(counted["mode"], time.perf_counter() - began)


def note_mode(http: Request, project: Project, options: Mapping[str, Any]) -> None:
    """Note the mode of a question, if its request is counted."""
    if "counted" in http.scope:
        http.scope["counted"]["mode"] = options.get("mode") or project.settings.query.mode


class MetricsPage:
    """The text of /metrics of a project and its server."""

    def __init__(self, project: Project, counts: Counts):
        self._key = project.settings.serve.metrics_key.get_secret_value().strip().encode()
        self._runs = RunMetrics(project.root, project.runs)
        self._counts = counts

    @property
    def has_key(self) -> bool:
        return bool(self._key)

    def text(self) -> str:
        return exposition([*self._runs.metrics(), *self._counts.metrics()])

    def is_opened_by(self, authorization: str) -> bool:
        """Return whether the header Authorization has the key; any does where there is none."""
        scheme, _, given = authorization.partition(" ")
        is_right = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._key)
        return not self._key or (scheme.lower() == "bearer" and is_right)


@dataclass(frozen=True)
class WithMetrics:
    """An ASGI application around another that answers /metrics to the key for it alone.

    The page is outside of the guard: its key opens nothing else, and no other key opens the page.
    """

    app: ASGIApp
    page: MetricsPage
    tries: Tries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            return await self.app(scope, receive, send)
        answer = await self._answer(scope)
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope) -> ASGIApp:
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("", 405, {"Allow": "GET, HEAD"})
        given = Headers(scope=scope).get("authorization", "")
        if self.page.is_opened_by(given):
            # The first look reads every report of the project.
            text = await run_in_threadpool(self.page.text)
            return PlainTextResponse(text, media_type=CONTENT_TYPE)
        seconds = await self.tries.count(sender_of(scope)) if given else 0
        words = texts()["failures"]
        if seconds:
            too_many = words["too_many_wrong_keys"].format(seconds=seconds)
            return refusal(429, too_many, {"Retry-After": str(seconds)})
        return refusal(401, words["wrong_key"], {"WWW-Authenticate": "Bearer"})


GUESS_SECONDS = 1.0
"""The time that a wrong key at the port takes, one after the other, so that guessing is slow."""
MOST_SCRAPES = 8
"""The most connections of the port at once. A client that sends slowly keeps a thread."""


@contextmanager
def metrics_at_port(page: MetricsPage, host: str, port: int, no_key: bool = False) -> Iterator[int]:
    """Serve /metrics alone at a port while the block runs; give the port, which 0 leaves open.

    Raises UsageError if it cannot listen there, or if other machines could read the page without a
    key and ``no_key`` is not given.
    """
    one_guess = threading.Lock()
    places = threading.BoundedSemaphore(MOST_SCRAPES)

    class Handler(BaseHTTPRequestHandler):
        # A client that sends nothing keeps its thread for no longer.
        timeout = 10

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != PATH:
                return self.send_error(404)
            if not page.is_opened_by(self.headers.get("Authorization", "")):
                with one_guess:
                    time.sleep(GUESS_SECONDS)
                return self.send_error(401)
            content = page.text().encode(errors="replace")
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: a line for each scrape would hide the others."""

    class Scrapes(ThreadingHTTPServer):
        def process_request(self, request: Any, client_address: Any) -> None:
            if places.acquire(blocking=False):
                super().process_request(request, client_address)
            else:
                self.shutdown_request(request)

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                places.release()

    listening = listen(host, port, "serve.metrics_port", "serve.metrics_port")
    address = listening.getsockname()[:2]
    if not (page.has_key or no_key or is_loopback(listening)):
        listening.close()
        raise UsageError(
            f"serve.metrics_port: others can reach {address[0]}, port {address[1]}, and"
            " serve.metrics_key is not set; set it, or pass --no-key where a firewall keeps them"
            " out"
        )
    server = Scrapes(address, Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True, name="metrics").start()
    try:
        yield address[1]
    finally:
        server.shutdown()
        server.server_close()
