"""One folder of Parquet in the columns of Microsoft GraphRAG 3.x, for its query engine and its
users' tools.

What its columns have no place for, and a later import would miss, follows them: ``types`` of
entities, ``keywords`` of relationships. ``raw_data`` of a document holds our ``source`` and
``metadata``.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.contract.schemas import (
    COMMUNITIES,
    COMMUNITY_REPORTS,
    COVARIATES,
    FLOAT,
    INT,
    STRING,
    STRINGS,
    TYPE_COUNTS,
    TableSchema,
    is_list,
    list_of,
)
from pipeline.export.source import CORPUS, GRAPH, ExportReport, ExportSource
from pipeline.files import new_file

NUMBER = "human_readable_id"
RAW_DATA = pa.struct([("source", STRING), ("metadata", STRING)])
NO_PARENT = -1

SCHEMAS: Mapping[str, Mapping[str, pa.DataType]] = {
    "documents": {
        "id": STRING, NUMBER: INT, "title": STRING, "text": STRING, "text_unit_ids": STRINGS,
        "creation_date": STRING,
        "raw_data": RAW_DATA,
    },
    "text_units": {
        "id": STRING, NUMBER: INT, "text": STRING, "n_tokens": INT, "document_id": STRING,
        "entity_ids": STRINGS,
        "relationship_ids": STRINGS, "covariate_ids": STRINGS,
    },
    "entities": {
        "id": STRING, NUMBER: INT, "title": STRING, "type": STRING, "description": STRING,
        "text_unit_ids": STRINGS,
        "frequency": INT, "degree": INT, "types": TYPE_COUNTS,
    },
    "relationships": {
        "id": STRING, NUMBER: INT, "source": STRING, "target": STRING, "description": STRING,
        "weight": FLOAT,
        "combined_degree": INT, "text_unit_ids": STRINGS, "keywords": STRINGS,
    },
    "communities": {
        "id": STRING, NUMBER: INT, "community": INT, "level": INT, "parent": INT,
        "children": list_of(INT),
        "title": STRING, "entity_ids": STRINGS, "relationship_ids": STRINGS,
        "text_unit_ids": STRINGS,
        "period": STRING, "size": INT,
    },
    "community_reports": {
        "id": STRING, NUMBER: INT, "community": INT, "level": INT, "parent": INT,
        "children": list_of(INT),
        "title": STRING, "summary": STRING, "full_content": STRING, "rank": FLOAT,
        "rating_explanation": STRING,
        "findings": list_of(pa.struct([("explanation", STRING), ("summary", STRING)])),
        "full_content_json": STRING,
        "period": STRING, "size": INT,
    },
    "covariates": {
        "id": STRING, NUMBER: INT, "covariate_type": STRING, "type": STRING, "description": STRING,
        "subject_id": STRING, "object_id": STRING, "status": STRING, "start_date": STRING,
        "end_date": STRING,
        "source_text": STRING, "text_unit_id": STRING,
    },
}  # fmt: skip
TOLD = ("title", "summary", "findings", "rating", "rating_explanation")
"""What the model told of a community."""
CLAIM = "claim"
"""The one kind of covariate that there is."""

Columns = dict[str, Any]


def write_graphrag_parquet(source: ExportSource, folder: Path) -> ExportReport:
    """A file a table, rows numbered from 0; communities and reports are empty where the workflow
    makes none, and covariates.parquet is not there.

    Raises UsageError without documents, text units or a graph.
    """
    source.require(*CORPUS, *GRAPH)
    entities, relationships = source.table("entities"), source.table("relationships")
    units, covariates = source.table("text_units"), _optional(source, "covariates", COVARIATES)
    communities = _optional(source, "communities", COMMUNITIES)
    numbers = {id: number for number, id in enumerate(communities["id"].to_pylist())}
    tables = {
        "documents": _documents(source.table("documents"), units),
        "text_units": _text_units(units, entities, relationships, covariates),
        "entities": _named(entities, title="name"),
        "relationships": _named(relationships, combined_degree="rank"),
        "communities": _communities(communities, numbers),
        "community_reports": _reports(
            _optional(source, "community_reports", COMMUNITY_REPORTS), communities, numbers
        ),
    }
    if source.has("covariates"):
        tables["covariates"] = _covariates(covariates)
    return ExportReport(
        "parquet",
        folder,
        {f"{name}.parquet": _write(folder, name, columns) for name, columns in tables.items()},
    )


def _write(folder: Path, name: str, columns: Columns) -> int:
    """A column that is not given is empty: null in every row, an empty list where it is one of
    lists."""
    schema = pa.schema(list(SCHEMAS[name].items()))
    rows = len(next(iter(columns.values()), ()))
    columns = {NUMBER: range(rows), **columns}
    arrays = [_array(columns.get(field.name), field.type, rows) for field in schema]
    with new_file(folder / f"{name}.parquet") as path:
        pq.write_table(
            pa.Table.from_arrays(arrays, schema=schema),
            path,
            compression="zstd",
            store_schema=False,
        )
    return rows


def _array(cells: Any, type: pa.DataType, rows: int) -> pa.Array | pa.ChunkedArray:
    if cells is None:
        cells = [[] if is_list(type) else None] * rows
    return cells.cast(type) if isinstance(cells, pa.ChunkedArray) else pa.array(cells, type)


def _named(table: pa.Table, **renamed: str) -> Columns:
    """The table's columns, some of them under another name as well."""
    columns = {name: table[name] for name in table.column_names}
    return columns | {name: table[column] for name, column in renamed.items()}


