"""Find the further names of what a document is about, in its front matter or metadata."""

from collections.abc import Mapping
from typing import Any

FIELDS = ("aliases", "alias")
"""The fields that hold further names, as Obsidian names them."""
LONGEST = 120
"""The most characters of a name."""
MOST = 50
"""The most names of a document."""


def aliases_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the further names in the fields of a document, each once, in the order given.

    A field holds a list of names, or names with commas between them. Case does not count in names
    of fields.
    """
    names: dict[str, None] = {}
    by_name = {name.casefold(): value for name, value in fields.items()}
    for field in FIELDS:
        for name in _names_of(by_name.get(field)):
            line = " ".join(name.split())
            if line and len(line) <= LONGEST:
                names.setdefault(line)
    return list(names)[:MOST]


def _names_of(value: Any) -> list[str]:
    """Return the texts of a list, or the parts of a text between commas."""
    if isinstance(value, str):
        return value.split(",")
    if isinstance(value, list):
        return [str(item) for item in value if isinstance(item, str | int)]
    return []
