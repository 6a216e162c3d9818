"""A model behind an address, and its calls: each tried until it is answered, in turn with all
others, again where that may help, every attempt counted."""

import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from pipeline.errors import ModelError
from pipeline.models.base import NO_TOKENS, Listener, Tokens, Usage
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.cache.reserve import Reserve
from pipeline.models.conversations import Done, Item, Workers, made_once
from pipeline.models.endpoint.client import Endpoint, Failure
from pipeline.models.endpoint.limits import Bucket, Limiter, Place, Rate, sleep
from pipeline.models.endpoint.server_watch import Say, ServerWatch

if TYPE_CHECKING:
    from openai import OpenAI


Answer = TypeVar("Answer")
TIMEOUTS_TO_TRY_AGAIN = 1
"""A call that brings nothing within its time rarely does at the third try, and each costs the whole
time."""
TIMEOUTS_GIVEN_BACK = 6
"""A call that timed out because too many were under way is tried again so often without counting
that as a failure: from 64 calls at once the concurrency is halved six times until one is left."""
RESTARTS_GIVEN_BACK = 3
"""A call that found the server down is sent again so often without counting that as a failure. A
prompt that ends the server itself, behind a proxy that answers 502 meanwhile, would be sent for
ever."""
LONGEST_THROTTLING = 3600.0
LONGEST_WAIT = 60.0
SECONDS_TO_LEAVE = 1.0
"""That calls under way get of a question which is broken off: somebody waits for that."""
CHARACTERS_PER_TOKEN = 4
SECONDS_OF_A_LOOK = 10.0
"""Whoever has not refused by then is there: some servers load a model while the first call
waits."""


@dataclass(frozen=True)
class Call:
    """What is known of a call before it is sent. ``tokens``: an estimate of all it takes; 0 where
    nobody asks."""

    row_id: str
    characters: int
    tokens: int = 0
    texts: int = 0
    searches: int = 0

    @property
    def expected(self) -> Tokens:
        return Tokens(
            self.characters // CHARACTERS_PER_TOKEN, 0, searches=self.searches, estimated=True
        )


LOOK = Call("", 0)
OUTCOME_OF_A_LOOK = "look"
WORD_OF_A_LOOK = "Hi"


@dataclass
class RetryWindow:
    """How long to go on when calls bring no answer: not at all if none ever did and nobody listens,
    else for ``limit`` calls in a row (each has had its retries); and for ``throttling`` seconds (by
    default an hour) when the endpoint refuses them all as too many."""

    endpoint: Endpoint
    limit: int
    throttling: float | None = None
    answered: bool = False
    silent: int = 0
    heard_at: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def heard(self) -> None:
        with self.lock:
            self.answered, self.silent, self.heard_at = True, 0, time.monotonic()

    def throttled(self, failure: Failure) -> None:
        """Raises ModelError when nothing else has come for long, or will not have by the time to
        come again."""
        if self.outlasted_by(failure):
            raise self.endpoint.busy(failure)

    def outlasted_by(self, failure: Failure) -> bool:
        """Whether the time to come again is later than this goes on."""
        with self.lock:
            silence = time.monotonic() - self.heard_at + (failure.retry_after or 0.0)
            return silence > (LONGEST_THROTTLING if self.throttling is None else self.throttling)

    def missed(self, failure: Failure) -> None:
        """Raises ModelError when there is no use in going on."""
        if failure.answered:
            return self.heard()
        with self.lock:
            self.silent += 1
            if self.silent >= self.limit or not (failure.listens or self.answered):
                raise self.endpoint.silent(failure)


@dataclass(frozen=True)
class Sent(Generic[Answer]):
    """A call that is being answered. ``place``: where it counts as under way; ``count``: tells what
    it took."""

    answer: Answer
    tokens: Tokens
    place: ExitStack
    count: Callable[[Tokens, str], None]

    def end(self, tokens: Tokens, outcome: str = "ok") -> None:
        self.place.close()
        self.count(tokens, outcome)


