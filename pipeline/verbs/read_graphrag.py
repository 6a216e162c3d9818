"""read_graphrag: read documents, text units and a graph from a Microsoft GraphRAG index."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import (
    COMMUNITY_REPORTS,
    COVARIATES,
    DESCRIBED_ENTITIES,
    DESCRIBED_RELATIONSHIPS,
    DOCUMENTS,
    IMPORTED_COMMUNITIES,
    MENTIONS,
    REJECTS,
    TEXT_UNITS,
)
from pipeline.documents.graphrag import (
    GraphragRejects,
    find_missing_units,
    find_units,
    read_documents,
    read_units,
    text_of,
    texts_of,
)
from pipeline.documents.graphrag_cache import CACHE, STEP, count_replies
from pipeline.documents.graphrag_communities import read_claims, read_communities, read_reports
from pipeline.documents.graphrag_tables import (
    Row,
    graphrag_digest,
    list_other_files,
    read_graphrag_tables,
)
from pipeline.errors import counted
from pipeline.models.base import Tokenizer
from pipeline.text.ids import clean_name, digest, entity_id, relationship_id

UNKNOWN = "UNKNOWN"


class GraphragParams(Params):
    """``path`` is the folder with GraphRAG's tables, or the project with them in ``output``."""

    path: str = Field(
        default="data/graphrag", exclude=True
    )  # its content is stamped: a folder may move


def folder_digest(params: GraphragParams) -> str:
    """Return a digest of the tables, and of the number of replies, which an import tells."""
    folder = Path(params.path)
    tables, replies = graphrag_digest(folder), count_replies(folder)
    # Without replies it is that of the tables alone, so that no earlier run has another one.
    return digest(tables, str(replies)) if replies else tables


@dataclass
class _Entity:
    """An entity: all rows of the table whose names have the same match key.

    The dictionaries are sets that keep the order in which their items came.
    """

    name: str
    types: Counter[str] = field(default_factory=Counter)
    descriptions: dict[str, None] = field(default_factory=dict)
    units: dict[str, None] = field(default_factory=dict)


@dataclass
class _Relationship:
    """A relationship: all rows of the table with the same source and target."""

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
        "imported_communities": IMPORTED_COMMUNITIES,
        "imported_reports": COMMUNITY_REPORTS,
        "imported_claims": COVARIATES,
        "rejects": REJECTS,
    },
    settings="graphrag",
    stamp=folder_digest,
    libraries=("rs-bpe",),
)
def read_graphrag(params: GraphragParams, tokenizer: Tokenizer) -> tuple[pd.DataFrame, ...]:
    """Read the tables of GraphRAG 0.3 to 3.x, with communities, reports and claims if it has them.

    Ids are ours, not those of GraphRAG. The id of a document is made from its id
    there, or is the same if that has our format already. Names with the same match key become one
    entity, relationships with the same ends one relationship. An end of a relationship that is no
    entity there becomes one of type UNKNOWN, without a description. ``start`` and ``end`` of a text
    unit are its position in the document, without lines that GraphRAG put before it. Both are 0 if
    it is not found there. The reasons of rejects are incomplete, dangling, duplicate_id,
    duplicate_row, self_loop, and not_imported for files that are not read.

    Raises SettingsError if the tables are missing, DataError if they are damaged.
    """
    folder = Path(params.path)
    tables = read_graphrag_tables(folder)
    rejects = GraphragRejects()
    documents = read_documents(tables["documents"], rejects)
    for place, fact in find_missing_units(tables).values():
        rejects.add("documents", place, "record", "dangling", fact)
    known_units, units = read_units(tables["text_units"], documents, tokenizer, rejects)
    entities, ids = _read_entities(tables["entities"], known_units, rejects)
    relationships = _read_relationships(tables["relationships"], entities, known_units, rejects)
    communities = read_communities(tables["communities"], ids, known_units, rejects)
    reports = read_reports(tables["community_reports"], communities, rejects)
    claims = read_claims(tables["covariates"], known_units, rejects)
    for name, content in list_other_files(folder):
        rejects.add_file(name, content)
    replies = count_replies(folder)
    if replies:
        content = f"{counted(replies, 'file')}, not read: workflow graphrag_cache takes replies"
        rejects.add_file(f"{CACHE}/{STEP}", content)
    mentions = [(id, unit, 1) for id, entity in entities.items() for unit in entity.units]
    entity_rows = [_entity_row(id, entity) for id, entity in entities.items()]
    relationship_rows = [
        _relationship_row(ends, entities, relationship)
        for ends, relationship in relationships.items()
    ]
    return (
        DOCUMENTS.frame(list(documents.values())),
        TEXT_UNITS.frame(units),
        MENTIONS.frame(mentions),
        DESCRIBED_ENTITIES.frame(entity_rows),
        DESCRIBED_RELATIONSHIPS.frame(relationship_rows),
        IMPORTED_COMMUNITIES.frame(list(communities.values())),
        COMMUNITY_REPORTS.frame(reports),
        COVARIATES.frame(claims),
        REJECTS.frame(rejects.rows),
    )


