"""Read JSON as models really write it: fenced, in prose, cut off, with wrong quotes. No reply raises."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import json_repair

from pipeline.models.parsed import Parsed, Problem, Record, entity, problem, relationship
from pipeline.models.reply_text import bare, distinct_names, keywords_of, one_line, weight_of

_START = re.compile(r"[{\[]\s{0,20}[\"'“{\[}\]]|\{\s{0,20}\w{1,40}\s?:")
_BRACKET = re.compile(r"[{}\[\]]")
_DECODER = json.JSONDecoder(strict=False)
_DEEPEST, _LONGEST_REPAIR = 30, 200_000
"""Nesting beyond any graph, and a length at which json_repair still takes seconds at worst."""

_ENTITIES = ("entities", "entity", "nodes")
_RELATIONSHIPS = ("relationships", "relations", "relationship", "edges")
_NAME = ("name", "entityname", "entity", "title")
_TYPE = ("type", "entitytype", "category", "label")
_DESCRIPTION = ("description", "entitydescription", "relationshipdescription", "summary")
_SOURCE = ("source", "sourceentity", "src", "srcid", "from", "subject", "head")
_TARGET = ("target", "targetentity", "tgt", "tgtid", "to", "object", "tail")
_KEYWORDS = ("keywords", "relationshipkeywords", "keyword", "type", "relation")
_STRENGTH = ("strength", "relationshipstrength", "weight", "score", "rating")
_HIGH = ("highlevelkeywords", "highlevel", "high", "hlkeywords", "hl")
_LOW = ("lowlevelkeywords", "lowlevel", "low", "llkeywords", "ll")


def parse_graph_json(reply: str) -> Parsed:
    """The records of a reply that is, or holds, ``{"entities": [...], "relationships": [...]}``.

    A bare list of records is read too. ``complete`` when there is a list of entities, be it empty.
    """
    values = _values(reply)
    found = [_record(item) for value in values for item in _items(value)]
    return Parsed(
        records=tuple(one for one in found if not isinstance(one, Problem)),
        problems=tuple(one for one in found if isinstance(one, Problem)),
        complete=any(isinstance(_at(value, _ENTITIES), list) for value in values),
    )


def parse_keywords(reply: str) -> tuple[list[str], list[str]] | None:
    """(high-level, low-level) keywords; None when the reply holds no such object."""
    for value in _values(reply):
        high, low = _at(value, _HIGH), _at(value, _LOW)
        if high is not None or low is not None:
            return _phrases(high), _phrases(low)
    return None


def _values(reply: str) -> list[Any]:
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


def _items(value: Any) -> Iterator[Any]:
    """What should be records: those of a graph, of a list of graphs or records, or the value itself."""
    if isinstance(value, list):
        for item in value:
            yield from _items(item) if isinstance(item, Mapping) else [item]
        return
    lists = [_at(value, _ENTITIES), _at(value, _RELATIONSHIPS)]
    if any(isinstance(items, list) for items in lists):
        yield from (item for items in lists if isinstance(items, list) for item in items)
    elif value:
        yield value


def _record(item: Any) -> Record | Problem:
    shown = str(item)
    if _at(item, _SOURCE) is not None or _at(item, _TARGET) is not None:
        return relationship(
            _text(_at(item, _SOURCE)),
            _text(_at(item, _TARGET)),
            one_line(_text(_at(item, _DESCRIPTION))),
            keywords_of(_texts(_at(item, _KEYWORDS))),
            weight_of(_text(_at(item, _STRENGTH))),
            shown,
        )
    if _at(item, _NAME) is not None:
        name, type, description = (_text(_at(item, keys)) for keys in (_NAME, _TYPE, _DESCRIPTION))
        return entity(name, type, one_line(description), shown)
    return problem("kind", shown, "neither an entity nor a relationship")


def _at(value: Any, keys: tuple[str, ...]) -> Any:
    """The value under the first of these keys, written in any case, with any separators."""
    if not isinstance(value, Mapping):
        return None
    folded = {"".join(filter(str.isalnum, str(key))).casefold(): item for key, item in value.items()}
    return next((folded[key] for key in keys if folded.get(key) is not None), None)


def _phrases(value: Any) -> list[str]:
    return list(distinct_names(_texts(value)) if isinstance(value, list) else keywords_of(_texts(value)))


def _texts(value: Any) -> Iterable[str]:
    return map(_text, value if isinstance(value, list) else [value])


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value)) if all(isinstance(item, str) for item in value) else ""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
