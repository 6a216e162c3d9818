"""Wait for a model server that is starting, or that restarts during a run."""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pipeline.errors import ModelError
from pipeline.models.conversations import StoppedError
from pipeline.models.endpoint.client import Endpoint, Failure
from pipeline.models.endpoint.limits import sleep

SECONDS_FOR_A_REFUSAL = 30.0
"""Time to wait for a server that refuses connections before it has answered any call. It may be
about to listen. More often the address is wrong or nobody has started the server, so the wait is
short."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between two probes of a server that is starting. Each pause is twice the previous one."""
SECONDS_BETWEEN_MESSAGES = 20.0
"""Time between two messages that say why the run waits."""
UNAVAILABLE = (502, 503, 504)
"""HTTP statuses of a server that is starting, or of a proxy in front of one. A single call may also
end in one, so a probe of the server decides."""
STATUS_IN_FRONT = re.compile(r"^HTTP \d{3}: (\d{3}\b:? ?)?")
"""The HTTP status at the beginning of a failure's message, which messages about the wait leave
out."""

Probe = Callable[[], Failure | None]
"""Function that makes the smallest possible call. It returns the failure, or None."""
Say = Callable[[str], None]
"""Function that shows a message to the user."""


@dataclass
class ServerWatch:
    """State of one model's server during a run, shared by all threads.

    ``seconds``: how long to wait for a server that does not answer; 0 means no wait. ``enough``:
    the number of failed calls in a row that end the work, if no call succeeded for that time.
    """

    endpoint: Endpoint
    seconds: float
    enough: int
    answered: bool = False
    failures: int = 0
    failing_since: float | None = None
    answered_at: float = -1.0
    down_at: float = -1.0
    down_since: float | None = None
    refused_since: float | None = None
    said_at: float | None = None
    probing: threading.Lock = field(default_factory=threading.Lock)
    counting: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Forget the previous run, because its server may have been stopped since."""
        self.answered = False
        self.failures, self.failing_since = 0, None
        self._note_up()

    def record_success(self) -> None:
        """Record that a call was answered."""
        self.answered = True
        with self.counting:
            self.failures, self.failing_since = 0, None
        self._note_up()

    def record_failure(self, failure: Failure) -> None:
        """Record that a call failed. Raise ModelError when no call has succeeded for too long."""
        now = time.monotonic()
        with self.counting:
            self.failures += 1
            self.failing_since = self.failing_since or now
            silence = now - self.failing_since
            is_too_long = silence > self.seconds > 0
            is_hopeless = is_too_long and self.failures >= self.enough
        if is_hopeless:
            raise ModelError(
                f"{self.endpoint.where}: no call has succeeded for {minutes(silence)}; the last"
                f" failed with: {failure.message}; check the server, then run again: what was"
                " answered is kept"
            )

    def answered_since(self, moment: float) -> bool:
        """Return whether a call that ended after ``moment`` (``time.monotonic``) was answered."""
        return self.answered_at > moment

    def is_down(self, failure: Failure) -> bool:
        """Return whether the failure means that the server is starting, not that the call is at
        fault."""
        if not self.seconds or failure.fatal:
            return False
        if not failure.listens:
            # A container that restarts loses its DNS name. The address of a server that has
            # answered is right.
            return failure.refused or self.answered
        return failure.status in UNAVAILABLE and failure.reason == "server_error"

    def await_server(self, failure: Failure, probe: Probe, stop: threading.Event, say: Say) -> bool:
        """Wait until the server answers. Return whether it was really down: False if only this call
        failed.

        One thread probes the server while all others wait for its result. Raises ModelError when
        the server has not answered for too long, and StoppedError when ``stop`` is set.
        """
        failed_at = time.monotonic()
        self._acquire(stop)
        try:
            if failure.retry_after and not self.answered_since(failed_at):
                self._report_wait(failure, say)
                sleep(failure.retry_after, stop)
            pause = SHORTEST_PAUSE
            while not self.answered_since(failed_at):
                found = probe()
                if found is None or not self.is_down(found):
                    self._note_up()
                    break
                self.down_at = time.monotonic()
                self._report_wait(found, say)
                sleep(max(pause, found.retry_after or 0.0), stop)
                pause = min(LONGEST_PAUSE, 2 * pause)
            return self.down_at > failed_at
        finally:
            self.probing.release()

    def _acquire(self, stop: threading.Event) -> None:
        """Take the lock of the probing thread. Raise StoppedError when ``stop`` is set."""
        while not self.probing.acquire(timeout=0.1):
            if stop.is_set():
                raise StoppedError

    def _note_up(self) -> None:
        """Record that the server answers."""
        self.answered_at = time.monotonic()
        self.down_since = self.refused_since = self.said_at = None

    def _report_wait(self, failure: Failure, say: Say) -> None:
        """Tell the user why the run waits, but not too often.

        Raises ModelError if the wait is too long, or would be after the pause that the server
        requests.
        """
        now = time.monotonic()
        self.down_since = self.down_since or now
        if failure.listens:
            self.refused_since = None
        else:
            self.refused_since = self.refused_since or now
        since, limit = self.down_since, self.seconds
        if self.refused_since is not None and not self.answered:
            since, limit = self.refused_since, min(SECONDS_FOR_A_REFUSAL, self.seconds)
        waited = now - since
        if waited + (failure.retry_after or 0.0) > limit:
            raise self._too_long(failure, limit)
        if self.said_at is None or now - self.said_at >= SECONDS_BETWEEN_MESSAGES:
            self.said_at = now
            fact = STATUS_IN_FRONT.sub("", failure.message)
            address = self.endpoint.address
            server = "the model server" if address in fact else f"the model server at {address}"
            say(f"waiting for {server}: {fact} ({minutes(waited)} of {minutes(limit)})")

    def _too_long(self, failure: Failure, limit: float) -> ModelError:
        """Return the error that ends the wait."""
        if not failure.listens:
            return self.endpoint.silence_error(failure)
        asks = ""
        if failure.retry_after:
            asks = f", and asks to wait {failure.retry_after:,.0f} s more"
        return ModelError(
            f"{self.endpoint.where}: {self.endpoint.address} has not been ready within"
            f" {minutes(limit)} ({failure.message}){asks}; check the server or raise"
            " wait_for_model, then run again: what was answered is kept"
        )


def minutes(seconds: float) -> str:
    """Return the time as minutes and seconds, such as "1:20" for 80 seconds."""
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02}"
