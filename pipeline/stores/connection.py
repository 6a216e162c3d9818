"""What a database calls this process; outlive its restart, read two stores as of one moment, work
ahead in a thread."""

import math
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from pipeline.current_request import check_request
from pipeline.errors import LostConnectionError, OtherOwnerError
from pipeline.stores.base import Live
from pipeline.stores.reads import GraphState, GraphStore, VectorStore

Result = TypeVar("Result")
PAUSE_SECONDS = 0.5


def this_client() -> str:
    """What a database may call this process; up to 63 characters."""
    return f"graphmill {socket.gethostname()[:36]} process {os.getpid()}"


Start = Callable[[], object]
"""Starts a database that is ours to start, if it does not run."""


def reconnecting(work: Callable[[], Result], patience: float, start: Start | None = None) -> Result:
    """Do the work; after a lost connection do it again, for so many seconds from the first loss on.

    Raises LostConnectionError when the database does not come back, RequestEndedError when the
    request that it is done for is over, and what ``start`` does.
    """
    deadline = math.inf
    while True:
        check_request()
        try:
            return work()
        except LostConnectionError:
            lost = time.monotonic()
            deadline = min(deadline, lost + patience)
            if lost > deadline:
                raise
            if start is not None:
                start()
                start = None
            else:
                time.sleep(PAUSE_SECONDS)


Work = Callable[[VectorStore, GraphStore], Result]
PATIENCE = 10.0
"""Seconds a query waits for a database that went away."""
ATTEMPTS = 3


def read_together(
    vectors: VectorStore, graph: GraphStore, work: Work[Result], start: Start | None = None
) -> tuple[Result, tuple[str, ...]]:
    """What ``work`` returns, and what is to be said of the moment: that the two stores show
    different versions, or that the graph was being loaded. In one PostgreSQL neither can be. Work
    is done anew where the graph has changed meanwhile, or a database was restarted. Raises
    OtherOwnerError where the two stores are two owners'.
    """
    read = partial(reconnecting, partial(_read, vectors, graph, work), PATIENCE, start)
    result, live, shown = read()
    for _ in range(ATTEMPTS - 1):
        if shown is None:
            result, live, shown = read()
    return result, tuple(_notes(live, shown))


def _read(
    vectors: VectorStore, graph: GraphStore, work: Work[Result]
) -> tuple[Result, Live | None, GraphState | None]:
    """The last is None when the graph changed during the work. Work that half a load has led astray
    is to be done anew: LostConnectionError."""
    with vectors.reading() as at_moment:
        beside = graph.beside(at_moment)
        before = beside.shown()
        _refuse_two_owners(at_moment, before)
        try:
            result = work(at_moment, beside)
        except Exception as error:
            if beside.shown() == before and not before.loading:
                raise
            raise LostConnectionError(
                "stores: the graph was loaded as it was read; ask again"
            ) from error
        after = beside.shown()
        return result, at_moment.live(), after if after == before else None


def _refuse_two_owners(vectors: VectorStore, shown: GraphState) -> None:
    live = vectors.live()
    if live and live.owner and shown.owner and live.owner != shown.owner:
        raise OtherOwnerError(
            f"workspace '{vectors.workspace}': its vectors belong to owner {live.owner}, its graph"
            f" to owner {shown.owner}; name another workspace, or 'graphmill load --take-over' one"
            " of them"
        )


def _notes(live: Live | None, shown: GraphState | None) -> list[str]:
    if shown is None:
        return ["the graph was loaded while it was read, three times; ask again"]
    if shown.loading:
        return ["the graph is being loaded: what was found may be of two versions; ask again later"]
    if live is not None and shown.version != live.version:
        return [
            "the two stores show different versions: the last load did not end; run 'graphmill"
            " load'"
        ]
    return []


Item = TypeVar("Item")
_END = object()


@contextmanager
def ahead(items: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """The items in their order; while the block works on one, another thread makes the next. The
    first is begun at once. What making one raises is raised where it is asked for."""
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, iterator, _END)

        def made() -> Iterator[Item]:
            following = first
            while (item := following.result()) is not _END:
                following = pool.submit(next, iterator, _END)
                yield item  # pyright: ignore[reportReturnType]

        yield made()
