"""Send several small calls at once, to see whether a chat model's server keeps up with
``concurrency``."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipeline.doctor.finding import Finding
from pipeline.doctor.token_counts import RecordedCalls
from pipeline.errors import counted
from pipeline.models.base import ANSWERED, ChatReply, ChatRequest, Usage
from pipeline.models.endpoint.chat import OpenAIChat

MOST_AT_ONCE = 16
"""The most calls of the check. It must stay cheap, also if ``concurrency`` is in the hundreds."""
TOKENS_OF_A_REPLY = 64
"""The limit of each reply. The count to thirty is a little longer, so that most models come up to
it."""
TOKENS_OF_AN_EXTRACTION = 640
"""A typical reply to an extraction: about half of a text of 1,200 tokens, the size of the shipped
workflows."""
AT_ONCE = "doctor-at-once-"
"""The beginning of the row ids of calls that are sent together."""
SHORTEST_CALL = 1e-6
"""The least seconds of a call: they are a divisor, and a coarse clock may not have moved during the
call."""


@dataclass(frozen=True)
class Burst:
    """The outcome of ``calls`` calls at once, of which ``answered`` were answered in time.

    - ``alone`` and ``slowest`` are the seconds of one call alone, and of the slowest answered one.
    - ``scale`` says how many times as long as these calls a typical extraction takes.
    - ``timeout`` is the seconds that the settings give a call.
    """

    calls: int
    answered: int
    alone: float
    slowest: float
    scale: float
    timeout: float

    @property
    def slots(self) -> int:
        """Estimate how many calls the server works on at once.

        A server with few slots queues the other calls, so the slowest takes as many turns as there
        are calls for a slot.
        """
        turns = max(1.0, self.slowest / self.alone)
        return max(1, min(self.answered, round(self.answered / turns)))

    @property
    def extraction(self) -> float:
        """Return the seconds that the slowest of so many extractions at once would take."""
        return self.scale * self.slowest

    @property
    def is_in_time(self) -> bool:
        """Check that every call was answered, and that an extraction would take half of the timeout
        at most."""
        return self.answered == self.calls and self.extraction <= self.timeout / 2

    @property
    def wanted_timeout(self) -> float:
        """Return twice the seconds of an extraction after ``concurrency`` is lowered to ``slots``.

        Then no call queues, so it takes as long as a call alone.
        """
        seconds = self.slowest if self.slots == self.calls else self.alone
        return 2 * self.scale * seconds


def examine_concurrency(name: str, chat: OpenAIChat, heard: RecordedCalls) -> Iterator[Finding]:
    """Send ``concurrency`` small calls at once, MOST_AT_ONCE at most, and compare the slowest with
    the timeout.

    One call alone goes before them. Nothing is sent where calls are never under way together: with
    a ``concurrency`` of 1, or with limits per minute, which space the calls.
    """
    what = f"{name} concurrency"
    calls = min(chat.concurrency, MOST_AT_ONCE)
    if calls == 1 or chat.rate.limited:
        return
    # Nothing is retried: a retry would hide the failure that is looked for.
    model = replace(chat, concurrency=calls, max_retries=0, wait_for_model=0.0, urgent=True)
    before = len(heard.usages)
    (first,) = _ask(model, heard, "doctor-alone-", range(1))
    if first.reason:
        fact = f"a small call failed: {first.reason}: {first.message}"
        yield Finding("chat", what, "failed", fact, "check the server")
        return
    alone = slowest_answer(heard, before, chat.timeout)
    before = len(heard.usages)
    replies = _ask(model, heard, AT_ONCE, range(1, calls + 1))
    failure = next((reply for reply in replies if reply.reason not in (None, "timeout")), None)
    if failure:
        failed = sum(reply.reason is not None for reply in replies)
        fact = f"{failed} of {calls} calls at once failed: {failure.reason}: {failure.message}"
        action = f"check the server, or lower models.chat.{name}.concurrency"
        yield Finding("chat", what, "warning", fact, action)
        return
    answered = sum(reply.reason is None for reply in replies)
    slowest = slowest_answer(heard, before, chat.timeout)
    scale = max(1.0, TOKENS_OF_AN_EXTRACTION / max(TOKENS_OF_A_REPLY, first.output_tokens))
    yield finding_of(name, Burst(calls, answered, alone, slowest, scale, chat.timeout))


def finding_of(name: str, burst: Burst) -> Finding:
    """Return the finding on a burst, with the settings that would let every call end in time."""
    what = f"{name} concurrency"
    fact = (
        f"{burst.calls} calls at once: {in_seconds(burst.slowest)} the slowest,"
        f" {in_seconds(burst.alone)} a call alone"
    )
    if burst.is_in_time:
        return Finding("chat", what, "ok", fact)
    late = burst.calls - burst.answered
    if late:
        fact = f"{fact}; {counted(late, 'call')} timed out ({burst.timeout:g} s)"
    else:
        fact = (
            f"{fact}; an extraction may take {in_seconds(burst.extraction)} of {burst.timeout:g} s"
        )
    settings: list[str] = []
    if burst.slots < burst.calls:
        fact = f"{fact}; the server seems to work on about {burst.slots} at a time"
        settings.append(f"concurrency: {burst.slots}")
    if burst.wanted_timeout > burst.timeout:
        settings.append(f"timeout: {10 * math.ceil(burst.wanted_timeout / 10)}")
    return Finding(
        "chat", what, "warning", fact, f"set in models.chat.{name}: {', '.join(settings)}"
    )


def in_seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:,.0f} s"


def reply_speed(usages: Iterable[Usage]) -> float | None:
    """Return the tokens of replies that a server makes in a second; None if no call was answered.

    ``usages``: the calls of one doctor. Calls that were sent together tell the speed that a run
    has. Where there are none, a run has one call under way at a time, and calls alone tell it.
    """
    answered = [usage for usage in usages if usage.outcome in ANSWERED and usage.output_tokens]
    together = [usage for usage in answered if usage.row_id.startswith(AT_ONCE)]
    measured = together or answered
    tokens = sum(usage.output_tokens for usage in measured)
    times = [usage.seconds for usage in measured]
    seconds = max(times) if together else sum(times)
    return tokens / max(SHORTEST_CALL, seconds) if tokens else None


def _ask(model: OpenAIChat, heard: RecordedCalls, name: str, numbers: range) -> Sequence[ChatReply]:
    """Send one call for each number, as the row ``name`` and the number.

    The number comes first in the prompt: no two calls are equal, nor begin alike.
    """
    requests = [
        ChatRequest(
            f"{name}{number}",
            (
                {
                    "role": "user",
                    "content": f"({number}) Count from one to thirty, in words and in one line.",
                },
            ),
            max_tokens=TOKENS_OF_A_REPLY,
        )
        for number in numbers
    ]
    return model.complete(requests, heard)


def slowest_answer(heard: RecordedCalls, since: int, timeout: float) -> float:
    """Return the seconds of the slowest answered call after the first ``since`` ones; ``timeout``
    without any."""
    seconds = [usage.seconds for usage in heard.usages[since:] if usage.outcome in ANSWERED]
    return max(SHORTEST_CALL, max(seconds, default=timeout))
