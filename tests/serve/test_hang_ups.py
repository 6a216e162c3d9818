"""Requests of a key whose clients keep hanging up wait for a moment before anything is done for
them."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from pipeline.serve import hang_ups
from pipeline.serve.hang_ups import TOLERATED, DelayAfterHangUps
from pipeline.serve.responses import HUNG_UP
from pipeline.serve.usage import HALF_LIFE, Usage
from tests.serve.test_turns import Clock

BODY: Message = {"type": "http.request", "body": b"{}", "more_body": False}
GONE: Message = {"type": "http.disconnect"}


@dataclass
class Requests:
    """Requests of one key to an application that answers each with a status."""

    others_wait: bool = True
    status: int = 200
    clock: Clock = field(default_factory=Clock)
    begun: int = 0
    bodies: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.app = DelayAfterHangUps(self._answer, lambda key: self.others_wait, Usage(self.clock))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        self.bodies.append(await receive())
        await send({"type": "http.response.start", "status": self.status, "headers": []})

    def ask(self, first: Message = BODY) -> None:
        messages = [first]

        async def receive() -> Message:
            return messages.pop()

        async def send(message: Message) -> None:
            del message

        scope = {"type": "http", "path": "/query", "access": SimpleNamespace(turns_key="busy")}
        asyncio.run(self.app(scope, receive, send))

    def hang_up(self, times: int) -> None:
        self.status = HUNG_UP
        for _ in range(times):
            self.ask()
        self.status = 200


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_ups, "DELAY_SECONDS", 0.001)


def test_who_hangs_up_again_and_again_is_gone_before_anything_is_done():
    requests = Requests()
    requests.hang_up(int(TOLERATED) + 1)
    requests.begun = 0
    requests.ask(GONE)
    assert requests.begun == 0
    # That was a hang-up as well.
    assert requests.app.recent.seconds("busy") == TOLERATED + 2


def test_a_body_that_does_not_come_within_its_time_is_answered_also_after_a_delay():
    requests = Requests()
    requests.hang_up(int(TOLERATED) + 1)
    requests.begun = 0
    sent: list[Message] = []

    async def receive() -> Message:
        raise HTTPException(408, "slow", {"Connection": "close"})

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "path": "/query", "access": SimpleNamespace(turns_key="busy")}
    asyncio.run(requests.app(scope, receive, send))
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]
    assert b"slow_request" in sent[1]["body"]
    assert requests.begun == 0


def test_who_stays_for_the_delay_is_answered_with_the_whole_body():
    requests = Requests()
    requests.hang_up(int(TOLERATED) + 1)
    requests.ask()
    assert requests.bodies[-1] == BODY


def test_there_is_no_delay_for_few_hang_ups_or_old_ones_or_while_nobody_else_waits(
    monkeypatch: pytest.MonkeyPatch,
):
    async def sleep(seconds: float) -> None:
        raise AssertionError(seconds)

    requests = Requests()
    requests.hang_up(int(TOLERATED))
    monkeypatch.setattr(hang_ups.asyncio, "sleep", sleep)
    requests.ask()
    requests.hang_up(1)
    with pytest.raises(AssertionError):
        requests.ask()
    requests.others_wait = False
    requests.ask()
    requests.others_wait = True
    requests.clock.now += 2 * HALF_LIFE
    requests.ask()


def test_answers_are_no_hang_ups_and_failures_without_an_answer_are():
    requests = Requests(status=500)
    requests.ask()
    assert requests.app.recent.seconds("busy") == 0

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise ConnectionResetError

    requests.app = DelayAfterHangUps(fail, lambda key: True, Usage(requests.clock))
    with pytest.raises(ConnectionResetError):
        requests.ask()
    assert requests.app.recent.seconds("busy") == 1
