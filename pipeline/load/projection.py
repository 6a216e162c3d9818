"""How the snapshots' tables look in the stores (docs/stores.md has the layout)."""

import json
import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from functools import lru_cache

import pandas as pd

from pipeline.errors import DataError, UsageError
from pipeline.text import digest

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
TYPE_LENGTH, TYPE_SUFFIX = 100, 12
WHOLE_ABOVE = 1e16
"""From here on JSON writes floats with an exponent, and all of them are whole."""


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
        "nodes": nodes(entities),
        "edges": edges(relationships, most_frequent(Counter(edge_types(relationships["keywords"])), max_types)),
    }


def require_sources(tables: Container[str]) -> None:
    """Raises UsageError when a table of SOURCES is missing."""
    missing = [name for name in SOURCES if name not in tables]
    if missing:
        raise UsageError(f"load: the workflow writes no {', '.join(missing)}; add the steps that do")


def _documents(documents: pd.DataFrame) -> pd.DataFrame:
    rows = documents[["id", "title", "source"]]
    return rows.assign(metadata=[json.loads(cell or "{}", parse_float=_number) for cell in documents["metadata"]])


def _number(digits: str) -> float | int:
    """As JSONB gives it back: it writes large numbers without exponent or point, and has no negative zero."""
    value = float(digits)
    return int(value) if abs(value) >= WHOLE_ABOVE else value + 0.0


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


def nodes(entities: pd.DataFrame) -> pd.DataFrame:
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


def edges(links: pd.DataFrame, kept_types: Collection[str]) -> pd.DataFrame:
    """A type that is not kept becomes RELATED, its keyword stays a property."""
    ends = ["source_entity_id", "target_entity_id", "source", "target", "description", "weight", "rank"]
    return links[["id", *ends]].assign(
        type=[type if type in kept_types else RELATED for type in edge_types(links["keywords"])],
        keywords=links["keywords"].map(list),
        source_id=links["text_unit_ids"].map(list),
    )


def edge_types(keywords: Iterable[Sequence[str]]) -> list[str]:
    """The type that each list of keywords asks for."""
    return [type_name(words[0] if len(words) else "", RELATED) for words in keywords]


def most_frequent(types: Counter[str], limit: int) -> frozenset[str]:
    """A graph database allows so many types: the rarest are left out, ties by name."""
    ranked = sorted(types.items(), key=lambda entry: (-entry[1], entry[0]))
    return frozenset(name for name, _ in ranked[:limit])


@lru_cache(10_000)
def type_name(label: str, otherwise: str) -> str:
    """A label or relationship type: upper case, words joined by underscores, letters of any script.

    One that is too long ends with a digest of the whole, so that no two fall together.
    """
    name = "_".join(re.findall(r"\w+", label.upper())).strip("_")
    if len(name) <= TYPE_LENGTH:
        return name or otherwise
    suffix = digest(name)[:TYPE_SUFFIX].upper()
    return f"{name[: TYPE_LENGTH - TYPE_SUFFIX - 1].rstrip('_')}_{suffix}"