def _read_entities(
    rows: Sequence[Row], units: Mapping[str, Sequence[str]], rejects: GraphragRejects
) -> tuple[dict[str, _Entity], dict[str, str]]:
    """Return the entities by our ids, in the order of the table, and our ids by GraphRAG's."""
    entities: dict[str, _Entity] = {}
    ids: dict[str, str] = {}
    seen: dict[str, Row] = {}
    for place, row in enumerate(rows):
        name, theirs = clean_name(text_of(row["name"])), text_of(row["id"])
        if not name:
            rejects.add("entities", place, "row", "incomplete", "no name")
            continue
        if _is_repeated(theirs, row, seen):
            rejects.add("entities", place, "row", "duplicate_row", "an earlier row is the same")
            continue
        id = entity_id(name)
        if theirs and ids.setdefault(theirs, id) != id:
            message = f"'{theirs}' is there already, and communities name the first one by it"
            rejects.add("entities", place, "record", "duplicate_id", message)
        entity = entities.setdefault(id, _Entity(name))
        entity.types.update(dict(_read_types(row)))
        _add_description(entity.descriptions, row)
        known_units = find_units(row, "entities", place, units, rejects)
        entity.units.update(dict.fromkeys(known_units))
    return entities, ids


def _read_types(row: Row) -> Iterator[tuple[str, int]]:
    """Yield the types of an entity with their counts.

    The column ``types`` comes from exports of this package; GraphRAG has one ``type``.
    """
    given = row["types"]
    if isinstance(given, list):
        for entry in given:
            if isinstance(entry, dict):
                yield text_of(entry.get("type")), _read_count(entry.get("count"))
        return
    type = clean_name(text_of(row["type"]))
    if type:
        yield type, _read_count(row["frequency"])


def _read_relationships(
    rows: Sequence[Row],
    entities: dict[str, _Entity],
    units: Mapping[str, Sequence[str]],
    rejects: GraphragRejects,
) -> dict[tuple[str, str], _Relationship]:
    """Return the relationships by our ids of both ends, in the order of the table.

    Ends that are no entities are added to ``entities``, with the text units of their relationships.
    """
    described = set(entities)
    relationships: dict[tuple[str, str], _Relationship] = {}
    seen: dict[str, Row] = {}
    for place, row in enumerate(rows):
        if _is_repeated(text_of(row["id"]), row, seen):
            message = "an earlier row is the same"
            rejects.add("relationships", place, "row", "duplicate_row", message)
            continue
        names = [clean_name(text_of(row[end])) for end in ("source", "target")]
        if not all(names):
            rejects.add("relationships", place, "row", "incomplete", "no source, or no target")
            continue
        source, target = map(entity_id, names)
        if source == target:
            message = f"'{names[0]}' related to itself"
            rejects.add("relationships", place, "record", "self_loop", message)
            continue
        relationship = relationships.setdefault((source, target), _Relationship())
        _add_description(relationship.descriptions, row)
        keywords = [keyword for keyword in texts_of(row["keywords"]) if keyword]
        relationship.keywords.update(dict.fromkeys(keywords))
        relationship.weight += _read_number(row["weight"])
        known_units = find_units(row, "relationships", place, units, rejects)
        relationship.units.update(dict.fromkeys(known_units))
        for id, name in zip((source, target), names, strict=True):
            if id not in described:
                stub = entities.setdefault(id, _Entity(name))
                stub.units.update(relationship.units)
    return relationships


def _is_repeated(id: str, row: Row, seen: dict[str, Row]) -> bool:
    """Check that the first row of this id in ``seen``, which is added there, is the same."""
    if not id:
        return False
    first = seen.setdefault(id, row)
    return first is not row and first == row


def _add_description(descriptions: dict[str, None], row: Row) -> None:
    """Add the description of the row, if it has one."""
    description = text_of(row["description"]).strip()
    if description:
        descriptions[description] = None


def _entity_row(id: str, entity: _Entity) -> Row:
    """Return a row of DESCRIBED_ENTITIES; types are sorted by count, then by name."""
    ranked = sorted(entity.types.items(), key=lambda entry: (-entry[1], entry[0]))
    types = [{"type": type, "count": count} for type, count in ranked]
    return {
        "id": id,
        "name": entity.name,
        "type": ranked[0][0] if ranked else UNKNOWN,
        "types": types,
        "description": " ".join(entity.descriptions),
        "text_unit_ids": list(entity.units),
        "frequency": len(entity.units),
    }


def _relationship_row(
    ends: tuple[str, str], entities: Mapping[str, _Entity], relationship: _Relationship
) -> Row:
    """Return a row of DESCRIBED_RELATIONSHIPS."""
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


def _read_count(cell: Any) -> int:
    """Return the cell as a positive integer; 1 if it holds no number."""
    return max(1, round(_read_number(cell)))


def _read_number(cell: Any) -> float:
    """Return the cell as a number; 1 if it holds none."""
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return 1.0
    return number if math.isfinite(number) else 1.0