@dataclass(frozen=True)
class Attempts:
    """The calls of one model. ``max_retries``: after failures that may pass. Too many calls (429),
    a server that is starting (``watch``) and a timeout for want of places at the server are no
    failures of a call. ``look``: the smallest call there is, which shows whether the server
    answers."""

    endpoint: Endpoint
    limiter: Limiter
    max_retries: int
    cost: Callable[[Tokens], float | None]
    stop: threading.Event
    patience: RetryWindow
    watch: ServerWatch
    look: "Callable[[OpenAI], Tokens]"
    listener: Listener | None = None

    def ask(
        self,
        call: Call,
        send: "Callable[[OpenAI], tuple[Answer, Tokens]]",
        outcome: Callable[[Answer], str] = lambda answer: "ok",
    ) -> Answer | Failure:
        """The answer, or why there is none. Raises AuthError or ModelError where no call can do
        better, StoppedError when the work has been stopped before the call was sent."""
        sent = self.open(call, send)
        if isinstance(sent, Failure):
            return sent
        sent.end(sent.tokens, outcome(sent.answer))
        return sent.answer

    def open(
        self, call: Call, send: "Callable[[OpenAI], tuple[Answer, Tokens]]"
    ) -> Sent[Answer] | Failure:
        """As ``ask``, where the answer has only begun: the call is under way until it is ended."""
        attempt = failures = throttlings = timeouts = restarts = 0
        while True:
            attempt += 1
            answer, place = self._once(call, send, attempt)
            if not isinstance(answer, Failure):
                self.patience.heard()
                self.watch.succeeded()
                return answer
            # Raised here, not where it was caught: no traceback leads to the request and its
            # headers.
            if answer.fatal:
                raise answer.fatal
            if answer.throttled:
                throttlings += 1
                self.patience.throttled(answer)
                self.limiter.overloaded(answer.retry_after or 0.0)
                self._wait(answer, throttlings)
                continue
            if self.watch.is_down(answer) and not self.watch.answered_since(place.since):
                was_down = self.watch.await_server(answer, self._look, self.stop, self._say)
                if was_down and restarts < RESTARTS_GIVEN_BACK:
                    restarts += 1
                    continue
                answer = replace(answer, retry_after=None)  # it has been waited for
            if answer.passing:
                self.watch.failed(answer)
            if (
                answer.reason == "timeout"
                and self._gives_back(place)
                and timeouts < TIMEOUTS_GIVEN_BACK
            ):
                timeouts += 1
                continue
            failures += 1
            too_late = bool(answer.retry_after) and self.patience.outlasted_by(answer)
            if (answer.status or 0) >= 500:
                self.limiter.overloaded(0.0 if too_late else answer.retry_after or 0.0)
            most = (
                min(self.max_retries, TIMEOUTS_TO_TRY_AGAIN)
                if answer.reason == "timeout"
                else self.max_retries
            )
            again = answer.passing and failures <= most and not too_late
            if not again or not (answer.listens or self.patience.answered):
                self.patience.missed(answer)
                return answer
            self._wait(answer, failures)

    def _once(
        self, call: Call, send: "Callable[[OpenAI], tuple[Answer, Tokens]]", attempt: int
    ) -> tuple[Sent[Answer] | Failure, Place]:
        with ExitStack() as leaving:
            place = leaving.enter_context(self.limiter.turn(call.tokens, self.stop))
            name = (
                self.listener.begun(self._usage(call, attempt, call.expected))
                if self.listener
                else ""
            )
            started = time.monotonic()
            answer = self.endpoint.call(send)

            def count(tokens: Tokens, outcome: str) -> None:
                seconds = time.monotonic() - started
                if call.tokens:
                    self.limiter.bucket.correct(tokens.input + tokens.output - call.tokens)
                if self.listener:
                    self.listener.ended(self._usage(call, attempt, tokens, seconds, outcome), name)

            if not isinstance(answer, Failure):
                self.limiter.succeeded(place)
                return Sent(*answer, leaving.pop_all(), count), place
        count(answer.tokens, answer.outcome)
        return answer, place

    def _gives_back(self, place: Place) -> bool:
        """Return whether a call that timed out is to be tried again as if it had not been tried.

        A question is not: somebody waits for it. Where no other call was answered meanwhile, the
        watch must be on: it ends a run whose server never answers.
        """
        had_to_queue = self.limiter.timed_out(place)
        goes_on = bool(self.watch.seconds) or self.limiter.answered_since(place.since)
        return had_to_queue and goes_on and not self.limiter.urgent

    def _look(self) -> Failure | None:
        """Ask the server for next to nothing; return why that failed, or None. Only an answer is
        counted."""
        started = time.monotonic()
        answer = self.endpoint.call(self.look)
        if isinstance(answer, Failure):
            return answer
        if self.listener:
            seconds = time.monotonic() - started
            self.listener.ended(self._usage(LOOK, 1, answer, seconds, OUTCOME_OF_A_LOOK))
        return None

    def _say(self, fact: str) -> None:
        if self.listener:
            self.listener.notify(fact)

    def _wait(self, failure: Failure, times: int) -> None:
        sleep(failure.retry_after if failure.retry_after is not None else backoff(times), self.stop)

    def _usage(
        self, call: Call, attempt: int, tokens: Tokens, seconds: float = 0.0, outcome: str = "ok"
    ) -> Usage:
        return Usage(
            call.row_id, self.endpoint.model, tokens.input, tokens.output, cached=False,
            seconds=seconds,
            outcome=outcome, cost=self.cost(tokens), cached_tokens=tokens.cached, attempt=attempt,
            texts=call.texts,
            estimated=tokens.estimated,
        )  # fmt: skip


