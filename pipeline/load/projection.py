"""How the snapshots' tables look in the stores (docs/tables.md has the layout)."""

import json
import re
from collections import Counter
from collections.abc import Container, Mapping

import pandas as pd

from pipeline.errors import DataError, UsageError

SOURCES = (
    "documents",
    "text_units",
    "entities",
    "relationships",
    "entity_texts",
    "relationship_texts",
    "text_unit_embeddings",
    "entity_embeddings",
    "relationship_embeddings",
)
"""The snapshot tables a load needs."""

RELATED, UNKNOWN = "RELATED", "UNKNOWN"
TYPE_LENGTH = 100


def project(tables: Mapping[str, pd.DataFrame], max_types: int) -> dict[str, pd.DataFrame]:
    """Snapshot tables -> rows of the stores' tables. ``max_types``: relationship types kept as types.

    Raises UsageError when a table is missing.
    """
    require_sources(tables)
    entities, relationships = tables["entities"], tables["relationships"]
    return {
        "documents": _documents(tables["documents"]),
        "chunks": _chunks(tables["text_units"], tables["text_unit_embeddings"]),
        "entities": _entities(entities, tables["entity_texts"], tables["entity_embeddings"]),
        "relationships": _relationships(relationships, tables["relationship_texts"], tables["relationship_embeddings"]),
        "nodes": _nodes(entities),
        "edges": _edges(relationships, max_types),
    }


def require_sources(tables: Container[str]) -> None:
    """Raises UsageError when a table of SOURCES is missing."""
    missing = [name for name in SOURCES if name not in tables]
    if missing:
        raise UsageError(f"load: the workflow writes no {', '.join(missing)}; add the steps that do")


def _documents(documents: pd.DataFrame) -> pd.DataFrame:
    rows = documents[["id", "title", "source"]]
    return rows.assign(metadata=[json.loads(metadata or "{}") for metadata in documents["metadata"]])


def _chunks(units: pd.DataFrame, embeddings: pd.DataFrame) -> pd.DataFrame:
    renamed = {
        "document_id": "full_doc_id",
        "order": "chunk_order_index",
        "n_tokens": "tokens",
        "text": "content",
        "start": "char_start",
        "end": "char_end",
    }
    return _with_vectors(units[["id", *renamed]].rename(columns=renamed), embeddings)


def _entities(entities: pd.DataFrame, texts: pd.DataFrame, embeddings: pd.DataFrame) -> pd.DataFrame:
    rows = entities[["id", "name"]].rename(columns={"name": "entity_name"})
    rows = rows.assign(chunk_ids=entities["text_unit_ids"].map(list))
    return _with_vectors(_joined(rows, texts.rename(columns={"text": "content"})), embeddings)


def _relationships(links: pd.DataFrame, texts: pd.DataFrame, embeddings: pd.DataFrame) -> pd.DataFrame:
    rows = links[["id", "source", "target"]].rename(columns={"source": "src_id", "target": "tgt_id"})
    rows = rows.assign(chunk_ids=links["text_unit_ids"].map(list))
    return _with_vectors(_joined(rows, texts.rename(columns={"text": "content"})), embeddings)


def _with_vectors(rows: pd.DataFrame, embeddings: pd.DataFrame) -> pd.DataFrame:
    return _joined(rows, embeddings.rename(columns={"vector": "embedding"}))


def _joined(rows: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """Both by id. Raises DataError where a row has no counterpart: it would silently not be loaded."""
    joined = rows.merge(more, on="id", validate="1:1")
    if len(joined) != len(rows):
        missing = sorted(set(rows["id"]) - set(more["id"]))
        raise DataError(f"load: {len(missing)} rows lack their text or vector ({missing[0]}, ...); run index again")
    return joined


def _nodes(entities: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": entities["id"],
            "display_name": entities["name"],
            "entity_type": [type_name(type, UNKNOWN) for type in entities["type"]],
            "description": entities["description"],
            "source_id": entities["text_unit_ids"].map(list),
            "degree": entities["degree"],
        }
    )


def _edges(links: pd.DataFrame, max_types: int) -> pd.DataFrame:
    ends = ["source_entity_id", "target_entity_id", "source", "target", "description", "weight", "rank"]
    keywords = links["keywords"].map(list)
    types = [type_name(words[0] if words else "", RELATED) for words in keywords]
    return links[["id", *ends]].assign(
        type=_most_frequent(types, max_types),
        keywords=keywords,
        source_id=links["text_unit_ids"].map(list),
    )


def _most_frequent(types: list[str], limit: int) -> list[str]:
    """A graph database allows so many types: the rarest become RELATED, their keyword stays a property."""
    ranked = sorted(Counter(types).items(), key=lambda entry: (-entry[1], entry[0]))
    kept = {name for name, _ in ranked[:limit]}
    return [name if name in kept else RELATED for name in types]


def type_name(label: str, otherwise: str) -> str:
    """A label or relationship type: upper case, words joined by underscores, letters of any script."""
    name = "_".join(re.findall(r"\w+", label.upper()))[:TYPE_LENGTH].strip("_")
    return name or otherwise
