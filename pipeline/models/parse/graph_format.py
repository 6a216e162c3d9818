"""The two formats of a graph, records and JSON: their descriptions for prompts, and their writers.

Both descriptions show the same example. The parsers are in graph.py.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.models.base import Message
from pipeline.models.parse.records import LONGEST_NAME, Entity, Record, Relationship

LONGEST_TYPE = 100
LONGEST_DESCRIPTION = 1000
LONGEST_KEYWORD = 100
MOST_KEYWORDS = 3
MOST_RECORDS = 500
MOST_PROPERTIES = 40
LONGEST_PROPERTY_VALUE = 500
"""Limits of the bounded schema. They are far above the content of a text unit, so they end a loop
and cut nothing else.

llama.cpp refuses a grammar that repeats something 2,000 times or more, so every limit stays below
that.
"""

DELIMITER, SEPARATOR, COMPLETION_MARK = "<|>", "##", "<|COMPLETE|>"
_EXAMPLE_TEXT = "Quorin Vale founded the Nimbrel Institute in Plessimere."
_EXAMPLE: tuple[Record, ...] = (
    Entity("Quorin Vale", "PERSON", "Quorin Vale founded the Nimbrel Institute."),
    Entity(
        "Nimbrel Institute",
        "ORGANIZATION",
        "The Nimbrel Institute was founded by Quorin Vale in Plessimere.",
    ),
    Entity("Plessimere", "LOCATION", "Plessimere has the Nimbrel Institute."),
    Relationship(
        "Quorin Vale",
        "Nimbrel Institute",
        "Quorin Vale founded the Nimbrel Institute.",
        ("founding",),
        9.0,
    ),
    Relationship(
        "Nimbrel Institute",
        "Plessimere",
        "The Nimbrel Institute is in Plessimere.",
        ("location",),
        6.0,
    ),
)


def as_records(records: Iterable[Record]) -> str:
    """Write records in the record format, with the completion mark after the last one."""
    return f"{SEPARATOR}\n".join(_write_records(records)) + COMPLETION_MARK


def _write_records(records: Iterable[Record]) -> Iterator[str]:
    """Yield each record in the record format. Delimiters within its fields become spaces."""
    for record in records:
        if isinstance(record, Entity):
            fields = ("entity", record.name, record.type.lower(), record.description)
        else:
            keywords = ", ".join(record.keywords)
            fields = (
                "relationship",
                record.source,
                record.target,
                record.description,
                keywords,
                f"{record.weight:g}",
            )
        kind, *values = (field.replace(DELIMITER, " ").replace(SEPARATOR, " ") for field in fields)
        yield f'("{kind}"{DELIMITER}{DELIMITER.join(values)})'


def as_json(records: Iterable[Record]) -> str:
    """Write records as one JSON object, on one line."""
    graph: dict[str, list[dict[str, object]]] = {"entities": [], "relationships": []}
    for record in records:
        if isinstance(record, Entity):
            fields = {**vars(record), "type": record.type.lower()}
            del fields["attributes"]
            graph["entities"].append(fields)
        else:
            fields = {
                **vars(record),
                "keywords": list(record.keywords),
                "strength": round(record.weight),
            }
            del fields["weight"], fields["attributes"]
            graph["relationships"].append(fields)
    return json.dumps(graph, ensure_ascii=False)


RECORDS_FORMAT = f"""\
Output: records only, one per line, `{SEPARATOR}` between records, entities before relationships, `{COMPLETION_MARK}` \
after the last one. No headings, no code fence, no line breaks or `{DELIMITER}` inside a field.
("entity"<|>name<|>type<|>description)
("relationship"<|>source<|>target<|>description<|>keywords<|>strength)
If there is nothing to write down, output only the completion mark.

Example for "{_EXAMPLE_TEXT}":
{as_records(_EXAMPLE)}"""  # noqa: E501
"""The text for ``$format`` in a prompt that requests records. Prompt files of earlier versions
contain the same words."""

JSON_FORMAT = f"""\
Output: one JSON object and nothing else, with two lists, "entities" and "relationships". No headings, no code fence.
- Each entity is an object with "name", "type" and "description".
- Each relationship is an object with "source", "target", "description", "keywords" (a list of one to three strings) \
and "strength".
If there is nothing to write down, both lists are empty: {as_json(())}

