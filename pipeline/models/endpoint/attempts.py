"""Calls of an endpoint: their queue, their retries, and the record of every attempt.

The models of this folder make their calls by `Attempts`, which `RemoteModel.attempts` gives them.
"""

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
RETRIES_AFTER_TIMEOUT = 1
"""Number of retries after a timeout. A third try rarely succeeds, and each try costs the whole
timeout."""
UNCOUNTED_TIMEOUTS = 6
"""Number of timeouts under overload that do not count as failures of a call. Each halves the number
of calls at once: 64 become one after six."""
UNCOUNTED_RESTARTS = 3
"""Number of times that a call is sent again after the server was down, without counting as a
failure. Without this limit, a prompt that crashes its server would be sent for ever, if a proxy
answers 502 meanwhile."""
LONGEST_THROTTLING = 3600.0
"""Time in seconds that a run continues although the endpoint refuses every call as too many."""
SHORTEST_WAIT = 0.5
LONGEST_WAIT = 60.0
"""The first and the largest limit of a pause in seconds between two attempts, where the server
names none."""
MOST_DOUBLINGS = 7
"""Number of times that the limit doubles: after seven, it exceeds LONGEST_WAIT."""
CHARACTERS_PER_TOKEN = 4
"""A usual ratio for English. It is used until the reply says how many tokens the call had."""


@dataclass(frozen=True)
class Call:
    """Facts about a call before it is sent.

    - ``row_id``: the row of a table that the call is about, "" if it is about none or several.
    - ``characters``: the length of what is sent.
    - ``reserved_tokens``: an estimate of the tokens sent and received, which the rate limit
      reserves; 0 if there is no such limit.
    - ``texts``: the number of texts that are embedded or ranked.
    - ``searches``: the number of searches that a rerank model charges for.
    """

    row_id: str
    characters: int
    reserved_tokens: int = 0
    texts: int = 0
    searches: int = 0

    @property
    def expected(self) -> Tokens:
        """The tokens that the usage record has until the reply comes, estimated by characters."""
        return Tokens(
            self.characters // CHARACTERS_PER_TOKEN, 0, searches=self.searches, estimated=True
        )


PROBE = Call("", 0)
"""The call that shows whether a server answers: it is about no row."""
PROBE_OUTCOME = "look"
"""Outcome of a probe in the usage records. Records of earlier runs have this word too."""


@dataclass
class RetryWindow:
    """Decide how long to continue when calls get no answer.

    If no call ever got one and the server does not listen, the work ends at once. Otherwise it ends
    after ``limit`` failed calls in a row, each with its retries. If the endpoint refuses all calls
    as too many, it ends after ``throttling`` seconds (None means LONGEST_THROTTLING).

    ``answered``: whether any call has got an answer. ``calls_without_answer``: the number of calls
    since the last answer. ``heard_at``: the time of the last answer.
    """

    endpoint: Endpoint
    limit: int
    throttling: float | None = None
    answered: bool = False
    calls_without_answer: int = 0
    heard_at: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def record_answer(self) -> None:
        """Record that a call got an answer."""
        with self.lock:
            self.answered = True
            self.calls_without_answer = 0
            self.heard_at = time.monotonic()

    def was_ever_there(self, failure: Failure) -> bool:
        """Return whether a server listened at the address at any time, up to this failure."""
        return failure.listens or self.answered

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
            self.record_answer()
            return
        with self.lock:
            self.calls_without_answer += 1
            is_over_limit = self.calls_without_answer >= self.limit
            if is_over_limit or not self.was_ever_there(failure):
                raise self.endpoint.silence_error(failure)


@dataclass(frozen=True)
class Sent(Generic[Answer]):
    """A call that is being answered.

    ``held`` holds its place among the calls under way. ``record_usage`` gets the tokens and the
    outcome.
    """

    answer: Answer
    tokens: Tokens
    held: ExitStack
    record_usage: Callable[[Tokens, str], None]

    def end(self, tokens: Tokens, outcome: str = "ok") -> None:
        """Free the place of the call, and record its tokens and outcome."""
        self.held.close()
        self.record_usage(tokens, outcome)


@dataclass
class Tally:
    """Counts of what the attempts of one call have met.

    Only ``failures`` use up retries. ``throttlings`` do not, nor do ``timeouts`` and ``restarts``
    up to `UNCOUNTED_TIMEOUTS` and `UNCOUNTED_RESTARTS`: the server is at fault, not the call.
    """

    attempts: int = 0
    failures: int = 0
    throttlings: int = 0
    timeouts: int = 0
    restarts: int = 0

    def has_retries_left(self, failure: Failure, max_retries: int) -> bool:
        """Return whether the call may be sent again after the last of its failures."""
        if failure.reason == "timeout":
            max_retries = min(max_retries, RETRIES_AFTER_TIMEOUT)
        return failure.passing and self.failures <= max_retries


