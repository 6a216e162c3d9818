"""Projects tables of snapshots to rows of the stores' tables (docs/stores-sql.md: layout)."""

import json
import re
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.schemas import (
    ATTRIBUTES,
    COMMUNITIES,
    COMMUNITY_REPORTS,
    COVARIATES,
    EMBEDDINGS,
    ENTITY_PROPERTIES,
    LAYOUT,
    STATEMENTS,
    STRING,
    STRINGS,
    TEXT_UNIT_HEADERS,
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
    "documents": {"documents": ["id", "title", "source", "metadata", "date"]},
    "chunks": {
        "text_units": ["id", "document_id", "order", "n_tokens", "text", "start", "end", "heading"],
        "text_unit_embeddings": ["id", "vector"],
        "text_unit_headers": ["id", "header"],
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
    "statements": {"statements": STATEMENTS.columns},
    "attributes": {"attributes": ATTRIBUTES.columns},
    "nodes": {"entities": NODE_COLUMNS, "layout": LAYOUT.columns},
    "edges": {"relationships": EDGE_COLUMNS},
    "sourced_nodes": {
        "entities": [*NODE_COLUMNS, "text_unit_ids"],
        "layout": LAYOUT.columns,
        "entity_properties": ENTITY_PROPERTIES.columns,
    },
    "sourced_edges": {"relationships": [*EDGE_COLUMNS, "text_unit_ids"]},
    "communities": {
        "communities": ["id", "level", "parent", "entity_ids", "size", "title"],
        "community_reports": ["id", "title", "summary", "rating", "weight"],
    },
}  # fmt: skip
"""Table of a store -> the snapshot tables its rows are made of -> the columns used of these.

A store that can join keeps the lists of source text units in the table ``sources``: a list can
change while the text of its row does not. A store that cannot join keeps the lists in its nodes and
edges."""

LATER_COLUMNS: Mapping[str, Sequence[str]] = {
    "documents": ["date"],
    "text_units": ["heading"],
    "attributes": ["correction"],
}
"""Snapshot table -> columns of texts that it may lack, because an earlier version or a verb of the
user's own wrote it. They are read as ""."""

STACKED = frozenset({"sources"})
"""Tables that stack the rows of their sources. The rows of other tables join those of their sources
by id."""
TYPED = frozenset({"edges", "sourced_edges"})
"""Tables whose rows have the type of a relationship."""

OPTIONAL: Mapping[str, TableSchema] = {
    "communities": COMMUNITIES,
    "community_reports": COMMUNITY_REPORTS,
    "report_embeddings": EMBEDDINGS,
    "covariates": COVARIATES,
    "statements": STATEMENTS,
    "attributes": ATTRIBUTES,
    "entity_properties": ENTITY_PROPERTIES,
    "layout": LAYOUT,
    "text_unit_headers": TEXT_UNIT_HEADERS,
}
"""The snapshot tables that a workflow need not write, with their schemas. Without one of them, the
stores have no rows that need it."""

SOURCES = tuple(
    dict.fromkeys(
        source for sources in TABLE_SOURCES.values() for source in sources if source not in OPTIONAL
    )
)
"""The snapshot tables that every load needs, each once."""

BESIDE_REPORTS = ("communities", "report_embeddings")
"""The snapshot tables that a load needs as well if there are community reports."""

EXTRAS: Mapping[str, str] = {
    "communities": "communities",
    "reports": "community_reports",
    "claims": "covariates",
}
"""Table of a store that has no rows in some workflows -> the snapshot table its rows are made
of."""

EMBEDDING_STEP_TABLE = "text_unit_embeddings"
"""The step that writes this table has the embedding model that questions are embedded by."""
HEADERS = "text_unit_headers"
"""The table of the headers of text units, with which these are embedded."""
RELATED, UNKNOWN = "RELATED", "UNKNOWN"
TYPE_LENGTH, TYPE_SUFFIX = 100, 12
WHOLE_ABOVE = 1e16
"""The absolute value from which on JSON writes floats with an exponent; all of them are whole
numbers."""


def project(tables: Mapping[str, pd.DataFrame], max_types: int) -> dict[str, pd.DataFrame]:
    """Return the rows of all tables of the stores, made of the snapshot tables ``tables``.

    ``max_types``: the number of relationship types that are kept as types. Raises UsageError when a
    snapshot table is missing.
    """
    require_sources(tables)
    sources = {name: schema.frame() for name, schema in OPTIONAL.items()} | dict(tables)
    kept_types = most_frequent(Counter(edge_types(tables["relationships"]["keywords"])), max_types)
    return {table: project_table(table, sources, kept_types) for table in TABLE_SOURCES}


def project_table(
    table: str, sources: Mapping[str, pd.DataFrame], kept_types: Collection[str]
) -> pd.DataFrame:
    """Return rows of one table of the stores.

    ``sources``: the snapshot tables that TABLE_SOURCES names for it, with all rows or those of some
    ids. Their lists may be in Arrow or in Python. ``kept_types``: the relationship types that are
    kept as types. Raises DataError where a row lacks its text or vector.
    """
    if table == "documents":
        return _project_documents(sources["documents"])
    if table == "chunks":
        return _project_chunks(
            sources["text_units"], sources["text_unit_embeddings"], sources["text_unit_headers"]
        )
    if table == "entities":
        return _project_entities(
            sources["entities"], sources["entity_texts"], sources["entity_embeddings"]
        )
    if table == "relationships":
        return _project_relationships(
            sources["relationships"],
            sources["relationship_texts"],
            sources["relationship_embeddings"],
        )
    if table == "reports":
        rows = reports(sources["community_reports"], sources["communities"])
        return _with_vectors(rows, sources["report_embeddings"])
    if table == "claims":
        return sources["covariates"][COVARIATES.columns]
    if table == "statements":
        return _project_statements(sources["statements"])
    if table == "attributes":
        return sources["attributes"][ATTRIBUTES.columns]
    if table == "communities":
        return communities(sources["communities"], sources["community_reports"])
    if table == "sources":
        return _stack_sources(sources["entities"], sources["relationships"])
    return _project_graph(table, sources, kept_types)


def _project_graph(
    table: str, sources: Mapping[str, pd.DataFrame], kept_types: Collection[str]
) -> pd.DataFrame:
    """Return rows of a table of nodes or edges; see ``project_table``."""
    if table == "nodes":
        return placed(nodes(sources["entities"]), sources["layout"])
    if table == "sourced_nodes":
        rows = placed(sourced_nodes(sources["entities"]), sources["layout"])
        return with_properties(rows, sources["entity_properties"])
    links = sources["relationships"]
    if table == "edges":
        return edges(links, kept_types)
    return sourced_edges(links, kept_types)


def require_sources(tables: Container[str]) -> None:
    """Raise UsageError if one of the tables that a load needs is missing: SOURCES, and with
    reports also BESIDE_REPORTS."""
    needed = SOURCES
    if "community_reports" in tables:
        needed += BESIDE_REPORTS
    missing = [name for name in needed if name not in tables]
    if missing:
        raise UsageError(
            f"load: the workflow writes no {', '.join(missing)}; add the steps that do"
        )


def require_columns(tables: Mapping[str, Collection[str]]) -> None:
    """Raise UsageError if a table that a load needs is missing, or a column that it uses.

    ``tables``: the columns of each snapshot table. Columns that a later version has added may be
    missing.
    """
    require_sources(tables)
    for sources in TABLE_SOURCES.values():
        for name, columns in sources.items():
            missing = [
                column
                for column in columns
                if name in tables
                and column not in tables[name]
                and column not in LATER_COLUMNS.get(name, ())
            ]
            if missing:
                raise UsageError(
                    f"load: table '{name}' has no {', '.join(missing)}; have its step write them"
                )


def _project_documents(documents: pd.DataFrame) -> pd.DataFrame:
    rows = documents[["id", "title", "source"]]
    metadata = _parse_objects(documents["metadata"])
    return rows.assign(metadata=metadata, date=documents["date"].fillna(""))


def _project_statements(statements: pd.DataFrame) -> pd.DataFrame:
    attributes = _parse_objects(statements["attributes"])
    return statements[STATEMENTS.columns].assign(attributes=attributes)


def _parse_objects(cells: pd.Series) -> list[Any]:
    """Return the values of JSON cells as JSONB gives them back; an empty cell is an object."""
    return [json.loads(cell or "{}", parse_float=_parse_float) for cell in cells]


def _parse_float(digits: str) -> float | int:
    """Parse a number to the value that JSONB gives back for it.

    JSONB writes large numbers without exponent or point, and has no negative zero.
    """
    value = float(digits)
    if abs(value) >= WHOLE_ABOVE:
        return int(value)
    # The sum of -0.0 and 0.0 is 0.0.
    return value + 0.0


def _project_chunks(
    units: pd.DataFrame, embeddings: pd.DataFrame, headers: pd.DataFrame
) -> pd.DataFrame:
    """Return the rows of chunks; ``headers`` has rows for those with a header."""
    renamed = {
        "document_id": "full_doc_id",
        "order": "chunk_order_index",
        "n_tokens": "tokens",
        "text": "content",
        "start": "char_start",
        "end": "char_end",
        "heading": "heading",
    }
    rows = units[["id", *renamed]].rename(columns=renamed)
    header = rows[["id"]].merge(headers, on="id", how="left", validate="1:1")["header"]
    return _with_vectors(rows.assign(header=header.fillna("").to_numpy()), embeddings)


def _project_entities(
    entities: pd.DataFrame, texts: pd.DataFrame, embeddings: pd.DataFrame
) -> pd.DataFrame:
    rows = entities[["id", "name"]].rename(columns={"name": "entity_name"})
    contents = texts.rename(columns={"text": "content"})
    return _with_vectors(_join_by_id(rows, contents), embeddings)


def _project_relationships(
    links: pd.DataFrame, texts: pd.DataFrame, embeddings: pd.DataFrame
) -> pd.DataFrame:
    ends = {"source": "src_id", "target": "tgt_id"}
    rows = links[["id", *ends]].rename(columns=ends)
    contents = texts.rename(columns={"text": "content"})
    return _with_vectors(_join_by_id(rows, contents), embeddings)


def _stack_sources(entities: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """Return (id, chunk_ids) of entities, then of relationships; their ids never coincide."""
    stacked = [
        rows[["id"]].assign(chunk_ids=lists(rows["text_unit_ids"])) for rows in (entities, links)
    ]
    return pd.concat(stacked, ignore_index=True)


def _with_vectors(rows: pd.DataFrame, embeddings: pd.DataFrame) -> pd.DataFrame:
    return _join_by_id(rows, embeddings.rename(columns={"vector": "embedding"}))


def _join_by_id(rows: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    """Add the columns of ``more`` to the rows of the same ids.

    Raises DataError if a row has no counterpart: without the error it would silently not be loaded.
    """
    # Mostly both are in the same order, so nothing needs to be joined.
    if rows["id"].array.equals(more["id"].array):
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
    """Return the rows of ``nodes`` with ``source_id``, the list of their text units."""
    return nodes(entities).assign(source_id=lists(entities["text_unit_ids"]))


def placed(rows: pd.DataFrame, layout: pd.DataFrame) -> pd.DataFrame:
    """Add the columns x and y of ``layout`` to nodes, missing where the layout has no place.

    An infinite coordinate, which a verb of the user's own may write, counts as missing: JSON has no
    infinity.
    """
    places = rows[["id"]].merge(layout, on="id", how="left", validate="1:1")
    places = places[["x", "y"]].astype(float)
    places = places.where(np.isfinite(places))
    return rows.assign(x=places["x"].to_numpy(), y=places["y"].to_numpy())


def with_properties(rows: pd.DataFrame, properties: pd.DataFrame) -> pd.DataFrame:
    """Add the column ``properties`` to nodes: the JSON of ``properties``, "" where there are
    none."""
    found = rows[["id"]].merge(properties, on="id", how="left", validate="1:1")
    return rows.assign(properties=found["properties"].fillna("").to_numpy())


def edges(links: pd.DataFrame, kept_types: Collection[str]) -> pd.DataFrame:
    """Return the rows of edges. A type that is not kept becomes RELATED; its keyword stays in
    ``keywords``."""
    ends = ["source_entity_id", "target_entity_id", "source", "target", "description", "weight"]
    types = [type if type in kept_types else RELATED for type in edge_types(links["keywords"])]
    return links[["id", *ends]].assign(type=types, keywords=lists(links["keywords"]))


def sourced_edges(links: pd.DataFrame, kept_types: Collection[str]) -> pd.DataFrame:
    """Return the rows of ``edges`` with ``source_id``, the list of their text units."""
    return edges(links, kept_types).assign(source_id=lists(links["text_unit_ids"]))


def edge_types(keywords: pd.Series) -> list[str]:
    """Return, for each list of keywords, the relationship type: the name of its first keyword.

    The type of an empty or missing list is RELATED.
    """
    lists = to_arrow(keywords, STRINGS)
    lengths = lengths_of(keywords)
    # The place of each list's first item among the items of all lists; null for an empty list.
    first_places = pa.array(np.cumsum(lengths) - lengths, mask=lengths == 0)
    return _type_names(lists.flatten().take(first_places), RELATED)


def _type_names(labels: pa.Array, otherwise: str) -> list[str]:
    """Return the type name of each label, ``otherwise`` for null; equal labels are named once."""
    encoded = labels.dictionary_encode()
    names = [type_name(label, otherwise) for label in encoded.dictionary.to_pylist()]
    place_of_null = len(names)
    names.append(otherwise)
    return [names[place] for place in encoded.indices.fill_null(place_of_null).to_pylist()]


def most_frequent(types: Counter[str], limit: int) -> frozenset[str]:
    """Return the ``limit`` most frequent types, ties by name.

    A graph database allows a limited number of relationship types.
    """
    ranked = sorted(types.items(), key=lambda entry: (-entry[1], entry[0]))
    return frozenset(name for name, _ in ranked[:limit])


@lru_cache(10_000)
def type_name(label: str, otherwise: str) -> str:
    """Return the name of a node label or relationship type.

    It is in upper case, its words joined by underscores, in letters of any script. A name that is
    too long ends with a digest of all of it, so that different names stay different. A label
    without letters or digits gives ``otherwise``.
    """
    name = "_".join(re.findall(r"\w+", label.upper())).strip("_")
    if len(name) <= TYPE_LENGTH:
        return name or otherwise
    suffix = digest(name)[:TYPE_SUFFIX].upper()
    return f"{name[: TYPE_LENGTH - TYPE_SUFFIX - 1].rstrip('_')}_{suffix}"


def reports(found: pd.DataFrame, communities: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of reports without their vectors.

    ``found``: the table community_reports. ``communities``: (id, children).
    """
    columns = ["id", "level", "parent", "title", "summary", "content", "rating", "weight", "size"]
    rows = found[columns].assign(chunk_ids=lists(found["text_unit_ids"]))
    children = communities[["id"]].assign(children=lists(communities["children"]))
    return rows.merge(children, on="id", validate="1:1")


def communities(found: pd.DataFrame, reports: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of communities, with the title, summary, rating and weight of their reports.

    A community without a report has its own title, an empty summary, and 0 for both numbers.
    ``found``: the table communities. ``reports``: (id, title, summary, rating, weight).
    """
    rows = found[["id", "level", "parent", "size"]].reset_index(drop=True)
    of_report = reports[["id", "title", "summary", "rating", "weight"]]
    report = rows[["id"]].merge(of_report, on="id", how="left", validate="1:1")
    own_title = found["title"].to_numpy()
    return rows.assign(
        title=report["title"].where(report["title"].notna(), own_title),
        summary=report["summary"].where(report["summary"].notna(), ""),
        rating=report["rating"].astype("float64").fillna(0.0),
        weight=report["weight"].astype("float64").fillna(0).astype("int64"),
        entity_ids=lists(found["entity_ids"]).reset_index(drop=True),
    )


def lists(column: pd.Series) -> pd.Series:
    """Return a column of lists: unchanged if it is in Arrow, else with a Python list in each
    cell."""
    return column if in_arrow(column) else column.map(list)
