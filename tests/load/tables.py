"""Snapshot tables of a small corpus, as a workflow would write them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.contract.schemas import (
    ATTRIBUTES,
    COMMUNITIES,
    COMMUNITY_REPORTS,
    COVARIATES,
    DOCUMENTS,
    EMBEDDINGS,
    ENTITIES,
    ENTITY_PROPERTIES,
    LAYOUT,
    NODES,
    RELATIONSHIPS,
    STATEMENTS,
    TEXT_UNIT_HEADERS,
    TEXT_UNITS,
    TEXTS,
)
from pipeline.snapshots.store import Manifest, SnapshotStore, StepRecord
from pipeline.text.ids import (
    attribute_id,
    digest,
    document_id,
    entity_id,
    relationship_id,
    text_unit_id,
)

SCHEMAS = {
    "documents": DOCUMENTS,
    "text_units": TEXT_UNITS,
    "entities": ENTITIES,
    "relationships": RELATIONSHIPS,
    "entity_texts": TEXTS,
    "relationship_texts": TEXTS,
    "text_unit_embeddings": EMBEDDINGS,
    "text_unit_headers": TEXT_UNIT_HEADERS,
    "entity_embeddings": EMBEDDINGS,
    "relationship_embeddings": EMBEDDINGS,
    "communities": COMMUNITIES,
    "nodes": NODES,
    "placed_nodes": NODES,
    "layout": LAYOUT,
    "community_reports": COMMUNITY_REPORTS,
    "report_texts": TEXTS,
    "report_embeddings": EMBEDDINGS,
    "covariates": COVARIATES,
    "statements": STATEMENTS,
    "attributes": ATTRIBUTES,
    "entity_properties": ENTITY_PROPERTIES,
}
Link = tuple[str, str, Sequence[str]]


def corpus(
    texts: Mapping[str, str], names: Mapping[str, str], links: Sequence[Link], dimensions: int = 4
) -> dict[str, pd.DataFrame]:
    """``texts``: path -> text, one text unit each; ``names``: entity -> type; ``links``: source,
    target, keywords. Entities and relationships come from the first text unit. A community of all
    entities has one of each as children; each has a report, and each entity a claim, and a place
    but for the last."""
    documents = [
        (document_id(path), f"Title of {path}", text, path, '{"path": "' + path + '"}', "hash")
        for path, text in texts.items()
    ]
    units = [
        (text_unit_id(id, text, 0), text, len(text.split()), id, 0, len(text), 0, f"Part > {title}")
        for id, title, text, *_ in documents
    ]
    mentions = [units[0][0]] if units else []
    entities = [
        (entity_id(name), name, type, [{"type": type, "count": 1}], f"{name} is", mentions, 1, 1)
        for name, type in names.items()
    ]
    relationships = [
        (
            relationship_id(entity_id(source), entity_id(target)), source, target,
            entity_id(source),
            entity_id(target), f"{source} to {target}", list(keywords), 1.0, mentions,
        )
        for source, target, keywords in links
    ]  # fmt: skip
    tables = {
        "documents": documents,
        "text_units": units,
        "entities": entities,
        "relationships": relationships,
        "entity_texts": [
            (id, f"{name}\n{description}") for id, name, _, _, description, *_ in entities
        ],
        "relationship_texts": [
            (id, "\t".join([", ".join(keywords), source, target, description]))
            for id, source, target, _, _, description, keywords, *_ in relationships
        ],
    }
    tables["communities"] = communities = _communities(list(names), mentions)
    members = [
        (entity, level, id)
        for id, level, _, _, entities_of, *_ in communities
        for entity in entities_of
    ]
    places = {
        entity_id(name): (number / len(names), -number / len(names))
        for number, name in enumerate(names)
    }
    places = dict(list(places.items())[:-1])
    tables["nodes"] = [(*member, None, None) for member in members]
    tables["placed_nodes"] = [(*member, *places.get(member[0], (None, None))) for member in members]
    tables["text_unit_headers"] = [(unit, heading) for unit, *_, heading in units]
    tables["layout"] = [(id, *place) for id, place in places.items()]
    tables["community_reports"] = reports = [
        (
            id, level, parent, f"Of {title}", f"{title} are told of",
            f"# Of {title}\n\n{title} are told of", 7.5,
            "because", [{"summary": "found", "explanation": title}], 1, mentions, size,
        )
        for id, level, parent, _, _, _, _, size, title in communities
    ]  # fmt: skip
    tables["report_texts"] = [(id, content) for id, _, _, _, _, content, *_ in reports]
    tables["covariates"] = [
        (
            f"claim-{digest(name)}", unit, entity_id(name), "", name, "", "DEED", "TRUE",
            "2020-01-01", "",
            f"{name} did it", "as told",
        )
        for name in names
        for unit in mentions
    ]  # fmt: skip
    tables["statements"] = [
        (f"fact-{id}-{unit}", id, unit, keywords[0] if keywords else "", description, "", "", "{}")
        for id, _, _, _, _, description, keywords, *_ in relationships
        for unit in mentions
    ]
    tables["attributes"] = [
        (
            attribute_id(entity_id(name), "height", str(len(name)), unit[0]), entity_id(name),
            "height", "number", str(len(name)), "m", unit[0], unit[3], "",
        )
        for name in names
        for unit in units[:1]
    ]  # fmt: skip
    tables["entity_properties"] = [
        (entity_id(name), f'{{"height": {len(name)}}}') for name in names if units
    ]
    embedded = {
        "text_unit": units,
        "entity": entities,
        "relationship": relationships,
        "report": tables["report_texts"],
    }
    for name, rows in embedded.items():
        tables[f"{name}_embeddings"] = [(row[0], _vector(row[1], dimensions)) for row in rows]
    return {name: schema.frame(tables[name]) for name, schema in SCHEMAS.items()}


def _communities(names: Sequence[str], units: Sequence[str]) -> list[tuple]:
    if not names:
        return []
    ids = {name: _community_id(1, [name]) for name in names}
    whole = _community_id(0, names)
    members = sorted(map(entity_id, names))
    return [
        (whole, 0, "", sorted(ids.values()), members, [], units, len(names), ", ".join(names[:3])),
        *((ids[name], 1, whole, [], [entity_id(name)], [], units, 1, name) for name in names),
    ]


def _community_id(level: int, names: Sequence[str]) -> str:
    return f"com-{digest(str(level), *sorted(map(entity_id, names)))}"


def save(
    tables: Mapping[str, pd.DataFrame], snapshots: SnapshotStore, model: str = "m"
) -> Manifest:
    written = {
        name: snapshots.tables.write(name, SCHEMAS[name].encode(table, name))
        for name, table in tables.items()
    }
    record = StepRecord(
        "embed_text_units",
        "0",
        {"models": {"embedding": {"model": model}}},
        {"embeddings": written["text_unit_embeddings"]},
    )
    return Manifest("index", written, {record.step: record})


def _vector(text: str, dimensions: int) -> np.ndarray:
    seed = np.frombuffer(text.encode()[:16].ljust(16), dtype=np.uint32)
    return np.random.default_rng(seed).normal(size=dimensions).astype(np.float32)
