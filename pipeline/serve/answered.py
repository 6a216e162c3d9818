"""An answer, or why there is none; none to those who have hung up."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pipeline.serve.failures import failure_of, respond

HUNG_UP = 499
"""For the log: nobody is there to get it."""


async def answered(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """What ``work`` brings, its errors told. It is cancelled when the client hangs up: a query that waits for its turn
    is then never begun."""
    answer, gone = asyncio.ensure_future(work), asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else Response(status_code=HUNG_UP)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        return respond(failure_of(error))
    finally:
        answer.cancel()
        gone.cancel()


async def _hung_up(request: Request) -> None:
    """Its body has been read: nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
