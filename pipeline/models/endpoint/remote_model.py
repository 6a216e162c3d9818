"""A model behind an address: its server, its limits and its prices."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.errors import ModelError
from pipeline.models.base import NO_TOKENS, Listener, Tokens
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.cache.reserve import Reserve
from pipeline.models.conversations import Done, Item, Workers, made_once
from pipeline.models.endpoint.attempts import Attempts, RetryWindow
from pipeline.models.endpoint.client import Endpoint
from pipeline.models.endpoint.limits import Bucket, Limiter, Rate
from pipeline.models.endpoint.server_watch import Say, ServerWatch

if TYPE_CHECKING:
    from openai import OpenAI


FEWEST_FAILURES = 8
"""The least number of failed calls in a row that ends a run."""
SECONDS_TO_LEAVE = 1.0
"""Time that calls under way have to end when a query is stopped, because a user waits for that."""
PROBE_SECONDS = 10.0
"""Time limit of the smallest call. A server that has not refused by then is running: some servers
load a model during the first call."""
PROBE_TEXT = "Hi"
"""The text of the smallest call of a chat or an embedding model."""


@dataclass(frozen=True)
class RemoteModel:
    """Base of the models behind an address: chat, embedding and rerank.

    ``timeout`` is in seconds, and prices are per million tokens. ``urgent``: its calls have their
    own places and precede those of other models, in any process. ``wait_for_model``: seconds that a
    run waits for a server that is starting; 0, as for queries, means no wait.

    ``where``: the place of the model in settings.yaml, which begins its messages. ``connect``
    creates the endpoint from ``where``, ``model``, ``base_url``, ``api_key`` and
    ``timeout``. ``origin`` names the code that answers instead of an endpoint; it is part of the
    model's identity.

    Raises SettingsError for an invalid address or key.
    """

    model: str = ""
    base_url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    cache: ReplyCache = NO_CACHE
    concurrency: int = 16
    timeout: float = 120
    max_retries: int = 5
    rate: Rate = Rate()
    input_price: float | None = None
    output_price: float = 0.0
    where: str = "models"
    urgent: bool = False
    connect: Callable[[str, str, str, str, float], Endpoint] = field(default=Endpoint, repr=False)
    origin: Mapping[str, str] = field(default_factory=dict)
    wait_for_model: float = 0.0

    def __post_init__(self) -> None:
        # Create the endpoint now, so that an invalid address or key is reported at once.
        _ = self.endpoint

    @made_once
    def endpoint(self) -> Endpoint:
        return self.connect(self.where, self.model, self.base_url, self.api_key, self.timeout)

    def preflight(self) -> None:
        self.endpoint.preflight()

    def begin_run(self, say: Say) -> None:
        """Check the server as ``preflight`` does, and wait up to ``wait_for_model`` if it is
        starting.

        A run calls this before its first call. ``say`` receives messages about the wait. Raises the
        errors of ``preflight``, and ModelError when the server has not answered in time.
        """
        self.watch.begin()
        self.limiter.begin()
        try:
            self.endpoint.preflight()
        except ModelError:
            # No server listens. If it was only starting, its key has still to be checked.
            if not self._await_start(say):
                raise
            self.endpoint.preflight()
        else:
            # Something answers, but a server that loads its model answers too, with a 503.
            self._await_start(say)

    def _await_start(self, say: Say) -> bool:
        """Wait for the server if it is starting. Return whether it was.

        The endpoint lists its models, which costs nothing. Calls that have failed use
        ``send_smallest_call``: a server may list a model before it can use it.
        """
        failure = self.endpoint.probe() if self.wait_for_model else None
        if failure is None or not self.watch.is_down(failure):
            return False
        self.watch.await_server(failure, self.endpoint.probe, threading.Event(), say)
        return True

    def note(self) -> str:
        """Return a remark about the server for the end of a run, or ""."""
        note = self.limiter.note(f"{self.where}.concurrency")
        return f"{self.where}: {note}" if note else ""

    def send_smallest_call(self, client: "OpenAI") -> Tokens:
        """Make the smallest possible call to see whether the server answers. Return its tokens.

        Here it asks for the list of models, which has no tokens. Models that a server may list
        before it can use them override it.
        """
        with client.with_options(timeout=PROBE_SECONDS).models.with_streaming_response.list():
            # Any answer is enough, so its content is not read.
            return NO_TOKENS

    @made_once
    def watch(self) -> ServerWatch:
        return ServerWatch(self.endpoint, self.wait_for_model, self._failures_to_give_up)

    @property
    def _failures_to_give_up(self) -> int:
        """Number of calls in a row that must fail before the work is given up.

        One fault of a server may end all calls under way. So twice that many must fail, and at
        least `FEWEST_FAILURES`.
        """
        return max(FEWEST_FAILURES, 2 * self.concurrency)

    def cost(self, tokens: Tokens) -> float | None:
        """Return the cost in the currency of the prices, or None if the model has no price."""
        if self.input_price is None:
            return None
        return (tokens.input * self.input_price + tokens.output * self.output_price) / 1e6

    @made_once
    def limiter(self) -> Limiter:
        bucket = Bucket(self.endpoint.digest, self.rate, self.cache.database)
        return Limiter(self.concurrency, bucket, self.urgent)

    def reserve(self, size: int, calls: int | None = None) -> Reserve:
        """Return a reserve in the cache for the replies of all calls at once, of ``size`` bytes
        each."""
        return self.cache.database.reserve(calls or self.concurrency, size, self.where)

    def attempts(self, listener: Listener | None) -> Attempts:
        # A user waits no longer for an endpoint that refuses every call than for one call.
        throttling = self.timeout if self.urgent else None
        retry_window = RetryWindow(self.endpoint, self._failures_to_give_up, throttling)
        return Attempts(
            endpoint=self.endpoint,
            limiter=self.limiter,
            max_retries=self.max_retries,
            cost=self.cost,
            stop=threading.Event(),
            retry_window=retry_window,
            watch=self.watch,
            send_smallest_call=self.send_smallest_call,
            listener=listener,
        )

    def workers(self, work: Callable[[Item], Done], attempts: Attempts) -> Workers[Item, Done]:
        return Workers(
            work, self.concurrency, attempts.stop, SECONDS_TO_LEAVE if self.urgent else self.timeout
        )
