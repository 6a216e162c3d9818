"""Wait for a model server that is starting, or that starts again in the middle of a run."""

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
"""A server that refuses connections before it has answered any call may be about to listen; more
often the address is wrong or nobody has started it, so the wait is short."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""The seconds between two looks at a server that is starting; each pause is twice the one
before."""
SECONDS_BETWEEN_MESSAGES = 20.0
UNAVAILABLE = (502, 503, 504)
"""HTTP statuses of a server that is starting, or of a proxy in front of one. A single call may also
end in one, so a look at the server decides."""
STATUS_IN_FRONT = re.compile(r"^HTTP \d{3}: (\d{3}\b:? ?)?")

Look = Callable[[], Failure | None]
"""A function that asks the server for next to nothing, and returns why that failed, or None."""
Say = Callable[[str], None]


@dataclass
class ServerWatch:
    """Watch the server of one model during a run; all threads share the watch.

    ``seconds``: how long to wait for a server that does not answer; 0: not at all. ``enough``: so
    many failed calls in a row, without a success for that long, end the work.
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
    looking: threading.Lock = field(default_factory=threading.Lock)
    counting: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> None:
        """Forget the run before: its server may have been stopped since."""
        self.answered = False
        self.failures, self.failing_since = 0, None
        self._note_up()

    def succeeded(self) -> None:
        """Note that a call was answered."""
        self.answered = True
        with self.counting:
            self.failures, self.failing_since = 0, None
        self._note_up()

    def failed(self, failure: Failure) -> None:
        """Note that a call failed. Raises ModelError when no call has succeeded for too long."""
        now = time.monotonic()
        with self.counting:
            self.failures += 1
            self.failing_since = self.failing_since or now
            silence = now - self.failing_since
            hopeless = (
                bool(self.seconds) and self.failures >= self.enough and silence > self.seconds
            )
        if hopeless:
            raise ModelError(
                f"{self.endpoint.where}: no call has succeeded for {minutes(silence)}; the last"
                f" failed with: {failure.message}; look at the server, then run again: what was"
                " answered is kept"
            )

    def answered_since(self, moment: float) -> bool:
        """Return whether a call that ended after ``moment`` (monotonic) was answered."""
        return self.answered_at > moment

    def is_down(self, failure: Failure) -> bool:
        """Return whether the failure is that of a server that is starting, not one of the call."""
        if not self.seconds or failure.fatal:
            return False
        if not failure.listens:
            # A container that restarts loses its DNS name. The address of a server that has
            # answered is right.
            return failure.refused or self.answered
        return failure.status in UNAVAILABLE and failure.reason == "server_error"

    def await_server(self, failure: Failure, look: Look, stop: threading.Event, say: Say) -> bool:
        """Return once the server answers: True if it was really down, False if only this call had
        failed.

        One thread looks at the server while all others wait for what it finds. Raises ModelError
        when the server has not answered for too long, StoppedError when ``stop`` is set.
        """
        failed_at = time.monotonic()
        self._acquire(stop)
        try:
            if failure.retry_after and not self.answered_since(failed_at):
                self._note(failure, say)
                sleep(failure.retry_after, stop)
            pause = SHORTEST_PAUSE
            while not self.answered_since(failed_at):
                found = look()
                if found is None or not self.is_down(found):
                    self._note_up()
                    break
                self.down_at = time.monotonic()
                self._note(found, say)
                sleep(max(pause, found.retry_after or 0.0), stop)
                pause = min(LONGEST_PAUSE, 2 * pause)
            return self.down_at > failed_at
        finally:
            self.looking.release()

    def _acquire(self, stop: threading.Event) -> None:
        while not self.looking.acquire(timeout=0.1):
            if stop.is_set():
                raise StoppedError

    def _note_up(self) -> None:
        """Note that the server answers."""
        self.answered_at = time.monotonic()
        self.down_since = self.refused_since = self.said_at = None

    def _note(self, failure: Failure, say: Say) -> None:
        """Report why the run waits. Raises ModelError when the wait has been too long, or would
        become so."""
        now = time.monotonic()
        self.down_since = self.down_since or now
        self.refused_since = None if failure.listens else (self.refused_since or now)
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
        if not failure.listens:
            return self.endpoint.silent(failure)
        asks = (
            f", and asks to wait {failure.retry_after:,.0f} s more" if failure.retry_after else ""
        )
        return ModelError(
            f"{self.endpoint.where}: {self.endpoint.address} has not been ready within"
            f" {minutes(limit)} ({failure.message}){asks}; look at the server or raise"
            " wait_for_model, then run again: what was answered is kept"
        )


def minutes(seconds: float) -> str:
    """Return "1:20" for 80 seconds."""
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02}"
