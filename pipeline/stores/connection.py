"""Helpers for work with databases: name this process, retry after a lost connection, read two
stores consistently, and produce items ahead in a thread."""

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
    """Return the name by which databases list this process, of up to 63 characters."""
    return f"graphmill {socket.gethostname()[:36]} process {os.getpid()}"


Start = Callable[[], object]
"""A callback that starts a database of this project, if it does not run."""


def reconnecting(work: Callable[[], Result], patience: float, start: Start | None = None) -> Result:
    """Call ``work`` and return its result; after a lost connection, call it again.

    It is called again for ``patience`` seconds from the first loss on. ``start`` is called after
    the first loss. Raises LostConnectionError when the database does not come back,
    RequestEndedError when the current request ends, and whatever ``start`` raises.
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
"""Seconds for which a query waits for a database that went away."""
ATTEMPTS = 3
"""The number of times that work is done if the graph changes meanwhile."""


def read_together(
    vectors: VectorStore, graph: GraphStore, work: Work[Result], start: Start | None = None
) -> tuple[Result, tuple[str, ...]]:
    """Call ``work`` with both stores, and return its result and warnings about its consistency.

    A warning says that the two stores show different versions, or that the graph was being loaded.
    Neither can happen if one PostgreSQL holds both. The work is done again if the graph has changed
    meanwhile, or a database was restarted. Raises OtherOwnerError if the stores belong to different
    owners.
    """
    read = partial(reconnecting, partial(_read_once, vectors, graph, work), PATIENCE, start)
    result, live, shown = read()
    for _ in range(ATTEMPTS - 1):
        if shown is None:
            result, live, shown = read()
    return result, tuple(_list_warnings(live, shown))


def _read_once(
    vectors: VectorStore, graph: GraphStore, work: Work[Result]
) -> tuple[Result, Live | None, GraphState | None]:
    """Call ``work``, and return its result and what both stores show.

    The graph's state is None if it changed during the work. If the work failed, and the graph was
    being loaded meanwhile, LostConnectionError is raised, so that the caller repeats the work.
    """
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


def _list_warnings(live: Live | None, shown: GraphState | None) -> list[str]:
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
"""The value that stands for the end of the items, which may themselves be None."""


@contextmanager
def ahead(items: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """Iterate over the items in their order, with another thread one item ahead.

    While the block works on an item, the thread produces the next. It begins with the first at
    once. An exception that it raises is raised where the block asks for the item.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, iterator, _END)

        def iterate() -> Iterator[Item]:
            following = first
            while (item := following.result()) is not _END:
                following = pool.submit(next, iterator, _END)
                yield item  # pyright: ignore[reportReturnType]

        yield iterate()