@dataclass(frozen=True)
class RemoteModel:
    """``timeout`` in seconds; prices per million tokens; ``urgent``: its calls have places of their
    own and go ahead of the turns of those that are not, in any process. ``wait_for_model``: seconds
    that a run waits for a server that is starting; 0: not at all, as for whoever asks a question.

    ``connect`` makes the endpoint from ``where``, ``model``, ``base_url``, ``api_key`` and
    ``timeout``. ``origin`` names the code that answers where no endpoint does; it is part of the
    model's identity.

    Raises SettingsError for an address or key that cannot be one.
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
        _ = self.endpoint

    @made_once
    def endpoint(self) -> Endpoint:
        return self.connect(self.where, self.model, self.base_url, self.api_key, self.timeout)

    def preflight(self) -> None:
        self.endpoint.preflight()

    def begin_run(self, say: Say) -> None:
        """Look at the server as ``preflight`` does; wait while it is starting, as
        ``wait_for_model`` says.

        A run calls this before its first call. ``say`` hears of the wait. Raises as ``preflight``
        does, and ModelError when the server has not answered in time.
        """
        self.watch.begin()
        self.limiter.begin()
        try:
            self.endpoint.preflight()
        except ModelError:
            if not self._await_start(say):
                raise
            self.endpoint.preflight()
        else:
            self._await_start(say)

    def _await_start(self, say: Say) -> bool:
        """Wait for the server if it is starting; return whether it was."""
        failure = self.endpoint.look() if self.wait_for_model else None
        if failure is None or not self.watch.is_down(failure):
            return False
        self.watch.await_server(failure, self.endpoint.look, threading.Event(), say)
        return True

    def note(self) -> str:
        """Return what a run should tell of the server at its end, or ""."""
        note = self.limiter.note(f"{self.where}.concurrency")
        return f"{self.where}: {note}" if note else ""

    def look(self, client: "OpenAI") -> Tokens:
        """Ask the server for next to nothing, to see whether it answers; return what that took."""
        with client.with_options(timeout=SECONDS_OF_A_LOOK).models.with_streaming_response.list():
            return NO_TOKENS

    @made_once
    def watch(self) -> ServerWatch:
        return ServerWatch(self.endpoint, self.wait_for_model, self._enough)

    @property
    def _enough(self) -> int:
        """How many calls in a row must fail before the work is given up."""
        return max(8, 2 * self.concurrency)

    def cost(self, tokens: Tokens) -> float | None:
        """In the currency of the prices; None without them."""
        if self.input_price is None:
            return None
        return (tokens.input * self.input_price + tokens.output * self.output_price) / 1e6

    @made_once
    def limiter(self) -> Limiter:
        bucket = Bucket(self.endpoint.digest, self.rate, self.cache.database)
        return Limiter(self.concurrency, bucket, self.urgent)

    def reserve(self, size: int, calls: int | None = None) -> Reserve:
        """Return room in the cache for the replies of all calls at once, of ``size`` bytes each."""
        return self.cache.database.reserve(calls or self.concurrency, size, self.where)

    def attempts(self, listener: Listener | None) -> Attempts:
        patience = RetryWindow(self.endpoint, self._enough, self.timeout if self.urgent else None)
        return Attempts(
            self.endpoint, self.limiter, self.max_retries, self.cost, threading.Event(), patience,
            self.watch,
            self.look, listener,
        )  # fmt: skip

    def workers(self, work: Callable[[Item], Done], attempts: Attempts) -> Workers[Item, Done]:
        return Workers(
            work, self.concurrency, attempts.stop, SECONDS_TO_LEAVE if self.urgent else self.timeout
        )


def backoff(attempt: int) -> float:
    """Seconds before the next attempt: up to 0.5, 1, 2, ... 60, of which at least half, the rest by
    chance."""
    return min(LONGEST_WAIT, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)  # noqa: S311  (no secret)
