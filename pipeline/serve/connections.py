"""Close connections over which no complete request arrives, or whose client reads no answer.

uvicorn itself would wait for ever.
"""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


class Impatient(H11Protocol):
    """A connection that is closed after ``seconds`` in which its client does nothing.

    ``Guard`` waits for a request's body, because it can still answer then. A connection whose body
    nobody reads is closed here. So is one whose client reads nothing of an answer for that long.
    """

    seconds: float
    timer: asyncio.TimerHandle | None = None
    unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        # With this limit ``pause_writing`` is called whenever bytes of an answer have to wait.
        transport.set_write_buffer_limits(high=0)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()
        self._stop_unread()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_unread()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_unread()

    def _watch(self) -> None:
        """Start the clock while no request is being answered, and stop it during an answer."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self.timer is None:
            self.timer = self.loop.call_later(self.seconds, self._cut)

    def _stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _watch_unread(self) -> None:
        """Look after some time whether the client has read anything of what waits for it."""
        # Nothing is added meanwhile, since uvicorn waits for ``resume_writing``.
        waiting = self.transport.get_write_buffer_size()
        self.unread_timer = self.loop.call_later(self.seconds, self._cut_unread, waiting)

    def _stop_unread(self) -> None:
        if self.unread_timer is not None:
            self.unread_timer.cancel()
            self.unread_timer = None

    def _cut_unread(self, waited_before: int) -> None:
        if self.transport.get_write_buffer_size() < waited_before:
            self._watch_unread()
        else:
            # ``close`` would wait until the client has read everything.
            self.transport.abort()

    def _cut(self) -> None:
        self.timer = None
        if not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self.transport.close()


def impatient(seconds: float) -> type[Impatient]:
    """Return a protocol that closes a connection if a request's headers take longer than this, or
    if nothing of an answer is read for that long."""
    return type("ImpatientFor", (Impatient,), {"seconds": seconds})
