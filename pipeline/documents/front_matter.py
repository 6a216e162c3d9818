"""Front matter: what a text says of itself in YAML, between lines of --- before all else."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from pipeline.documents.metadata import as_json, cleaned

_BLOCK = re.compile(
    r"\s*?---[ \t]*\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_LONGEST = 20_000
"""Characters of a text in which the end of its front matter is sought."""
_DEEPEST = 20
"""Fields within fields. The parser takes half a minute for 20,000 brackets, one within the
other."""


def split_front_matter(text: str) -> tuple[Mapping[str, Any], str]:
    """The fields and the text after them; no fields and the text as it is where it begins
    otherwise, or where what stands there is no YAML of named fields. Fields are as JSON has them. A
    text that is nothing else stays too."""
    block = _BLOCK.match(text, 0, _LONGEST)
    fields = _fields(block["yaml"]) if block else None
    if block is None or not fields:
        return {}, text
    body = text[block.end() :].lstrip("\n")
    return fields, body if body.strip() else text


def _fields(block: str) -> Mapping[str, Any] | None:
    try:
        if not _is_small(block):
            return None
        found = cleaned(yaml.safe_load(block))
        as_json({"": found})
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ):  # ValueError: a date such as 2020-13-45, a number too long
        return None
    return found if isinstance(found, dict) else None


def _is_small(block: str) -> bool:
    """Whether what the block stands for is as small as it: a few lines of aliases may stand for
    gigabytes."""
    depth = 0
    for event in yaml.parse(block, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST:
            return False
    return True


def taken_title(fields: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The title that the fields give, "" where they give none, and the rest of them."""
    title = fields.get("title")
    if isinstance(title, bool) or not isinstance(title, str | int | float):
        return "", fields
    return " ".join(str(title).split()), {
        name: value for name, value in fields.items() if name != "title"
    }
