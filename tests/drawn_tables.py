"""Tables of any schema, drawn by hypothesis from few ids, names and sentences, so that keys
collide."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

from pipeline.contract.schemas import TITLE_FROM, TableSchema, is_list, is_text

MOST_ROWS = 8
IDS = {
    "documents": ["d1", "d2", "d3"],
    "text_units": ["u1", "u2", "u3", "u4", "u5"],
    "entities": ["e1", "e2", "e3", "e4"],
    "relationships": ["r1", "r2", "r3", "r4"],
}
"""By how a table's name ends."""
REFERENCES = {
    "document_id": "documents",
    "text_unit_id": "text_units",
    "entity_id": "entities",
    "source_entity_id": "entities",
    "target_entity_id": "entities",
}
SENTENCES = [
    "Ada Holm, Duchess of Skarrow, built the Skarrow Lamp.",
    "Ada Holm, Duchess of Quill, sold it to Otto Holm.",
    "Ada Holm (1835-1901) kept the storm lamp, the storm lamp of Quill.",
    "Ada Holm (born 1947) wrote to Otto Holm.",
    "Otto Holm saw Ada Holm of Skarrow at the Skarrow Lamp.",
    "The Quill Fair was a fair of Otto Holm and of Ada Holm.",
    "The tide was out.",
]
NAMES = [
    "Ada Holm", "ADA HOLM", "Ada Holm of Skarrow", "Ada Holm, Duchess of Skarrow",
    "Ada Holm (1835-1901)", "Otto Holm",
    "Skarrow Lamp", "Quill", "",
]  # fmt: skip
WORDS = ["", "near", "co-occurs", "keeps", "a long word of Skarrow"]
CELLS: Mapping[str, st.SearchStrategy[Any]] = {
    "text": st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=3).map(" ".join),
    "title": st.sampled_from(["Skarrow Lamp", "Quill Fair", "Otto Holm", "Notes", ""]),
    TITLE_FROM: st.sampled_from(["given", "heading", "file_name", "first_line"]),
    "aliases": st.lists(st.sampled_from(["Storm Lamp", "Otto Holm", "Quill"]), max_size=2),
    "date": st.sampled_from(["", "1899", "1901-05", "1901-05-03"]),
    "metadata": st.sampled_from(['{"owner": "Ada", "year": 1899}', '{"year": "1901"}', "{}"]),
    "kind": st.sampled_from(["entity", "entity", "relationship", "relationship", "other"]),
    "type": st.sampled_from(["person", "PERSON", "place", "name", ""]),
    "source": st.sampled_from(NAMES),
    "target": st.sampled_from(NAMES),
    "name": st.sampled_from(NAMES),
}
FLOATS = [0.0, -0.0, 0.1, 0.2, 0.3, 0.7, 1.0, 2.5, 1e15]
"""Their sums tell in which order they were added."""


def drawn_tables(schemas: Mapping[str, TableSchema]) -> st.SearchStrategy[dict[str, pd.DataFrame]]:
    """A table of each schema; what a row refers to is there, where it is of a table that is drawn
    too."""
    rows = {name: _rows(name, schema) for name, schema in schemas.items()}
    return st.fixed_dictionaries(rows).map(lambda drawn: _frames(schemas, _resolved(drawn)))


def edited(
    schemas: Mapping[str, TableSchema], before: Mapping[str, pd.DataFrame]
) -> st.SearchStrategy[Any]:
    """The same tables after a night: of the rows that were, some are gone and some others; some are
    new."""

    def mixed(other: Mapping[str, pd.DataFrame], choices: list[str]) -> dict[str, pd.DataFrame]:
        turns = iter(choices * (2 * MOST_ROWS * len(schemas)))
        rows = {
            name: _mixed(schema, before[name], other[name], turns)
            for name, schema in schemas.items()
        }
        return _frames(schemas, _resolved(rows))

    kept_mostly = st.lists(
        st.sampled_from(["old", "old", "old", "new", "none"]), min_size=1, max_size=12
    )
    return st.builds(mixed, drawn_tables(schemas), kept_mostly)


def _rows(table: str, schema: TableSchema) -> st.SearchStrategy[list[dict[str, Any]]]:
    cells = {
        field.name: _or_missing(_cell(table, field), field.name, schema) for field in schema.arrow
    }
    unique = [schema.key, *([("id",)] if "id" in cells else [])]
    return st.lists(
        st.fixed_dictionaries(cells), max_size=MOST_ROWS,
        unique_by=tuple(lambda row,
            key=key: repr([row[name] for name in key]) for key in unique if key),
    )  # fmt: skip


def _cell(table: str, field: pa.Field) -> st.SearchStrategy[Any]:
    if field.name in REFERENCES:
        return st.sampled_from(IDS[REFERENCES[field.name]])
    if field.name == "id":
        return st.sampled_from(
            next((ids for kind, ids in IDS.items() if table.endswith(kind)), ["x1", "x2", "x3"])
        )
    return CELLS[field.name] if field.name in CELLS else _of_type(field.type)


def _or_missing(
    cells: st.SearchStrategy[Any], column: str, schema: TableSchema
) -> st.SearchStrategy[Any]:
    """A cell that may be missing is so at times."""
    told = column in schema.required or column in schema.key
    return (
        cells
        if told
        else st.sampled_from([True] * 9 + [False]).flatmap(
            lambda there: cells if there else st.none()
        )
    )


def _of_type(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if is_text(kind):
        return st.sampled_from(WORDS)
    if is_list(kind):
        return st.lists(_of_type(kind.value_type), max_size=3)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: _of_type(field.type) for field in kind})
    if pa.types.is_boolean(kind):
        return st.booleans()
    return st.integers(0, 3) if pa.types.is_integer(kind) else st.sampled_from(FLOATS)


def _resolved(rows: Mapping[str, list[dict[Any, Any]]]) -> dict[str, list[dict[Any, Any]]]:
    """Without rows that refer to what is not there."""
    there = {kind: [name for name in rows if name.endswith(kind)] for kind in IDS}

    def resolves(row: Mapping[str, Any]) -> bool:
        return all(
            any(row[column] == one["id"] for one in rows[table] if "id" in one)
            for column, kind in REFERENCES.items()
            if column in row
            for table in there[kind]
        )

    return {name: [row for row in of_table if resolves(row)] for name, of_table in rows.items()}


def _mixed(
    schema: TableSchema, before: pd.DataFrame, other: pd.DataFrame, turns: Iterator[str]
) -> list[dict[Any, Any]]:
    """By key: the row of the one, of the other, or none."""
    old, new = (
        {_key(schema, row): row for row in frame.to_dict("records")} for frame in (before, other)
    )
    chosen = [
        {"old": old.get(key, new.get(key)), "new": new.get(key), "none": None}[next(turns)]
        for key in old | new
    ]
    taken: dict[str, dict[Any, Any]] = {}
    for row in chosen:
        if row is not None:
            taken.setdefault(row.get("id", _key(schema, row)), row)
    return list(taken.values())


def _key(schema: TableSchema, row: Mapping[Any, Any]) -> str:
    return repr([row[name] for name in schema.key])


def _frames(
    schemas: Mapping[str, TableSchema], rows: Mapping[str, list[dict[Any, Any]]]
) -> dict[str, pd.DataFrame]:
    return {
        name: schema.frame(pd.DataFrame(rows[name], columns=schema.columns))
        for name, schema in schemas.items()
    }
