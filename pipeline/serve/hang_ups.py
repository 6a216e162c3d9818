"""Delay the requests of a key whose clients keep hanging up, so that those who do so again cost
little."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.serve.failures import refused_by, respond
from pipeline.serve.responses import HUNG_UP
from pipeline.serve.usage import Usage

if TYPE_CHECKING:
    from pipeline.serve.access import Access

TOLERATED = 20.0
"""The recent hang-ups of a key that cause no delay. A page that asks anew with each letter typed
stays below."""
DELAY_SECONDS = 0.25
"""The delay of a request. It is short beside the wait for a turn on a busy server, and longer than
the time after which a client hangs up that wants no answer."""


@dataclass(frozen=True)
class DelayAfterHangUps:
    """An ASGI application around another that delays requests of keys with many recent hang-ups.

    Most of the work on a request is done between its arrival and its turn. A client that hangs up
    within the delay causes none of it. There is no delay while ``others_wait``, which gets the key,
    returns False.
    """

    app: ASGIApp
    others_wait: Callable[[str], bool]
    recent: Usage = field(default_factory=Usage)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        access: Access | None = scope.get("access")
        if access is None or scope["type"] != "http":
            return await self.app(scope, receive, send)
        key, first = access.turns_key, None
        if self.recent.seconds(key) > TOLERATED and self.others_wait(key):
            await asyncio.sleep(DELAY_SECONDS)
            try:
                first = await receive()
            except HTTPException as error:
                # The body does not come, or is too large. Only the application inside answers such
                # errors by itself.
                answer = respond(refused_by(error), error.headers)
                return await answer(scope, receive, send)
            if first["type"] == "http.disconnect":
                self.recent.add(key, 1)
                return
        messages = [] if first is None else [first]
        answered = False

        async def received() -> Message:
            return messages.pop() if messages else await receive()

        async def noted(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = message["status"] != HUNG_UP
            await send(message)

        try:
            await self.app(scope, received, noted)
        finally:
            if not answered:
                self.recent.add(key, 1)
