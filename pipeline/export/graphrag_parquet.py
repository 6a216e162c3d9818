"""Writes Parquet files in the layout of Microsoft GraphRAG 3.x, for its query engine and its users'
tools.

Values that its columns have no place for, and that an import would miss, are in further columns:
``types`` of entities and ``keywords`` of relationships. Statements, which GraphRAG does not have,
are a further file. The ``raw_data`` of a document holds its
``source`` and ``metadata``.
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
"""The column with the number of a row, from 0."""
RAW_DATA = pa.struct([("source", STRING), ("metadata", STRING)])
NO_PARENT = -1
"""The number that stands for the parent of a community without one."""

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
    "statements": {
        "id": STRING, NUMBER: INT, "relationship_id": STRING, "text_unit_id": STRING,
        "type": STRING, "description": STRING, "valid_from": STRING, "valid_to": STRING,
        "attributes": STRING,
    },
    "attributes": {
        "id": STRING, NUMBER: INT, "entity_id": STRING, "name": STRING, "type": STRING,
        "value": STRING, "unit": STRING, "text_unit_id": STRING, "document_id": STRING,
        "correction": STRING,
    },
}  # fmt: skip
REPLY_FIELDS = ("title", "summary", "findings", "rating", "rating_explanation")
"""The fields of a report that the model wrote, for the column ``full_content_json``."""
SAME_FIELDS = ("id", "level", "title", "summary", "rating_explanation", "findings", "size")
"""The fields of a report that have the same name in GraphRAG."""
CLAIM = "claim"
"""The only type of covariate."""

Columns = dict[str, Any]
"""The cells of each column, by its name in GraphRAG. Names that GraphRAG does not have are
ignored."""


def write_graphrag_parquet(source: ExportSource, folder: Path) -> ExportReport:
    """Write a Parquet file for each table of GraphRAG.

    Communities and reports are empty files if the workflow makes none. Without claims there is no
    covariates.parquet, without statements no statements.parquet, and without properties no
    attributes.parquet. Raises UsageError if the workflow makes no documents, text units or graph.
    """
    source.require(*CORPUS, *GRAPH)
    entities = source.table("entities")
    relationships = source.table("relationships")
    units = source.table("text_units")
    covariates = _read_optional(source, "covariates", COVARIATES)
    communities = _read_optional(source, "communities", COMMUNITIES)
    # The rows are sorted by level, so communities are numbered from the coarsest level down.
    numbers = {id: number for number, id in enumerate(communities["id"].to_pylist())}
    tables = {
        "documents": _make_documents(source.table("documents"), units),
        "text_units": _make_text_units(units, entities, relationships, covariates),
        "entities": _rename_columns(entities, title="name"),
        "relationships": _rename_columns(relationships, combined_degree="rank"),
        "communities": _make_communities(communities, numbers),
    }
    reports = _read_optional(source, "community_reports", COMMUNITY_REPORTS)
    tables["community_reports"] = _make_reports(reports, communities, numbers)
    if source.has("covariates"):
        claims = _rename_columns(covariates, subject_id="subject", object_id="object")
        # GraphRAG identifies the entities of a claim by their names.
        tables["covariates"] = claims | {"covariate_type": [CLAIM] * covariates.num_rows}
    if source.has("statements"):
        tables["statements"] = _rename_columns(source.table("statements"))
    if source.has("attributes"):
        tables["attributes"] = _rename_columns(source.table("attributes"))
    rows_of: dict[str, int] = {}
    for name, columns in tables.items():
        rows_of[f"{name}.parquet"] = _write_table(folder, name, columns)
    return ExportReport("parquet", folder, rows_of)


def _write_table(folder: Path, name: str, columns: Columns) -> int:
    """Write the file of a table, with numbered rows; return the number of rows.

    A column that is not given is empty: it has an empty list in each row, or null if its type is no
    list.
    """
    schema = pa.schema(list(SCHEMAS[name].items()))
    first_column = next(iter(columns.values()), ())
    rows = len(first_column)
    columns = {NUMBER: range(rows), **columns}
    arrays = [_make_array(columns.get(field.name), field.type, rows) for field in schema]
    table = pa.Table.from_arrays(arrays, schema=schema)
    with new_file(folder / f"{name}.parquet") as path:
        pq.write_table(table, path, compression="zstd", store_schema=False)
    return rows


def _make_array(cells: Any, type: pa.DataType, rows: int) -> pa.Array | pa.ChunkedArray:
    if cells is None:
        empty = [] if is_list(type) else None
        return pa.array([empty] * rows, type)
    if isinstance(cells, pa.ChunkedArray):
        return cells.cast(type)
    return pa.array(cells, type)


def _rename_columns(table: pa.Table, **renamed: str) -> Columns:
    """Return the columns of a table, and some of them under a further name.

    ``renamed``: new name -> name of the column.
    """
    columns = {name: table[name] for name in table.column_names}
    for new_name, name in renamed.items():
        columns[new_name] = table[name]
    return columns


def _read_optional(source: ExportSource, name: str, schema: TableSchema) -> pa.Table:
    """Return a table; without rows if the workflow does not make it."""
    return source.table(name) if source.has(name) else schema.arrow.empty_table()


def _make_documents(documents: pa.Table, units: pa.Table) -> Columns:
    pairs = units.select(["document_id", "id"]).to_pandas()
    units_of = pairs.groupby("document_id", sort=False)["id"].agg(list)
    columns = _rename_columns(documents)
    columns["text_unit_ids"] = _look_up_lists(documents["id"], units_of)
    columns["raw_data"] = documents.select(["source", "metadata"]).to_pylist()
    return columns


def _make_text_units(
    units: pa.Table, entities: pa.Table, relationships: pa.Table, covariates: pa.Table
) -> Columns:
    pairs = covariates.select(["text_unit_id", "id"]).to_pandas()
    covariates_of = pairs.groupby("text_unit_id", sort=False)["id"].agg(list)
    ids = units["id"]
    columns = _rename_columns(units)
    columns["entity_ids"] = _look_up_lists(ids, _group_by_unit(entities))
    columns["relationship_ids"] = _look_up_lists(ids, _group_by_unit(relationships))
    columns["covariate_ids"] = _look_up_lists(ids, covariates_of)
    return columns


def _group_by_unit(table: pa.Table) -> pd.Series:
    """Return, by the id of a text unit, the list of ids of the rows that come from it."""
    rows = table.select(["id", "text_unit_ids"]).to_pandas()
    # A row for each pair of an id and a text unit.
    pairs = rows.explode("text_unit_ids")
    return pairs.groupby("text_unit_ids", sort=False)["id"].agg(list)


def _look_up_lists(ids: pa.ChunkedArray, lists: pd.Series) -> list[list[str]]:
    """Return the list of each id, empty if there is none; the index of ``lists`` has ids."""
    list_of_id = dict(zip(lists.index, lists, strict=True))
    return [list_of_id.get(id, []) for id in ids.to_pylist()]


def _make_communities(table: pa.Table, numbers: Mapping[str, int]) -> Columns:
    """Return the columns of communities; ``numbers``: the number of each, by id."""
    parents = table["parent"].to_pylist()
    columns = _rename_columns(table)
    columns["community"] = list(numbers.values())
    columns["parent"] = [numbers.get(parent, NO_PARENT) for parent in parents]
    columns["children"] = [
        [numbers[child] for child in children] for children in table["children"].to_pylist()
    ]
    columns["title"] = [f"Community {number}" for number in numbers.values()]
    columns["period"] = [""] * len(numbers)
    return columns


def _make_reports(reports: pa.Table, communities: pa.Table, numbers: Mapping[str, int]) -> Columns:
    """Return the columns of reports; a report without its community is left out."""
    ids = communities["id"].to_pylist()
    children_of = dict(zip(ids, communities["children"].to_pylist(), strict=True))
    rows: list[dict[str, Any]] = []
    for report in reports.to_pylist():
        id = report["id"]
        if id not in numbers:
            continue
        reply = {name: report[name] for name in REPLY_FIELDS}
        row = {name: report[name] for name in SAME_FIELDS}
        row["community"] = numbers[id]
        row["parent"] = numbers.get(report["parent"], NO_PARENT)
        row["children"] = [numbers[child] for child in children_of[id]]
        row["full_content"] = report["content"]
        row["rank"] = report["rating"]
        row["full_content_json"] = json.dumps(reply, ensure_ascii=False)
        row["period"] = ""
        rows.append(row)
    # Rows are numbered when they are written.
    names = [name for name in SCHEMAS["community_reports"] if name != NUMBER]
    return {name: [row[name] for row in rows] for name in names}