def _documents(documents: pa.Table, units: pa.Table) -> Columns:
    of_document = (
        units.select(["document_id", "id"])
        .to_pandas()
        .groupby("document_id", sort=False)["id"]
        .agg(list)
    )
    raw_data = documents.select(["source", "metadata"]).to_pylist()
    return _named(documents) | {
        "text_unit_ids": _lists(documents["id"], of_document),
        "raw_data": raw_data,
    }


def _optional(source: ExportSource, name: str, schema: TableSchema) -> pa.Table:
    return source.table(name) if source.has(name) else schema.arrow.empty_table()


def _text_units(
    units: pa.Table, entities: pa.Table, relationships: pa.Table, covariates: pa.Table
) -> Columns:
    of_unit = (
        covariates.select(["text_unit_id", "id"])
        .to_pandas()
        .groupby("text_unit_id", sort=False)["id"]
        .agg(list)
    )
    return _named(units) | {
        "entity_ids": _lists(units["id"], _ids_by_unit(entities)),
        "relationship_ids": _lists(units["id"], _ids_by_unit(relationships)),
        "covariate_ids": _lists(units["id"], of_unit),
    }


def _ids_by_unit(table: pa.Table) -> pd.Series:
    pairs = table.select(["id", "text_unit_ids"]).to_pandas().explode("text_unit_ids")
    return pairs.groupby("text_unit_ids", sort=False)["id"].agg(list)


def _lists(ids: pa.ChunkedArray, lists: pd.Series) -> list[list[str]]:
    known = dict(zip(lists.index, lists, strict=True))
    return [known.get(id, []) for id in ids.to_pylist()]


def _communities(table: pa.Table, numbers: Mapping[str, int]) -> Columns:
    """Numbered from the coarsest level down."""
    return _named(table) | {
        "community": list(numbers.values()),
        "parent": [numbers.get(parent, NO_PARENT) for parent in table["parent"].to_pylist()],
        "children": [
            [numbers[child] for child in children] for children in table["children"].to_pylist()
        ],
        "title": [f"Community {number}" for number in numbers.values()],
        "period": [""] * len(numbers),
    }


def _reports(reports: pa.Table, communities: pa.Table, numbers: Mapping[str, int]) -> Columns:
    """Of communities that are there."""
    rows = [row for row in reports.to_pylist() if row["id"] in numbers]
    children = dict(
        zip(communities["id"].to_pylist(), communities["children"].to_pylist(), strict=True)
    )
    same = ("id", "level", "title", "summary", "rating_explanation", "findings", "size")
    return {name: [row[name] for row in rows] for name in same} | {
        "community": [numbers[row["id"]] for row in rows],
        "parent": [numbers.get(row["parent"], NO_PARENT) for row in rows],
        "children": [[numbers[child] for child in children[row["id"]]] for row in rows],
        "full_content": [row["content"] for row in rows],
        "rank": [row["rating"] for row in rows],
        "full_content_json": [
            json.dumps({name: row[name] for name in TOLD}, ensure_ascii=False) for row in rows
        ],
        "period": [""] * len(rows),
    }


def _covariates(covariates: pa.Table) -> Columns:
    """There a claim has the names of its entities for ids."""
    rows = covariates.num_rows
    return _named(covariates, subject_id="subject", object_id="object") | {
        "covariate_type": [CLAIM] * rows
    }
