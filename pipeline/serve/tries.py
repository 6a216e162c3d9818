"""Count wrong keys by the address that sent them; after too many, each is answered with a delay."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.types import Scope

LOG = logging.getLogger("graphmill.serve")
TRIES, TRIES_OF_ALL, TRY_SECONDS = 10, 200, 300
"""Wrong keys that one address, and all addresses together, may send in so many seconds."""
ADDRESSES = 1000
"""The most addresses that are remembered. For a new one, the one with the least left is dropped."""
EVERYBODY = ""
LATE_SECONDS = 1.0
"""The delay of an answer to a wrong key after too many of them."""


@dataclass
class Tries:
    """The wrong keys that one process was sent.

    For each address it keeps the moment when none of its wrong keys counts any more. A right key is
    never delayed. Otherwise a stranger could lock out everybody behind the same proxy.
    """

    clock: Callable[[], float] = time.monotonic
    late_seconds: float = LATE_SECONDS
    clear_at: dict[str, float] = field(default_factory=dict)

    async def count(self, address: str) -> int:
        """Count a wrong key and return 0; after too many, wait, and return the seconds until the
        next is answered at once."""
        seconds = await self.wait(address)
        if seconds:
            return seconds
        self.add(address)
        if self.seconds_to_wait(address):
            LOG.warning("too many wrong keys from %s; more of them are answered late", address)
        return 0

    async def wait(self, address: str) -> int:
        """Wait if the address has sent too many wrong keys, and return the seconds until the next
        is answered at once; return 0 if it has not."""
        seconds = self.seconds_to_wait(address)
        if seconds:
            await asyncio.sleep(self.late_seconds)
        return seconds

    def seconds_to_wait(self, address: str) -> int:
        """Return the seconds until another wrong key is answered at once; 0 for now."""
        waits = []
        for who, most in _limits(address):
            # Each wrong key moves the moment by this much; it may be TRY_SECONDS ahead at most.
            seconds_of_one = TRY_SECONDS / most
            waits.append(self._clear_at(who) + seconds_of_one - TRY_SECONDS)
        return max(0, math.ceil(max(waits) - self.clock()))

    def add(self, address: str) -> None:
        if address not in self.clear_at and len(self.clear_at) > ADDRESSES:
            addresses = self.clear_at.keys() - {EVERYBODY}
            del self.clear_at[min(addresses, key=self.clear_at.__getitem__)]
        for who, most in _limits(address):
            self.clear_at[who] = self._clear_at(who) + TRY_SECONDS / most

    def _clear_at(self, who: str) -> float:
        return max(self.clear_at.get(who, 0), self.clock())


def _limits(address: str) -> list[tuple[str, int]]:
    return [(address, TRIES), (EVERYBODY, TRIES_OF_ALL)]


def sender_of(scope: Scope) -> str:
    """Return the address whose wrong keys are counted for a request."""
    client = scope.get("client")
    return counted_address(client[0] if client else "")


def counted_address(host: str) -> str:
    """Return the address itself; of IPv6 its /64 network, since one machine may have all of it."""
    address = address_of(host)
    if address is None:
        return "unknown"
    if isinstance(address, IPv6Address):
        return str(ip_network((address, 64), strict=False))
    return str(address)


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a host is, or None for a name.

    An IPv4 address that is written as one of IPv6 is returned as IPv4.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address
