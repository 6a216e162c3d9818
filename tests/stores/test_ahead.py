import threading
from collections.abc import Iterator

import pytest

from pipeline.stores.connection import ahead


def test_items_come_in_their_order():
    with ahead(range(5)) as items:
        assert list(items) == [0, 1, 2, 3, 4]
    with ahead([]) as items:
        assert list(items) == []


def test_the_next_is_made_while_one_is_used():
    made = threading.Event()

    def numbers() -> Iterator[int]:
        yield 1
        made.set()
        yield 2

    with ahead(numbers()) as items:
        assert next(items) == 1
        assert made.wait(10)


def test_an_error_is_raised_where_the_item_is_requested():
    with ahead(map(int, ["1", "x"])) as items:
        assert next(items) == 1
        with pytest.raises(ValueError, match="x"):
            next(items)
