"""What several threads share, made once though they ask for it at the same time."""

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, overload

Made = TypeVar("Made")
_MAKING = threading.RLock()
"""One for all: what is made may ask for other things that are."""


class made_once(cached_property[Made]):  # noqa: N801 - a decorator
    """As ``cached_property``, which since Python 3.12 lets several threads make several."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> "made_once[Made]": ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Made: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Any:
        with _MAKING:
            return super().__get__(instance, owner)


def made_once_each(make: Callable[[str], Made]) -> Callable[[str], Made]:
    """``make``, which is called once for each name."""
    made: dict[str, Made] = {}

    def made_of(name: str) -> Made:
        with _MAKING:
            if name not in made:
                made[name] = make(name)
            return made[name]

    return made_of
