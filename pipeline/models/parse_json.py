"""Read JSON as models really write it: fenced, in prose, cut off, with wrong quotes. No reply raises."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import json_repair

from pipeline.models.base import Message
from pipeline.models.parsed import Parsed, Problem, Record, entity, problem, relationship
from pipeline.models.reply_text import bare, distinct_names, keywords_of, one_line, weight_of
from pipeline.text import clean

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


ASK_FOR_GRAPH_JSON: Message = {
    "role": "system",
    "content": "Where the format of records is described, give one JSON object instead, "
    '{"entities": [...], "relationships": [...]}, each record an object with the same fields under their '
    "names, keywords as a list of strings, no completion mark. If there is nothing, both lists are empty.",
}
"""Stands before a prompt that describes the record format."""


def _list_of(**types: object) -> dict[str, object]:
    fields = {"type": "object", "properties": types, "required": list(types), "additionalProperties": False}
    return {"type": "array", "items": fields}


_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}
_GRAPH = {
    "entities": _list_of(name=_STRING, type=_STRING, description=_STRING),
    "relationships": _list_of(
        source=_STRING, target=_STRING, description=_STRING, keywords=_STRINGS, strength={"type": "integer"}
    ),
}
_SCHEMA = {"type": "object", "properties": _GRAPH, "required": list(_GRAPH), "additionalProperties": False}
GRAPH_JSON_FORMAT: Mapping[str, Any] = {
    "type": "json_schema",
    "json_schema": {"name": "graph", "strict": True, "schema": _SCHEMA},
}
"""The ``response_format`` of a request whose reply ``parse_graph_json`` reads."""


def parse_graph_json(reply: str) -> Parsed:
    """The records of a reply that is, or holds, ``{"entities": [...], "relationships": [...]}``.

    A bare list of records is read too. ``complete`` when there is a list of entities, be it empty.
    """
    values = _values(reply)
    found = [_record(item) for value in values for item in _items(value)]
    return Parsed(
        records=tuple(one for one in found if not isinstance(one, Problem)),
        problems=tuple(one for one in found if isinstance(one, Problem)),
        complete=any(isinstance(_first(_folded(value), _ENTITIES), list) for value in values),
    )


def parse_keywords(reply: str) -> tuple[list[str], list[str]] | None:
    """(high-level, low-level) keywords; None when the reply holds no such object."""
    for value in _values(reply):
        folded = _folded(value)
        high, low = _first(folded, _HIGH), _first(folded, _LOW)
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
    graph = _folded(value)
    lists = [_first(graph, _ENTITIES), _first(graph, _RELATIONSHIPS)]
    if any(isinstance(items, list) for items in lists):
        yield from (item for items in lists if isinstance(items, list) for item in items)
    elif value:
        yield value


def _record(item: Any) -> Record | Problem:
    fields, shown = _folded(item), clean(str(item))
    source, target, name = (_first(fields, keys) for keys in (_SOURCE, _TARGET, _NAME))
    description = one_line(_text(_first(fields, _DESCRIPTION)))
    if source is not None or target is not None:
        keywords = keywords_of(_texts(_first(fields, _KEYWORDS)))
        weight = weight_of(_text(_first(fields, _STRENGTH)))
        return relationship(_text(source), _text(target), description, keywords, weight, shown)
    if name is not None:
        return entity(_text(name), _text(_first(fields, _TYPE)), description, shown)
    return problem("kind", shown, "neither an entity nor a relationship")


def _folded(value: Any) -> dict[str, Any]:
    """An object by its keys in lower case without separators; nothing for what is no object."""
    if not isinstance(value, Mapping):
        return {}
    return {"".join(filter(str.isalnum, str(key))).casefold(): item for key, item in value.items()}


def _first(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def _phrases(value: Any) -> list[str]:
    return list(distinct_names(_texts(value)) if isinstance(value, list) else keywords_of(_texts(value)))


def _texts(value: Any) -> Iterable[str]:
    return map(_text, value if isinstance(value, list) else [value])


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value)) if all(isinstance(item, str) for item in value) else ""
    return clean(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
