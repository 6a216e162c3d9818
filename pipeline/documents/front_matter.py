"""Read front matter: the fields in YAML between lines of --- at the beginning of a text."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from pipeline.documents.metadata import as_json, cleaned
from pipeline.text.small_yaml import is_small_yaml

_BLOCK = re.compile(
    r"\s*?---[ \t]*\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
SUFFIXES = frozenset({".txt", ".md", ".markdown"})
"""Suffixes of texts that can have front matter."""
_LONGEST = 20_000
"""The number of characters in which the end of the front matter is searched."""


def split_front_matter(text: str) -> tuple[Mapping[str, Any], str]:
    """Return the fields of the front matter, with values as in JSON, and the text behind it.

    There are no fields, and the text is returned as it is, if it has no front matter that is YAML
    with named fields. A text that is nothing but front matter is returned whole with its fields.
    """
    block = _BLOCK.match(text, 0, _LONGEST)
    if block is None:
        return {}, text
    fields = _parse_fields(block["yaml"])
    if not fields:
        return {}, text
    body = text[block.end() :].lstrip("\n")
    return fields, body if body.strip() else text


def _parse_fields(block: str) -> Mapping[str, Any] | None:
    """Return the fields of a YAML block, or None if it is no YAML with named fields."""
    try:
        if not is_small_yaml(block):
            return None
        found = cleaned(yaml.safe_load(block))
        as_json({"": found})
    except (yaml.YAMLError, ValueError, RecursionError):
        # A ValueError is raised for a date such as 2020-13-45 and for numbers that are too long.
        return None
    return found if isinstance(found, dict) else None


def taken_title(fields: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the title among the fields, "" if there is none, and the other fields."""
    title = fields.get("title")
    if isinstance(title, bool) or not isinstance(title, str | int | float):
        return "", fields
    other_fields = {name: value for name, value in fields.items() if name != "title"}
    return " ".join(str(title).split()), other_fields
