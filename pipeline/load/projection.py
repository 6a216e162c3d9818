"""How the snapshots' tables look in the stores (docs/stores.md has the layout)."""

import json
import re
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.schemas import (
    COMMUNITIES,
    COMMUNITY_REPORTS,
    COVARIATES,
    EMBEDDINGS,
    LAYOUT,
    STRING,
    STRINGS,
    TableSchema,
)
from pipeline.errors import DataError, UsageError
from pipeline.stores.list_columns import in_arrow, lengths_of, to_arrow
from pipeline.text.ids import digest

NODE_COLUMNS = ["id", "name", "type", "description", "degree"]
EDGE_COLUMNS = [
    "id", "source_entity_id", "target_entity_id", "source", "target", "description", "weight",
    "keywords",
]  # fmt: skip
TABLE_SOURCES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "documents": {"documents": ["id", "title", "source", "metadata"]},
    "chunks": {
        "text_units": ["id", "document_id", "order", "n_tokens", "text", "start", "end"],
        "text_unit_embeddings": ["id", "vector"],
    },
    "entities": {
        "entities": ["id", "name"],
        "entity_texts": ["id", "text"],
        "entity_embeddings": ["id", "vector"],
    },
    "relationships": {
        "relationships": ["id", "source", "target"],
        "relationship_texts": ["id", "text"],
        "relationship_embeddings": ["id", "vector"],
    },
    "sources": {"entities": ["id", "text_unit_ids"], "relationships": ["id", "text_unit_ids"]},
    "reports": {
        "community_reports": [
            "id", "level", "parent", "title", "summary", "content", "rating", "weight",
            "text_unit_ids", "size",
        ],
        "communities": ["id", "children"],
        "report_embeddings": ["id", "vector"],
    },
    "claims": {"covariates": COVARIATES.columns},
    "nodes": {"entities": NODE_COLUMNS, "layout": LAYOUT.columns},
    "edges": {"relationships": EDGE_COLUMNS},
    "sourced_nodes": {"entities": [*NODE_COLUMNS, "text_unit_ids"], "layout": LAYOUT.columns},
    "sourced_edges": {"relationships": [*EDGE_COLUMNS, "text_unit_ids"]},
    "communities": {
        "communities": ["id", "level", "parent", "entity_ids", "size", "title"],
        "community_reports": ["id", "title", "summary", "rating", "weight"],
    },
}  # fmt: skip
"""Table of a store -> the snapshot tables its rows are made of -> the columns that are used of
these. A store that can join has the lists of sources beside the rows, in ``sources``: they change
where the text of a row does not. One that cannot has them in its nodes and edges."""

STACKED = frozenset({"sources"})
"""Tables that have the rows of each of their sources; those of the others have their sources' by
id."""
TYPED = frozenset({"edges", "sourced_edges"})
"""Tables whose rows have the type of a relationship."""

OPTIONAL: Mapping[str, TableSchema] = {
    "communities": COMMUNITIES,
    "community_reports": COMMUNITY_REPORTS,
    "report_embeddings": EMBEDDINGS,
    "covariates": COVARIATES,
    "layout": LAYOUT,
}
"""The snapshot tables that a workflow may do without: then the stores have no rows of them."""

SOURCES = tuple(
    dict.fromkeys(
        source for sources in TABLE_SOURCES.values() for source in sources if source not in OPTIONAL
    )
)
"""The snapshot tables a load needs."""

BESIDE_REPORTS = ("communities", "report_embeddings")
"""What it needs where there are reports."""

EXTRAS: Mapping[str, str] = {
    "communities": "communities",
    "reports": "community_reports",
    "claims": "covariates",
}
"""Table of a store that a workflow may leave without rows -> the snapshot table that it is for."""

EMBEDDING_STEP_TABLE = "text_unit_embeddings"
"""The step that writes it has the model that questions are embedded by."""
RELATED, UNKNOWN = "RELATED", "UNKNOWN"
TYPE_LENGTH, TYPE_SUFFIX = 100, 12
WHOLE_ABOVE = 1e16
"""From here on JSON writes floats with an exponent, and all of them are whole."""


