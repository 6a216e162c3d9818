"""Phases of a bad day: what an endpoint is like for a while, drawn by a seed."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.openai_faults import Faults
from tests.servers.openai_limits import Limits
from tests.servers.openai_server import OpenAIServer

FAULTY, ONE_SLOT, LOADING, RESTART, LIMITED = "faulty", "one slot", "loading", "restart", "limited"
WEIGHTS = {FAULTY: 8, ONE_SLOT: 2, LOADING: 1, RESTART: 2, LIMITED: 2}
"""How often each phase is drawn; in every one of them single requests have faults too."""
LIMIT = Limits(requests_per_minute=10, minute=1.0)


class Phases:
    """One phase after the other until ``over`` is set. ``seen`` counts them."""

    def __init__(
        self, endpoint: OpenAIServer, faults: Faults, seed: int, seconds: tuple[float, float]
    ):
        self.endpoint, self.faults, self.seconds = endpoint, faults, seconds
        self.draw = random.Random(seed)
        self.over = threading.Event()
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        self.endpoint.faults = self.faults
        try:
            while not self.over.is_set():
                name = self.draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
                self.seen[name] += 1
                self.go_through(name, self.draw.uniform(*self.seconds))
        finally:
            self.endpoint.faults = None

    def go_through(self, name: str, seconds: float) -> None:
        endpoint = self.endpoint
        endpoint.slots.limit = 1 if name == ONE_SLOT else None
        endpoint.limits = LIMIT if name == LIMITED else None
        if name == RESTART:
            endpoint.stop_listening()
            self.over.wait(seconds / 2)
            endpoint.loading = True  # a model server listens before it has read its model
            endpoint.listen_again()
            self.over.wait(seconds / 2)
        else:
            endpoint.loading = name == LOADING
            self.over.wait(seconds)
        endpoint.slots.limit, endpoint.limits, endpoint.loading = None, None, False


@contextmanager
def bad_day(phases: Phases) -> Iterator[None]:
    """Let the phases go by until the block ends; the endpoint behaves well afterwards."""
    thread = threading.Thread(target=phases.run)
    thread.start()
    try:
        yield
    finally:
        phases.over.set()
        thread.join()
