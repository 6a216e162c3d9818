"""Work in two threads."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
_END = object()


@contextmanager
def ahead(items: Iterable[Item]) -> Iterator[Iterator[Item]]:
    """The items in their order; while the block works on one, another thread makes the next. The first is begun at
    once. What making one raises is raised where it is asked for."""
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, iterator, _END)

        def made() -> Iterator[Item]:
            following = first
            while (item := following.result()) is not _END:
                following = pool.submit(next, iterator, _END)
                yield item  # pyright: ignore[reportReturnType]

        yield made()