def project(tables: Mapping[str, pd.DataFrame], max_types: int) -> dict[str, pd.DataFrame]:
    """Snapshot tables -> rows of the stores' tables. ``max_types``: relationship types kept as
    types.

    Raises UsageError when a table is missing.
    """
    require_sources(tables)
    sources = {name: schema.frame() for name, schema in OPTIONAL.items()} | dict(tables)
    kept_types = most_frequent(Counter(edge_types(tables["relationships"]["keywords"])), max_types)
    return {table: project_table(table, sources, kept_types) for table in TABLE_SOURCES}


def project_table(
    table: str, sources: Mapping[str, pd.DataFrame], kept_types: Collection[str]
) -> pd.DataFrame:
    """Rows of one table of the stores. ``sources``: of the snapshot tables that TABLE_SOURCES names
    for it all rows, or those of some ids, their lists in Arrow or not.

    Raises DataError where a row lacks its text or vector.
    """
    if table == "documents":
        return _documents(sources["documents"])
    if table == "chunks":
        return _chunks(sources["text_units"], sources["text_unit_embeddings"])
    if table == "entities":
        return _entities(sources["entities"], sources["entity_texts"], sources["entity_embeddings"])
    if table == "relationships":
        return _relationships(
            sources["relationships"],
            sources["relationship_texts"],
            sources["relationship_embeddings"],
        )
    if table == "reports":
        told = reports(sources["community_reports"], sources["communities"])
        return _with_vectors(told, sources["report_embeddings"])
    if table == "claims":
        return sources["covariates"][COVARIATES.columns]
    if table == "communities":
        return communities(sources["communities"], sources["community_reports"])
    if table == "sources":
        return _sources(sources["entities"], sources["relationships"])
    if table == "nodes":
        return placed(nodes(sources["entities"]), sources["layout"])
    if table == "sourced_nodes":
        return placed(sourced_nodes(sources["entities"]), sources["layout"])
    links = sources["relationships"]
    return edges(links, kept_types) if table == "edges" else sourced_edges(links, kept_types)


def require_sources(tables: Container[str]) -> None:
    """Raises UsageError when a table of SOURCES is missing, or one of BESIDE_REPORTS."""
    needed = (*SOURCES, *(BESIDE_REPORTS if "community_reports" in tables else ()))
    missing = [name for name in needed if name not in tables]
    if missing:
        raise UsageError(
            f"load: the workflow writes no {', '.join(missing)}; add the steps that do"
        )


def require_columns(tables: Mapping[str, Collection[str]]) -> None:
    """``tables``: name -> columns. Raises UsageError when a table is missing, or a column that is
    used of it."""
    require_sources(tables)
    for sources in TABLE_SOURCES.values():
        for name, columns in sources.items():
            missing = [
                column for column in columns if name in tables and column not in tables[name]
            ]
            if missing:
                raise UsageError(
                    f"load: table '{name}' has no {', '.join(missing)}; have its step write them"
                )


def _documents(documents: pd.DataFrame) -> pd.DataFrame:
    rows = documents[["id", "title", "source"]]
    return rows.assign(
        metadata=[json.loads(cell or "{}", parse_float=_number) for cell in documents["metadata"]]
    )


def _number(digits: str) -> float | int:
    """As JSONB gives it back: it writes large numbers without exponent or point, and has no
    negative zero."""
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


def _entities(
    entities: pd.DataFrame, texts: pd.DataFrame, embeddings: pd.DataFrame
) -> pd.DataFrame:
    rows = entities[["id", "name"]].rename(columns={"name": "entity_name"})
    return _with_vectors(_joined(rows, texts.rename(columns={"text": "content"})), embeddings)


def _relationships(
    links: pd.DataFrame, texts: pd.DataFrame, embeddings: pd.DataFrame
) -> pd.DataFrame:
    rows = links[["id", "source", "target"]].rename(
        columns={"source": "src_id", "target": "tgt_id"}
    )
    return _with_vectors(_joined(rows, texts.rename(columns={"text": "content"})), embeddings)


