"""read_graphrag: the tables of a Microsoft GraphRAG index -> documents, text units and the
described graph."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import (
    DESCRIBED_ENTITIES,
    DESCRIBED_RELATIONSHIPS,
    DOCUMENTS,
    MENTIONS,
    REJECTS,
    TEXT_UNITS,
)
from pipeline.documents.graphrag import (
    GraphragRejects,
    Row,
    graphrag_digest,
    read_documents,
    read_graphrag_tables,
    read_units,
    text_of,
    texts_of,
)
from pipeline.models.base import Tokenizer
from pipeline.text.ids import clean_name, entity_id, relationship_id

UNKNOWN = "UNKNOWN"


class GraphragParams(Params):
    """``path``: the folder with GraphRAG's tables, or the project with them in ``output``."""

    path: str = Field(
        default="data/graphrag", exclude=True
    )  # its content is stamped: a folder may move


def folder_digest(params: GraphragParams) -> str:
    """Changes when a table does."""
    return graphrag_digest(Path(params.path))


@dataclass
class _Entity:
    """Every row with the same match key."""

    name: str
    types: Counter[str] = field(default_factory=Counter)
    descriptions: dict[str, None] = field(default_factory=dict)
    units: dict[str, None] = field(default_factory=dict)


@dataclass
class _Relationship:
    """Every row with the same two ends."""

    descriptions: dict[str, None] = field(default_factory=dict)
    keywords: dict[str, None] = field(default_factory=dict)
    weight: float = 0.0
    units: dict[str, None] = field(default_factory=dict)


@verb(
    inputs={},
    outputs={
        "documents": DOCUMENTS,
        "text_units": TEXT_UNITS,
        "mentions": MENTIONS,
        "described_entities": DESCRIBED_ENTITIES,
        "described_relationships": DESCRIBED_RELATIONSHIPS,
        "rejects": REJECTS,
    },
    settings="graphrag",
    stamp=folder_digest,
    libraries=("rs-bpe",),
)
def read_graphrag(
    params: GraphragParams, tokenizer: Tokenizer
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Read what GraphRAG 0.3 to 3.x wrote; communities, reports and covariates are left.

    Ids are ours: a document's comes from its id there (kept as it is if it is one of ours). Names
    with one match key are one entity, relationships with the same ends one relationship. ``start``
    and ``end`` of a text unit are where it, without lines put before it, stands in its document; 0
    and 0 if nowhere. Reasons of rejects: incomplete, dangling, duplicate_id, self_loop. Raises
    SettingsError without the tables, DataError for damaged ones.
    """
    tables = read_graphrag_tables(Path(params.path))
    rejects = GraphragRejects()
    documents = read_documents(tables["documents"], rejects)
    known_units, units = read_units(tables["text_units"], documents, tokenizer, rejects)
    entities = _entities(tables["entities"], known_units, rejects)
    relationships = _relationships(tables["relationships"], entities, known_units, rejects)
    return (
        DOCUMENTS.frame(list(documents.values())),
        TEXT_UNITS.frame(units),
        MENTIONS.frame([(id, unit, 1) for id, entity in entities.items() for unit in entity.units]),
        DESCRIBED_ENTITIES.frame([_entity_row(id, entity) for id, entity in entities.items()]),
        DESCRIBED_RELATIONSHIPS.frame(
            [
                _relationship_row(ends, entities, relationship)
                for ends, relationship in relationships.items()
            ]
        ),
        REJECTS.frame(rejects.rows),
    )


def _entities(
    rows: Sequence[Row], units: Mapping[str, Sequence[str]], rejects: GraphragRejects
) -> dict[str, _Entity]:
    """Our id -> the entity, in the order of the table."""
    entities: dict[str, _Entity] = {}
    for place, row in enumerate(rows):
        name = clean_name(text_of(row["name"]))
        if not name:
            rejects.add("entities", place, "row", "incomplete", "no name")
            continue
        entity = entities.setdefault(entity_id(name), _Entity(name))
        entity.types.update(dict(_types(row)))
        _add_description(entity.descriptions, row)
        entity.units.update(dict.fromkeys(_known_units(row, "entities", place, units, rejects)))
    return entities


def _types(row: Row) -> Iterator[tuple[str, int]]:
    """Type -> how often; ``types`` is a column of our own exports."""
    given = row["types"]
    if isinstance(given, list):
        counts = [entry for entry in given if isinstance(entry, dict)]
        yield from ((text_of(entry.get("type")), _count(entry.get("count"))) for entry in counts)
    elif type := clean_name(text_of(row["type"])):
        yield type, _count(row["frequency"])


def _relationships(
    rows: Sequence[Row],
    entities: Mapping[str, _Entity],
    units: Mapping[str, Sequence[str]],
    rejects: GraphragRejects,
) -> dict[tuple[str, str], _Relationship]:
    """Ids of both ends -> the relationship, in the order of the table."""
    relationships: dict[tuple[str, str], _Relationship] = {}
    for place, row in enumerate(rows):
        names = [clean_name(text_of(row[end])) for end in ("source", "target")]
        source, target = map(entity_id, names)
        unknown = [
            name for name, id in zip(names, (source, target), strict=True) if id not in entities
        ]
        if unknown:
            rejects.add("relationships", place, "record", "dangling", f"no such entity: {unknown}")
        elif source == target:
            rejects.add(
                "relationships", place, "record", "self_loop", f"'{names[0]}' related to itself"
            )
        else:
            relationship = relationships.setdefault((source, target), _Relationship())
            _add_description(relationship.descriptions, row)
            relationship.keywords.update(dict.fromkeys(filter(None, texts_of(row["keywords"]))))
            relationship.weight += _number(row["weight"])
            relationship.units.update(
                dict.fromkeys(_known_units(row, "relationships", place, units, rejects))
            )
    return relationships


def _known_units(
    row: Row, table: str, place: int, units: Mapping[str, Sequence[str]], rejects: GraphragRejects
) -> Iterable[str]:
    """Our ids of the row's text units; that one is not there is a reject of its own."""
    theirs = texts_of(row["text_unit_ids"])
    if missing := [id for id in theirs if id not in units]:
        rejects.add(
            table,
            place,
            "record",
            "dangling",
            f"{len(missing)} of its text units are not there: {missing[0]}",
        )
    return (unit for id in theirs for unit in units.get(id, ()))


def _add_description(descriptions: dict[str, None], row: Row) -> None:
    if description := text_of(row["description"]).strip():
        descriptions[description] = None


def _entity_row(id: str, entity: _Entity) -> Row:
    ranked = sorted(entity.types.items(), key=lambda entry: (-entry[1], entry[0]))
    return {
        "id": id,
        "name": entity.name,
        "type": ranked[0][0] if ranked else UNKNOWN,
        "types": [{"type": type, "count": count} for type, count in ranked],
        "description": " ".join(entity.descriptions),
        "text_unit_ids": list(entity.units),
        "frequency": len(entity.units),
    }


def _relationship_row(
    ends: tuple[str, str], entities: Mapping[str, _Entity], relationship: _Relationship
) -> Row:
    source, target = ends
    return {
        "id": relationship_id(source, target),
        "source": entities[source].name,
        "target": entities[target].name,
        "source_entity_id": source,
        "target_entity_id": target,
        "description": " ".join(relationship.descriptions),
        "keywords": list(relationship.keywords),
        "weight": relationship.weight,
        "text_unit_ids": list(relationship.units),
    }


def _count(cell: Any) -> int:
    return max(1, round(_number(cell)))


def _number(cell: Any) -> float:
    """1 for what is none."""
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return 1.0
    return number if math.isfinite(number) else 1.0
