"""The event loop in which code that is no coroutine runs coroutines."""

import asyncio
import threading
from functools import cache


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that runs in a thread of its own, the same for all calls.

    An asynchronous client cannot be used in several loops. The caller's thread may have a loop that
    runs, as in a notebook, and could not wait for a coroutine in it.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True, name="event loop").start()
    return loop