def _sources(entities: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """Of both: no entity has the id of a relationship."""
    told = [
        rows[["id"]].assign(chunk_ids=lists(rows["text_unit_ids"])) for rows in (entities, links)
    ]
    return pd.concat(told, ignore_index=True)


def _with_vectors(rows: pd.DataFrame, embeddings: pd.DataFrame) -> pd.DataFrame:
    return _joined(rows, embeddings.rename(columns={"vector": "embedding"}))


def _joined(rows: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """Both by id. Raises DataError where a row has no counterpart: it would silently not be
    loaded."""
    if rows["id"].array.equals(more["id"].array):  # they mostly are in one order
        return rows.assign(**{name: more[name].array for name in more.columns.drop("id")})
    joined = rows.merge(more, on="id", validate="1:1")
    if len(joined) != len(rows):
        missing = sorted(set(rows["id"]) - set(more["id"]))
        raise DataError(
            f"load: {len(missing)} rows lack their text or vector ({missing[0]}, ...); run index"
            " again"
        )
    return joined


def nodes(entities: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": entities["id"],
            "display_name": entities["name"],
            "entity_type": _type_names(to_arrow(entities["type"], STRING), UNKNOWN),
            "description": entities["description"],
            "degree": entities["degree"],
        }
    )


def sourced_nodes(entities: pd.DataFrame) -> pd.DataFrame:
    return nodes(entities).assign(source_id=lists(entities["text_unit_ids"]))


def placed(rows: pd.DataFrame, layout: pd.DataFrame) -> pd.DataFrame:
    """Nodes with x and y, missing where nothing places them, also where an own verb says infinity:
    no JSON has that."""
    found = (
        rows[["id"]].merge(layout, on="id", how="left", validate="1:1")[["x", "y"]].astype(float)
    )
    found = found.where(np.isfinite(found))
    return rows.assign(x=found["x"].to_numpy(), y=found["y"].to_numpy())


def edges(links: pd.DataFrame, kept_types: Collection[str]) -> pd.DataFrame:
    """A type that is not kept becomes RELATED, its keyword stays a property."""
    ends = ["source_entity_id", "target_entity_id", "source", "target", "description", "weight"]
    return links[["id", *ends]].assign(
        type=[type if type in kept_types else RELATED for type in edge_types(links["keywords"])],
        keywords=lists(links["keywords"]),
    )


def sourced_edges(links: pd.DataFrame, kept_types: Collection[str]) -> pd.DataFrame:
    return edges(links, kept_types).assign(source_id=lists(links["text_unit_ids"]))


def edge_types(keywords: pd.Series) -> list[str]:
    """The type that each list of keywords asks for."""
    lists = to_arrow(keywords, STRINGS)
    lengths = lengths_of(keywords)
    starts = np.cumsum(lengths) - lengths
    return _type_names(lists.flatten().take(pa.array(starts, mask=lengths == 0)), RELATED)


def _type_names(labels: pa.Array, otherwise: str) -> list[str]:
    encoded = labels.dictionary_encode()
    names = [type_name(label, otherwise) for label in encoded.dictionary.to_pylist()] + [otherwise]
    return [names[place] for place in encoded.indices.fill_null(len(names) - 1).to_pylist()]


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


def reports(told: pd.DataFrame, communities: pd.DataFrame) -> pd.DataFrame:
    """Rows without their vectors. ``told``: community_reports; ``communities``: (id, children)."""
    columns = ["id", "level", "parent", "title", "summary", "content", "rating", "weight", "size"]
    rows = told[columns].assign(chunk_ids=lists(told["text_unit_ids"]))
    return rows.merge(
        communities[["id"]].assign(children=lists(communities["children"])), on="id", validate="1:1"
    )


def communities(found: pd.DataFrame, told: pd.DataFrame) -> pd.DataFrame:
    """One without a report has its own title, and nothing else to tell. ``told``: (id, title,
    summary, rating, weight)."""
    rows = found[["id", "level", "parent", "size"]].reset_index(drop=True)
    report = rows[["id"]].merge(
        told[["id", "title", "summary", "rating", "weight"]], on="id", how="left", validate="1:1"
    )
    return rows.assign(
        title=report["title"].where(report["title"].notna(), found["title"].to_numpy()),
        summary=report["summary"].where(report["summary"].notna(), ""),
        rating=report["rating"].astype("float64").fillna(0.0),
        weight=report["weight"].astype("float64").fillna(0).astype("int64"),
        entity_ids=lists(found["entity_ids"]).reset_index(drop=True),
    )


def lists(column: pd.Series) -> pd.Series:
    return column if in_arrow(column) else column.map(list)
