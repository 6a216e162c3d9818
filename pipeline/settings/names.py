"""Types of names in the settings: of workspaces, owners, views, keys and headers.

A name that does not fit is refused with the characters that it may have. Pydantic itself would show
the regular expression.
"""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator


def _fits(pattern: str, allowed: str) -> Callable[[str], str]:
    """Return a validator that refuses names which do not match; ``allowed`` tells what does."""

    def check(name: str) -> str:
        if not re.fullmatch(pattern, name):
            raise ValueError(f"not a possible name; write {allowed}")
        return name

    return check


WorkspaceName = Annotated[
    str, AfterValidator(_fits("[a-z0-9_-]{1,63}", "1 to 63 of the characters a-z, 0-9, _ and -"))
]
OwnerName = Annotated[
    str,
    AfterValidator(
        _fits("[A-Za-z0-9_.-]{0,64}", "at most 64 of the characters a-z, A-Z, 0-9, _, . and -")
    ),
]
ViewName = Annotated[
    str,
    AfterValidator(
        _fits(
            "[a-z0-9][a-z0-9_-]{0,30}",
            "1 to 31 of the characters a-z, 0-9, _ and -, first a letter or a digit",
        )
    ),
]
KeyName = Annotated[
    str,
    AfterValidator(
        _fits("[A-Za-z0-9_.-]{1,64}", "1 to 64 of the characters a-z, A-Z, 0-9, _, . and -")
    ),
]
UserHeader = Annotated[
    str,
    AfterValidator(
        _fits("[A-Za-z0-9-]{1,64}", "1 to 64 of the characters a-z, A-Z, 0-9 and -, as in X-User")
    ),
]
