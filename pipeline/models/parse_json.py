"""Read a graph and keywords that a reply holds as JSON. No reply raises."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline.models.base import Message
from pipeline.models.json_values import first_of, folded, json_values, text_of
from pipeline.models.parsed import Graph, Problem, Record, entity, problem, relationship
from pipeline.models.reply_text import distinct_names, keywords_of, one_line, weight_of
from pipeline.text import clean

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


def parse_graph_json(reply: str) -> Graph:
    """The records of a reply that is, or holds, ``{"entities": [...], "relationships": [...]}``.

    A bare list of records is read too. ``complete`` when there is a list of entities, be it empty.
    """
    values = json_values(reply)
    found = [_record(item) for value in values for item in _items(value)]
    return Graph(
        records=tuple(one for one in found if not isinstance(one, Problem)),
        problems=tuple(one for one in found if isinstance(one, Problem)),
        complete=any(isinstance(first_of(folded(value), _ENTITIES), list) for value in values),
    )


def parse_keywords(reply: str) -> tuple[list[str], list[str]] | None:
    """(high-level, low-level) keywords; None when the reply holds no such object."""
    for value in json_values(reply):
        fields = folded(value)
        high, low = first_of(fields, _HIGH), first_of(fields, _LOW)
        if high is not None or low is not None:
            return _phrases(high), _phrases(low)
    return None


def _items(value: Any) -> Iterator[Any]:
    """What should be records: those of a graph, of a list of graphs or records, or the value itself."""
    if isinstance(value, list):
        for item in value:
            yield from _items(item) if isinstance(item, Mapping) else [item]
        return
    graph = folded(value)
    lists = [first_of(graph, _ENTITIES), first_of(graph, _RELATIONSHIPS)]
    if any(isinstance(items, list) for items in lists):
        yield from (item for items in lists if isinstance(items, list) for item in items)
    elif value:
        yield value


def _record(item: Any) -> Record | Problem:
    fields, shown = folded(item), clean(str(item))
    source, target, name = (first_of(fields, keys) for keys in (_SOURCE, _TARGET, _NAME))
    description = one_line(text_of(first_of(fields, _DESCRIPTION)))
    if source is not None or target is not None:
        keywords = keywords_of(_texts(first_of(fields, _KEYWORDS)))
        weight = weight_of(text_of(first_of(fields, _STRENGTH)))
        return relationship(text_of(source), text_of(target), description, keywords, weight, shown)
    if name is not None:
        return entity(text_of(name), text_of(first_of(fields, _TYPE)), description, shown)
    return problem("kind", shown, "neither an entity nor a relationship")


def _phrases(value: Any) -> list[str]:
    return list(distinct_names(_texts(value)) if isinstance(value, list) else keywords_of(_texts(value)))


def _texts(value: Any) -> Iterable[str]:
    return map(text_of, value if isinstance(value, list) else [value])