Example for "{_EXAMPLE_TEXT}":
{as_json(_EXAMPLE)}"""  # noqa: E501
"""The text for ``$format`` in a prompt that requests JSON."""

PROPERTIES_IN_RECORDS = f"""\
Write each property as a record of its own, behind the record that it belongs to:
("property"{DELIMITER}name of the entity{DELIMITER}name of the property{DELIMITER}value)
("property"{DELIMITER}source{DELIMITER}target{DELIMITER}name of the property{DELIMITER}value)
The first form is for a property of an entity, the second for one of a relationship."""
"""The text that asks for properties in the record format."""

PROPERTIES_IN_JSON = """\
Each entity and each relationship has "properties" too: a list of objects with "name" and "value", empty if the text \
states none."""  # noqa: E501
"""The text that asks for properties in JSON."""

ASK_FOR_GRAPH_JSON: Message = {
    "role": "system",
    "content": (
        'Where the format of records is described, give one JSON object instead, {"entities":'
        ' [...], "relationships": [...]}, each record an object with the same fields under their'
        " names, keywords as a list of strings, no completion mark. If there is nothing, both lists"
        " are empty."
    ),
}
"""The message before a user's own prompt that describes the record format, if JSON is requested."""


def _object_schema(**fields: object) -> dict[str, object]:
    """Return the JSON schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def make_response_format(
    bounded: bool,
    types: Sequence[str] = (),
    keywords: Sequence[str] = (),
    entity_properties: Sequence[str] = (),
    relationship_properties: Sequence[str] = (),
) -> Mapping[str, Any]:
    """Return the ``response_format`` of a graph. ``bounded``: with limits on lists and texts.

    ``types`` and ``keywords`` are the only ones that entities and relationships may have; without
    them any text may be one. ``entity_properties`` and ``relationship_properties`` are the names of
    their properties. A record has a list of names and values: endpoints that hold replies to a
    schema strictly want every key of an object to be there.
    """

    def one_of(values: Sequence[str], longest: int) -> dict[str, object]:
        return {"type": "string", "enum": list(values)} if values else text_of(longest)

    def text_of(longest: int) -> dict[str, object]:
        limits = {"maxLength": longest} if bounded else {}
        return {"type": "string", **limits}

    def list_of(items: Mapping[str, object], most: int) -> dict[str, object]:
        limits = {"maxItems": most} if bounded else {}
        return {"type": "array", "items": items, **limits}

    def properties_of(names: Sequence[str]) -> dict[str, object]:
        if not names:
            return {}
        pair = _object_schema(
            name=one_of(names, LONGEST_NAME), value=text_of(LONGEST_PROPERTY_VALUE)
        )
        return {"properties": list_of(pair, MOST_PROPERTIES)}

    entity = _object_schema(
        name=text_of(LONGEST_NAME),
        type=one_of(types, LONGEST_TYPE),
        description=text_of(LONGEST_DESCRIPTION),
        **properties_of(entity_properties),
    )
    relationship = _object_schema(
        source=text_of(LONGEST_NAME),
        target=text_of(LONGEST_NAME),
        description=text_of(LONGEST_DESCRIPTION),
        keywords=list_of(one_of(keywords, LONGEST_KEYWORD), MOST_KEYWORDS),
        strength={"type": "integer"},
        **properties_of(relationship_properties),
    )
    graph = _object_schema(
        entities=list_of(entity, MOST_RECORDS), relationships=list_of(relationship, MOST_RECORDS)
    )
    return {
        "type": "json_schema",
        "json_schema": {"name": "graph", "strict": True, "schema": graph},
    }


GRAPH_JSON_FORMAT = make_response_format(bounded=False)
"""The ``response_format`` of a request whose reply ``parse_graph_json`` reads. It is part of the
cache key."""
BOUNDED_GRAPH_JSON_FORMAT = make_response_format(bounded=True)
"""The same ``response_format`` with limits, for servers that accept them."""
