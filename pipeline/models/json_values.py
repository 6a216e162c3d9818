"""The JSON in a reply, as models really write it: fenced, in prose, cut off, with wrong quotes. No reply raises."""

import json
import re
from collections.abc import Mapping
from typing import Any

import json_repair

from pipeline.models.reply_text import bare
from pipeline.text import clean

_START = re.compile(r"[{\[]\s{0,20}[\"'“{\[}\]]|\{\s{0,20}\w{1,40}\s?:")
_BRACKET = re.compile(r"[{}\[\]]")
_DECODER = json.JSONDecoder(strict=False)
_DEEPEST, _LONGEST_REPAIR = 30, 200_000
"""Nesting beyond any graph, and a length at which json_repair still takes seconds at worst."""


def json_values(reply: str) -> list[Any]:
    """The JSON values in the reply; from where it is broken, what can be repaired of it."""
    text = bare(reply)
    values: list[Any] = []
    start = _START.search(text) if _depth(text) <= _DEEPEST else None
    while start:
        try:
            value, end = _DECODER.raw_decode(text, start.start())
        except ValueError:
            return values + _repaired(text[start.start() :])
        values.append(value)
        start = _START.search(text, end)
    return values


def _repaired(text: str) -> list[Any]:
    if len(text) > _LONGEST_REPAIR:
        return []
    try:
        return [json_repair.loads(text, skip_json_loads=True)]
    except Exception:  # a foreign parser over arbitrary text: whatever it raises means "not JSON"
        return []


def _depth(text: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in "{[" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def folded(value: Any) -> dict[str, Any]:
    """An object by its keys in lower case without separators; nothing for what is no object."""
    if not isinstance(value, Mapping):
        return {}
    return {"".join(filter(str.isalnum, str(key))).casefold(): item for key, item in value.items()}


def first_of(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def text_of(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(text_of, value)) if all(isinstance(item, str) for item in value) else ""
    return clean(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
