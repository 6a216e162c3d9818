"""Measure from outside how the rows of a Neo4j grow while a load writes them."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from neo4j import GraphDatabase

EVERY_SECONDS = 0.05
NODES = "MATCH (n) RETURN count(n)"
RELATIONSHIPS = "MATCH ()-[r]->() RETURN count(r)"
"""Neo4j keeps both numbers: asking costs it nothing."""

Samples = list[tuple[float, int]]


class Progress:
    """Counts both, again and again, while the block runs."""

    def __init__(self, address: Mapping[str, Any]) -> None:
        self.nodes: Samples = []
        self.relationships: Samples = []
        self._address = address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._count)

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _count(self) -> None:
        auth = (self._address["user"], self._address["password"])
        with (
            GraphDatabase.driver(self._address["uri"], auth=auth) as driver,
            driver.session(database=self._address["database"]) as session,
        ):
            while not self._over.is_set():
                nodes = session.run(NODES).single(strict=True)[0]
                self.nodes.append((time.perf_counter(), nodes))
                relationships = session.run(RELATIONSHIPS).single(strict=True)[0]
                self.relationships.append((time.perf_counter(), relationships))
                self._over.wait(EVERY_SECONDS)


def tenths(samples: Samples, rows: int) -> list[float]:
    """Return the rows a second in each tenth of the last ``rows`` rows.

    Time runs from the first commit to the last. With fewer than eleven commits there are no rates.
    """
    base = samples[-1][1] - rows
    commits = _first_seen([(at, count - base) for at, count in samples if count > base])
    times, counts = np.array(commits).T
    if len(commits) < 11:
        return []
    bounds = np.linspace(counts[0], counts[-1], 11)
    return [float(rate) for rate in np.diff(bounds) / np.diff(np.interp(bounds, counts, times))]


def _first_seen(samples: Sequence[tuple[float, int]]) -> Samples:
    first: dict[int, float] = {}
    for at, count in samples:
        first.setdefault(count, at)
    return [(at, count) for count, at in sorted(first.items())]
