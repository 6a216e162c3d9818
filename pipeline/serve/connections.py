"""Close connections over which no complete request arrives; uvicorn itself would wait for ever."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def impatient(seconds: float) -> type[H11Protocol]:
    """Return a protocol that closes a connection if a request's headers take longer than this.

    ``Guard`` waits for a request's body, because it can still answer then. A connection whose body
    nobody reads is closed here.
    """

    class Impatient(H11Protocol):
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().connection_made(transport)
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

        def _watch(self) -> None:
            """Start the clock while no request is being answered, and stop it during an answer."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
            elif self.timer is None:
                self.timer = self.loop.call_later(seconds, self._cut)

        def _stop(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

        def _cut(self) -> None:
            self.timer = None
            if not self.transport.is_closing():
                self._unset_keepalive_if_required()
                self.transport.close()

    return Impatient