@dataclass(frozen=True)
class Attempts:
    """Calls of one model, with retries and limits.

    ``max_retries``: the number of retries after passing failures (``Failure.passing``). Three cases
    do not count as failures of a call: too many calls (429), a server that is starting (``watch``),
    and a timeout because the server had no free slot. After a fatal failure, such as a refused key,
    there is no retry of any call; see `Failure`. ``send_smallest_call``: makes the smallest
    possible call, which shows whether the server answers.
    """

    endpoint: Endpoint
    limiter: Limiter
    max_retries: int
    cost: Callable[[Tokens], float | None]
    stop: threading.Event
    retry_window: RetryWindow
    watch: ServerWatch
    send_smallest_call: "Callable[[OpenAI], Tokens]"
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
            result, place = self._attempt(call, send, tally.attempts)
            if not isinstance(result, Failure):
                self.retry_window.record_answer()
                self.watch.record_success()
                return result
            # The error is raised here and not where it was caught, so that no traceback contains
            # the request and its headers.
            if result.fatal:
                raise result.fatal
            final_failure = self._give_up_or_wait(result, place, tally)
            if final_failure:
                self.retry_window.record_failure(final_failure)
                return final_failure

    def _give_up_or_wait(self, failure: Failure, place: Place, tally: Tally) -> Failure | None:
        """Return the final failure of the call, or None if it is to be sent again.

        Any pause before the next attempt is over when None is returned. The failure is counted in
        ``tally``, and the limiter and the watch are told of it.

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
        is_fault_of_server = (failure.status or 0) >= 500
        if is_fault_of_server:
            # A pause that is too long for this call would also hold up all others.
            pause = 0.0 if is_too_late else (failure.retry_after or 0.0)
            self.limiter.record_overload(pause)
        may_retry = tally.has_retries_left(failure, self.max_retries) and not is_too_late
        if not may_retry or not self.retry_window.was_ever_there(failure):
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
        """Make one attempt of a call when its turn has come. Return the result and its place.

        A successful call keeps its place until ``Sent.end``.
        """
        with ExitStack() as leaving:
            turn = self.limiter.wait_for_turn(call.reserved_tokens, self.stop)
            place = leaving.enter_context(turn)
            usage_id = ""
            if self.listener:
                usage_id = self.listener.begun(self._usage_of_call(call, attempt, call.expected))
            started = time.monotonic()
            result = self.endpoint.call(send)

            def record_usage(tokens: Tokens, outcome: str) -> None:
                seconds = time.monotonic() - started
                if call.reserved_tokens:
                    used_tokens = tokens.input + tokens.output
                    self.limiter.bucket.correct(used_tokens - call.reserved_tokens)
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
                    self.listener.ended(usage, usage_id)

            if not isinstance(result, Failure):
                self.limiter.record_success(place)
                answer, tokens = result
                held = leaving.pop_all()
                return Sent(answer, tokens, held, record_usage), place
        # The place is free before the usage is written, so that the next call need not wait for it.
        record_usage(result.tokens, result.outcome)
        return result, place

    def _record_timeout(self, place: Place, tally: Tally) -> bool:
        """Record a timeout. Return whether the call is repeated without counting as a failure.

        It is repeated if the server was overloaded: too many calls were under way. If no call was
        answered meanwhile, this needs the watch, which ends the run of a server that never answers.
        A call of a query always counts, because a user waits for it.
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
        result = self.endpoint.call(self.send_smallest_call)
        if isinstance(result, Failure):
            return result
        tokens = result
        if self.listener:
            seconds = time.monotonic() - started
            self.listener.ended(self._usage_of_call(PROBE, 1, tokens, seconds, PROBE_OUTCOME))
        return None

    def _say(self, fact: str) -> None:
        if self.listener:
            self.listener.notify(fact)

    def _wait(self, failure: Failure, attempt: int) -> None:
        """Wait before the next attempt, as long as the server says or by exponential backoff.

        ``attempt``: how often the call has failed in this way.
        """
        seconds = failure.retry_after
        if seconds is None:
            seconds = backoff(attempt)
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
    # A call may be refused as one too many thousands of times. No float holds 2 to that power.
    doublings = min(attempt - 1, MOST_DOUBLINGS)
    limit = min(LONGEST_WAIT, SHORTEST_WAIT * 2**doublings)
    return limit * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
