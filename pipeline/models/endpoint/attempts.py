"""Calls of an endpoint: their queue, their retries, and the record of every attempt."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from pipeline.models.base import Listener, Tokens, Usage
from pipeline.models.endpoint.client import Endpoint, Failure
from pipeline.models.endpoint.limits import Limiter, Place, sleep
from pipeline.models.endpoint.server_watch import ServerWatch
from pipeline.spans import note_call

if TYPE_CHECKING:
    from openai import OpenAI


Answer = TypeVar("Answer")
TIMEOUTS_TO_TRY_AGAIN = 1
"""Number of retries after a timeout. A third try rarely succeeds, and each try costs the whole
timeout."""
UNCOUNTED_TIMEOUTS = 6
"""Number of timeouts under overload that do not count as failures of a call. Halving 64 calls at
once six times leaves a concurrency of one."""
UNCOUNTED_RESTARTS = 3
"""Number of times that a call is sent again after the server was down, without counting as a
failure. Without this limit, a prompt that crashes its server would be sent for ever, if a proxy
answers 502 meanwhile."""
LONGEST_THROTTLING = 3600.0
"""Time in seconds that a run continues although the endpoint refuses every call as too many."""
LONGEST_WAIT = 60.0
"""Longest pause in seconds between two attempts."""
CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class Call:
    """Facts about a call before it is sent.

    ``tokens``: an estimate of all tokens that it needs, or 0 if no limit needs it.
    """

    row_id: str
    characters: int
    tokens: int = 0
    texts: int = 0
    searches: int = 0

    @property
    def expected(self) -> Tokens:
        """The expected tokens, estimated from the number of characters."""
        return Tokens(
            self.characters // CHARACTERS_PER_TOKEN, 0, searches=self.searches, estimated=True
        )


PROBE = Call("", 0)
PROBE_OUTCOME = "look"
"""Outcome of a probe in the usage records. Records of earlier runs have this word too."""


@dataclass
class RetryWindow:
    """Decide how long to continue when calls get no answer.

    If no call ever got one and the server does not listen, the work ends at once. Otherwise it ends
    after ``limit`` failed calls in a row, each with its retries. If the endpoint refuses all calls
    as too many, it ends after ``throttling`` seconds (None means LONGEST_THROTTLING).
    """

    endpoint: Endpoint
    limit: int
    throttling: float | None = None
    answered: bool = False
    silent: int = 0
    heard_at: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def record_answer(self) -> None:
        """Record that a call got an answer."""
        with self.lock:
            self.answered, self.silent, self.heard_at = True, 0, time.monotonic()

    def check_throttling(self, failure: Failure) -> None:
        """Raise ModelError if the endpoint has refused all calls as too many for too long.

        The pause that it requests counts as well.
        """
        if self.retry_comes_too_late(failure):
            raise self.endpoint.busy_error(failure)

    def retry_comes_too_late(self, failure: Failure) -> bool:
        """Return whether the work is given up before the endpoint allows a retry."""
        limit = LONGEST_THROTTLING if self.throttling is None else self.throttling
        with self.lock:
            silence = time.monotonic() - self.heard_at + (failure.retry_after or 0.0)
            return silence > limit

    def record_failure(self, failure: Failure) -> None:
        """Record a failed call. Raise ModelError if further calls are useless.

        If the server answered at all, the count of failed calls starts again from zero.
        """
        if failure.answered:
            return self.record_answer()
        with self.lock:
            self.silent += 1
            was_ever_there = failure.listens or self.answered
            if self.silent >= self.limit or not was_ever_there:
                raise self.endpoint.silence_error(failure)


@dataclass(frozen=True)
class Sent(Generic[Answer]):
    """A call that is being answered.

    ``place`` holds its place among the calls under way. ``count`` records its usage.
    """

    answer: Answer
    tokens: Tokens
    place: ExitStack
    count: Callable[[Tokens, str], None]

    def end(self, tokens: Tokens, outcome: str = "ok") -> None:
        """Free the place of the call, and record its tokens and outcome."""
        self.place.close()
        self.count(tokens, outcome)


@dataclass
class Tally:
    """Counts of what the attempts of one call have met.

    Only ``failures`` use up retries. ``throttlings``, ``timeouts`` and ``restarts`` are failures of
    the server that do not count as such, up to `UNCOUNTED_TIMEOUTS` and `UNCOUNTED_RESTARTS`.
    """

    attempts: int = 0
    failures: int = 0
    throttlings: int = 0
    timeouts: int = 0
    restarts: int = 0

    def has_retries_left(self, failure: Failure, max_retries: int) -> bool:
        """Return whether the call may be sent again after the last of its failures."""
        if failure.reason == "timeout":
            max_retries = min(max_retries, TIMEOUTS_TO_TRY_AGAIN)
        return failure.passing and self.failures <= max_retries


@dataclass(frozen=True)
class Attempts:
    """Calls of one model, with retries and limits.

    ``max_retries``: the number of retries after transient failures. Three cases do not count as
    failures of a call: too many calls (429), a server that is starting (``watch``), and a timeout
    because the server had no free slot. After a fatal failure, such as a refused key, there is no
    retry of any call; see `Failure`. ``probe``: the smallest possible call, which shows whether the
    server answers.
    """

    endpoint: Endpoint
    limiter: Limiter
    max_retries: int
    cost: Callable[[Tokens], float | None]
    stop: threading.Event
    retry_window: RetryWindow
    watch: ServerWatch
    probe: "Callable[[OpenAI], Tokens]"
    listener: Listener | None = None

    def ask(
        self,
        call: Call,
        send: "Callable[[OpenAI], tuple[Answer, Tokens]]",
        outcome: Callable[[Answer], str] = lambda answer: "ok",
    ) -> Answer | Failure:
        """Make a call and return its answer, or the failure.

        ``send`` makes the call and returns answer and tokens. ``outcome`` gives the outcome for the
        usage records. Raises AuthError or ModelError if no other call can succeed. Raises
        StoppedError if the work was stopped before the call was sent.
        """
        sent = self.open(call, send)
        if isinstance(sent, Failure):
            return sent
        sent.end(sent.tokens, outcome(sent.answer))
        return sent.answer

    def open(
        self, call: Call, send: "Callable[[OpenAI], tuple[Answer, Tokens]]"
    ) -> Sent[Answer] | Failure:
        """Make a call whose answer only begins, such as a stream. Errors are those of ``ask``.

        The call counts as under way until ``Sent.end`` is called.
        """
        tally = Tally()
        while True:
            tally.attempts += 1
            answer, place = self._attempt(call, send, tally.attempts)
            if not isinstance(answer, Failure):
                self.retry_window.record_answer()
                self.watch.record_success()
                return answer
            # The error is raised here and not where it was caught, so that no traceback contains
            # the request and its headers.
            if answer.fatal:
                raise answer.fatal
            final_failure = self._wait_for_retry(answer, place, tally)
            if final_failure:
                self.retry_window.record_failure(final_failure)
                return final_failure

    def _wait_for_retry(self, failure: Failure, place: Place, tally: Tally) -> Failure | None:
        """Wait until the call can be sent again, and return None; or return its final failure.

        Raises ModelError if no call is worth another attempt.
        """
        if failure.throttled:
            tally.throttlings += 1
            self.retry_window.check_throttling(failure)
            self.limiter.record_overload(failure.retry_after or 0.0)
            self._wait(failure, tally.throttlings)
            return None
        if self.watch.is_down(failure) and not self.watch.answered_since(place.since):
            if self._outlast_restart(failure, tally):
                return None
            # The pause that the server requested is over by now.
            failure = replace(failure, retry_after=None)
        if failure.passing:
            self.watch.record_failure(failure)
        if failure.reason == "timeout" and self._record_timeout(place, tally):
            return None
        tally.failures += 1
        is_too_late = bool(failure.retry_after) and self.retry_window.retry_comes_too_late(failure)
        if (failure.status or 0) >= 500:
            self.limiter.record_overload(0.0 if is_too_late else failure.retry_after or 0.0)
        was_ever_there = failure.listens or self.retry_window.answered
        may_retry = tally.has_retries_left(failure, self.max_retries) and not is_too_late
        if not may_retry or not was_ever_there:
            return failure
        self._wait(failure, tally.failures)
        return None

    def _outlast_restart(self, failure: Failure, tally: Tally) -> bool:
        """Wait for a server that seems to be down. Return whether its absence explains the failure.

        It does not if only this call failed, or if the call has met too many restarts.
        """
        was_down = self.watch.await_server(failure, self._probe_server, self.stop, self._say)
        if not was_down or tally.restarts >= UNCOUNTED_RESTARTS:
            return False
        tally.restarts += 1
        return True

    def _attempt(
        self, call: Call, send: "Callable[[OpenAI], tuple[Answer, Tokens]]", attempt: int
    ) -> tuple[Sent[Answer] | Failure, Place]:
        """Make one attempt of a call when its turn has come. Return the answer and its place.

        A successful call keeps its place until ``Sent.end``.
        """
        with ExitStack() as leaving:
            place = leaving.enter_context(self.limiter.wait_for_turn(call.tokens, self.stop))
            name = ""
            if self.listener:
                name = self.listener.begun(self._usage_of_call(call, attempt, call.expected))
            started = time.monotonic()
            answer = self.endpoint.call(send)

            def count(tokens: Tokens, outcome: str) -> None:
                seconds = time.monotonic() - started
                if call.tokens:
                    self.limiter.bucket.correct(tokens.input + tokens.output - call.tokens)
                note_call(
                    "graphmill.model_call",
                    seconds,
                    model=self.endpoint.model,
                    attempt=attempt,
                    outcome=outcome,
                    input_tokens=tokens.input,
                    output_tokens=tokens.output,
                )
                if self.listener:
                    usage = self._usage_of_call(call, attempt, tokens, seconds, outcome)
                    self.listener.ended(usage, name)

            if not isinstance(answer, Failure):
                self.limiter.record_success(place)
                return Sent(*answer, leaving.pop_all(), count), place
        count(answer.tokens, answer.outcome)
        return answer, place

    def _record_timeout(self, place: Place, tally: Tally) -> bool:
        """Record a timeout. Return whether the call is repeated without counting as a failure.

        It is if too many calls were under way, but never in a query, because a user waits for it.
        If no other call was answered meanwhile, the watch must be on: it ends a run whose server
        never answers.
        """
        had_to_queue = self.limiter.record_timeout(place)
        goes_on = bool(self.watch.seconds) or self.limiter.answered_since(place.since)
        is_overload = had_to_queue and goes_on and not self.limiter.urgent
        if not is_overload or tally.timeouts >= UNCOUNTED_TIMEOUTS:
            return False
        tally.timeouts += 1
        return True

    def _probe_server(self) -> Failure | None:
        """Make the smallest possible call; return its failure, or None. Record only an answer."""
        started = time.monotonic()
        answer = self.endpoint.call(self.probe)
        if isinstance(answer, Failure):
            return answer
        if self.listener:
            seconds = time.monotonic() - started
            self.listener.ended(self._usage_of_call(PROBE, 1, answer, seconds, PROBE_OUTCOME))
        return None

    def _say(self, fact: str) -> None:
        if self.listener:
            self.listener.notify(fact)

    def _wait(self, failure: Failure, times: int) -> None:
        """Wait before the next attempt, as long as the server says or by exponential backoff."""
        seconds = failure.retry_after
        if seconds is None:
            seconds = backoff(times)
        sleep(seconds, self.stop)

    def _usage_of_call(
        self, call: Call, attempt: int, tokens: Tokens, seconds: float = 0.0, outcome: str = "ok"
    ) -> Usage:
        return Usage(
            call.row_id,
            self.endpoint.model,
            tokens.input,
            tokens.output,
            cached=False,
            seconds=seconds,
            outcome=outcome,
            cost=self.cost(tokens),
            cached_tokens=tokens.cached,
            attempt=attempt,
            texts=call.texts,
            estimated=tokens.estimated,
        )


def backoff(attempt: int) -> float:
    """Return the seconds to wait before the next attempt.

    The limit doubles from 0.5 to 60 seconds, and the result is a random time between half the limit
    and the limit.
    """
    limit = min(LONGEST_WAIT, 0.5 * 2 ** (attempt - 1))
    return limit * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
