"""Every table: its columns, their types, and the order its rows are kept in.

The schema's version is in every manifest and step record (key ``schema_version``) and in the
stores' live row. It is not in Parquet files: it would change their content hash, and so run every
step again.

A verb declares the schemas it reads and writes; the runner checks them where tables go in and out.
Column meanings are in docs/tables.md. A verb receives list cells as numpy arrays, as pandas reads
them from Arrow.

Texts and lists have 64-bit offsets in memory: with those of 32 bits a column could not hold more
than 2 GiB of text, or 2^31 floats of vectors. A Parquet file has the same bytes either way.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.cells import VECTOR, as_frame, list_of, with_json_texts
from pipeline.errors import DataError

# PyArrow creates the functions of this module on import, so type checkers see none of them.
pc: Any = pyarrow.compute

STRING, INT, FLOAT, BOOL = pa.large_string(), pa.int64(), pa.float64(), pa.bool_()

HASHES = pa.schema([("id", STRING), ("row_hash", STRING)])
"""The columns of a store's row hashes, and of those that a load computes for comparison."""

WIDE: Any = {"binary_type": pa.large_binary(), "list_type": pa.LargeListType}
"""Options that make a Parquet file's texts and lists arrive with these types."""


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def type_name(kind: pa.DataType) -> str:
    """Return the type's name as Parquet has it: the width of offsets in memory changes no
    result."""
    return str(kind).replace("large_", "")


STRINGS = list_of(STRING)
TYPE_COUNTS = list_of(pa.struct([("type", STRING), ("count", INT)]))
FINDINGS = list_of(pa.struct([("summary", STRING), ("explanation", STRING)]))


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table.

    - ``key``: the columns that fix the order of rows; those in ``descending`` from the greatest
      down.
    - ``more``: whether a table that a verb reads may have further columns, which the verb gets too.
    - ``required``: the columns that say which row it is, or which other one it refers to; all
      others may have nulls.
    - ``optional``: the last columns, which a table may lack; they are null then.
    """

    arrow: pa.Schema
    key: tuple[str, ...]
    descending: tuple[str, ...] = ()
    more: bool = False
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        return list(self.arrow.names)

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that fix the order of rows, as snapshots name them: "-" stands before those
        in ``descending``.

        It is empty if the rows have an order of their own, or if lists are in the key.
        """
        if any(pa.types.is_nested(self.arrow.field(name).type) for name in self.key):
            return ()
        return tuple(f"-{name}" if name in self.descending else name for name in self.key)

    def frame(self, rows: Any = ()) -> pd.DataFrame:
        """Return a DataFrame of these columns from rows (dicts or tuples); typed even when
        empty."""
        rows = rows if isinstance(rows, pd.DataFrame) else list(rows)
        if isinstance(rows, list) and not rows:
            # Many tables of a run are empty: a frame that pandas makes first costs as much again.
            return as_frame(self.arrow.empty_table())
        if isinstance(rows, list) and isinstance(rows[0], tuple):
            # Tuples may end before the optional columns, which are the last ones.
            given = self.columns[: len(rows[0])] if self.optional else self.columns
            columns = {name: [row[place] for row in rows] for place, name in enumerate(given)}
            absent = {name: [None] * len(rows) for name in self.optional if name not in columns}
            return as_frame(self._to_arrow(columns | absent, "rows"))
        frame = pd.DataFrame(rows, columns=self.columns)
        return as_frame(self.encode(frame, "rows"))

    def encode(self, frame: pd.DataFrame, where: str) -> pa.Table:
        """Return the frame as an Arrow table: columns in declared order and type, rows sorted by
        key.

        Raises DataError when a column is missing, unknown, or does not fit its type.
        """
        missing = self.missing(frame.columns)
        unknown = [str(name) for name in frame.columns if name not in self.columns]
        if missing or unknown:
            raise DataError(
                f"{where}: missing columns {missing}, unknown columns {unknown}; expected"
                f" {self.columns}"
            )
        if frame.empty:
            return self.arrow.empty_table()
        return self._to_arrow(self.seen(frame), where)

    def missing(self, columns: Collection[Any]) -> list[str]:
        """Return the columns of the schema that are not among these and not optional."""
        return [name for name in self.columns if name not in columns and name not in self.optional]

    def seen(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the schema's columns of the frame; optional ones that it lacks are added with
        nulls."""
        if frame.columns.tolist() == self.columns:
            # To choose all columns costs more than the copy, which shares the cells until one of
            # both frames is changed.
            return frame.copy(deep=False)
        absent = {name: None for name in self.optional if name not in frame.columns}
        return (frame.assign(**absent) if absent else frame)[self.columns]

    def only(self, columns: Collection[str]) -> "TableSchema":
        """Return the schema of these columns of the table, in no order."""
        return TableSchema(
            pa.schema([field for field in self.arrow if field.name in columns]),
            key=(),
            required=tuple(name for name in self.required if name in columns),
            optional=tuple(name for name in self.optional if name in columns),
        )

    def filled(self, frame: pd.DataFrame, where: str) -> pd.DataFrame:
        """Return the frame with missing cells filled: texts with "", lists with an empty one,
        numbers with 0.

        Columns of other kinds, and tables that may have further columns, stay as they are. Raises
        DataError where a required cell is missing: filled, it would refer to another row.
        """
        for name in self.required:
            if lost := int(frame[name].isna().sum()):
                raise DataError(
                    f"{where}: column '{name}' is empty in {lost} rows; fill it, or filter them out"
                )
        there = [name for name in self.columns if name in frame.columns]
        with_gaps = [] if self.more else [name for name in there if frame[name].hasnans]
        types = {name: self.arrow.field(name).type for name in with_gaps}
        filled = {name: _fill_column(frame[name], kind) for name, kind in types.items()}
        return frame.assign(**filled)

    def joined(self, *tables: pa.Table) -> pa.Table:
        """Return the rows of several tables of this schema as one table in the order of the key."""
        if len(tables) == 1:
            return tables[0].cast(self.arrow)
        together = pa.concat_tables(table.cast(self.arrow) for table in tables)
        return self._sort(together).combine_chunks()

    def _to_arrow(self, columns: Mapping[str, Any] | pd.DataFrame, where: str) -> pa.Table:
        arrays = [
            _array(columns[field.name], field.type, f"{where}: column '{field.name}'")
            for field in self.arrow
        ]
        table = pa.Table.from_arrays(arrays, schema=self.arrow)
        return self._sort(table).combine_chunks()

    def _sort(self, table: pa.Table) -> pa.Table:
        """Return the table sorted by key, or as it is if the schema has no key.

        If it is sorted already, it is returned itself: a copy may take much memory.
        """
        if table.num_rows < 2 or not self.key:
            return table
        columns = [table[name] for name in self.key]
        if not self.descending and all(is_text(each.type) for each in columns):
            # Arrow and pandas order texts alike, by code points and with nulls at the end. Pandas
            # takes six times as long where there are few rows.
            order = pc.sort_indices(table, [(name, "ascending") for name in self.key]).to_numpy()
            is_sorted = bool((order[1:] > order[:-1]).all())
            return table if is_sorted else table.take(order)
        nested = [name for name in self.key if pa.types.is_nested(self.arrow.field(name).type)]
        cells = with_json_texts(as_frame(table.select(self.key)), nested)
        ascending = [name not in self.descending for name in self.key]
        order = cells.sort_values(list(self.key), ascending=ascending, kind="stable").index
        return table if order.is_monotonic_increasing else table.take(order.to_numpy())

    def describe(self) -> list[list[str]]:
        """Return names, types and key: everything in a schema that can change a step's result."""
        parts = [[field.name, type_name(field.type)] for field in self.arrow]
        parts.append(["key", *self.key])
        if self.descending:
            parts.append(["descending", *self.descending])
        return parts


def _array(cells: Any, type: pa.DataType, where: str) -> pa.Array | pa.ChunkedArray:
    # Pandas makes floats of a column of missing lists, which Arrow does not convert to lists.
    if is_list(type) and isinstance(cells, pd.Series) and cells.isna().all():
        return pa.nulls(len(cells), type)
    try:
        return pa.array(cells, type, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{where}: {error}; the verb must return what its schema declares"
        ) from error


def _fill_column(column: pd.Series, kind: pa.DataType) -> pd.Series:
    if is_text(kind):
        return column.fillna("")
    if is_list(kind):
        cells = [
            () if missing else cell for cell, missing in zip(column, column.isna(), strict=True)
        ]
        return pd.Series(cells, column.index, dtype=object)
    if kind in (INT, FLOAT):
        return column.fillna(0).astype(kind.to_pandas_dtype())
    return column


FOLLOWED = ("id", "document_id", "source_entity_id", "target_entity_id", "left_id", "right_id")
"""Columns that identify a row or refer to another one: required in every table that has them."""


def table(*key: str, **columns: pa.DataType) -> TableSchema:
    """Return the schema of a table with these columns, sorted by the columns of ``key``."""
    required = tuple(name for name in FOLLOWED if name in columns)
    return TableSchema(pa.schema(list(columns.items())), key, required=required)


def at_least(**columns: pa.DataType) -> TableSchema:
    """Return the schema of a verb's input that may be any table with these columns."""
    return TableSchema(pa.schema(list(columns.items())), (), more=True)


def columns_of(schema: TableSchema) -> dict[str, pa.DataType]:
    """Return the columns of a schema with their types."""
    return {field.name: field.type for field in schema.arrow}


ANY = at_least()


def _with_optional(schema: TableSchema, *names: str) -> TableSchema:
    return replace(schema, optional=names)


TITLE_FROM = "title_from"
"""The column with the origin of a document's title: given, heading, first_line or file_name. Null
counts as given."""
NAMING = frozenset(("given", "heading", ""))
"""The origins of titles that name what a document is about."""
FILE_NAME = "file_name"
"""The origin of a title that is the name of the document's file."""
DOCUMENTS = _with_optional(
    table(
        "id",
        id=STRING, title=STRING, text=STRING, source=STRING, metadata=STRING, content_hash=STRING,
        title_from=STRING, date=STRING, date_from=STRING, aliases=STRINGS,
    ),
    TITLE_FROM, "date", "date_from", "aliases",
)  # fmt: skip
TITLES = _with_optional(
    table(
        "id", id=STRING, title=STRING, title_from=STRING, aliases=STRINGS, source=STRING,
    ),
    TITLE_FROM, "aliases", "source",
)  # fmt: skip
"""The columns of documents for a verb that does not read their texts."""
UNIT_TEXTS = table(
    "document_id", "order",
    id=STRING, text=STRING, n_tokens=INT, document_id=STRING, start=INT, end=INT, order=INT,
)  # fmt: skip
"""The columns of text units for a verb that reads no headings: a renamed heading changes nothing of
what it makes."""
TEXT_UNITS = _with_optional(
    table("document_id", "order", **columns_of(UNIT_TEXTS), heading=STRING), "heading"
)
UNIT_HEADINGS = _with_optional(
    table(
        "document_id", "order",
        id=STRING, text=STRING, document_id=STRING, order=INT, heading=STRING,
    ),
    "heading",
)  # fmt: skip
DATED_DOCUMENTS = _with_optional(
    table(
        "id",
        id=STRING, title=STRING, metadata=STRING, title_from=STRING, date=STRING, aliases=STRINGS,
    ),
    TITLE_FROM, "date", "aliases",
)  # fmt: skip
"""The columns of text units and of documents that headers are composed of."""
EXTRACTIONS = _with_optional(
    table(
        "text_unit_id", "order",
        text_unit_id=STRING, order=INT, kind=STRING, name=STRING, type=STRING, source=STRING,
        target=STRING,
        description=STRING, keywords=STRINGS, weight=FLOAT, grounded=BOOL, attributes=STRING,
    ),
    "attributes",
)  # fmt: skip
"""Entities and relationships of text units. ``attributes`` is a JSON object of properties, as a
text; it is null or empty where there are none."""
RELATIONSHIP_RECORDS = _with_optional(
    table(
        "text_unit_id", "order",
        id=STRING, source_entity_id=STRING, target_entity_id=STRING, source=STRING, target=STRING,
        text_unit_id=STRING,
        document_id=STRING, unit_order=INT, order=INT, description=STRING, keywords=STRINGS,
        weight=FLOAT, fault=STRING, attributes=STRING,
    ),
    "attributes",
)  # fmt: skip
"""Records of relationships with the ids of their ends.

``fault`` is the reason why a record makes no relationship, or empty. The ends of a ``self_loop``
still count as mentions of its entity; those of an ``orphan`` do not.
"""
STATEMENTS = table(
    "relationship_id", "id",
    id=STRING, relationship_id=STRING, text_unit_id=STRING, type=STRING, description=STRING,
    valid_from=STRING, valid_to=STRING, attributes=STRING,
)  # fmt: skip
"""Facts that text units state of the two ends of a relationship. ``attributes`` is JSON."""
ATTRIBUTES = _with_optional(
    table(
        "entity_id", "name", "value", "text_unit_id",
        id=STRING, entity_id=STRING, name=STRING, type=STRING, value=STRING, unit=STRING,
        text_unit_id=STRING, document_id=STRING, correction=STRING,
    ),
    "correction",
)  # fmt: skip
"""Values of properties of entities, each with a text unit that gives it. ``type`` and ``unit`` are
those of the property; ``value`` is a text: of a number its digits, of a date ISO 8601.
``correction`` says which correction sets the value and who made it, "" where a text gives it. A
value that no document is cited for has neither a text unit nor a document."""
ENTITY_PROPERTIES = table("id", id=STRING, properties=STRING)
"""The properties of entities, each a JSON object of values and lists of values by name."""
CO_OCCURS = "co-occurs"
"""The keyword of a relationship that says only that a sentence holds both ends. In a list of
keywords, those before it are stated of the two ends; those after it come from sentences that hold
both.
"""
CORRECTIONS = table(
    "id",
    id=STRING, kind=STRING, source=STRING, target=STRING, type=STRING, to=STRING,
    description=STRING, append=BOOL, document_id=STRING, quote=STRING, source_type=STRING,
    target_type=STRING, property=STRING, value=STRING, by=STRING,
)  # fmt: skip
"""The decisions in corrections.jsonl. ``source`` is the name of an entity, or one end of a
statement. ``document_id`` is empty where a decision holds for all documents. ``by`` says who has
set a value; it is empty for other decisions, whose result does not depend on it."""
CORRECTION_MATCHES = table(
    "correction_id", "text_unit_id", correction_id=STRING, text_unit_id=STRING, records=INT
)
"""The number of records that each correction changed in a text unit."""
MENTIONS = table("entity_id", "text_unit_id", entity_id=STRING, text_unit_id=STRING, frequency=INT)
MERGED_ENTITIES = table(
    "id",
    id=STRING, name=STRING, type=STRING, types=TYPE_COUNTS, descriptions=STRINGS,
    text_unit_ids=STRINGS,
    frequency=INT,
)  # fmt: skip
MERGED_RELATIONSHIPS = table(
    "id",
    id=STRING, source=STRING, target=STRING, source_entity_id=STRING, target_entity_id=STRING,
    descriptions=STRINGS, keywords=STRINGS, weight=FLOAT, text_unit_ids=STRINGS,
)  # fmt: skip
RESOLUTIONS = table(
    "left_id", "right_id",
    left_id=STRING, right_id=STRING, left=STRING, right=STRING, score=FLOAT, rule=STRING,
    decision=STRING, by=STRING,
)  # fmt: skip
NEAR_DUPLICATES = table(
    "left_id", "right_id", id=STRING, left_id=STRING, right_id=STRING, resemblance=FLOAT
)
"""Pairs of documents whose texts are nearly the same; ``left_id`` is the smaller id."""
PLACES = table("document_id", "order", id=STRING, document_id=STRING, order=INT)
"""The columns of text units for a verb that reads only their order."""
DESCRIBED_ENTITIES = table(
    "id",
    id=STRING, name=STRING, type=STRING, types=TYPE_COUNTS, description=STRING,
    text_unit_ids=STRINGS,
    frequency=INT,
)  # fmt: skip
DESCRIBED_RELATIONSHIPS = table(
    "id",
    id=STRING, source=STRING, target=STRING, source_entity_id=STRING, target_entity_id=STRING,
    description=STRING, keywords=STRINGS, weight=FLOAT, text_unit_ids=STRINGS,
)  # fmt: skip
ENTITIES = table(
    "id",
    id=STRING, name=STRING, type=STRING, types=TYPE_COUNTS, description=STRING,
    text_unit_ids=STRINGS,
    frequency=INT, degree=INT,
)  # fmt: skip
RELATIONSHIPS = DESCRIBED_RELATIONSHIPS
"""The degrees of their ends, and their ranks, are added when they are read (snapshots/ranks.py)."""
COMMUNITIES = table(
    "level", "id",
    id=STRING, level=INT, parent=STRING, children=STRINGS, entity_ids=STRINGS,
    relationship_ids=STRINGS,
    text_unit_ids=STRINGS, size=INT, title=STRING,
)  # fmt: skip
IMPORTED_COMMUNITIES = table(
    "level", "id", id=STRING, level=INT, parent=STRING, entity_ids=STRINGS, text_unit_ids=STRINGS
)
NODES = table(
    "level", "entity_id", entity_id=STRING, level=INT, community_id=STRING, x=FLOAT, y=FLOAT
)
LAYOUT = table("id", id=STRING, x=FLOAT, y=FLOAT)
COVARIATES = table(
    "id",
    id=STRING, text_unit_id=STRING, subject_id=STRING, object_id=STRING, subject=STRING,
    object=STRING, type=STRING,
    status=STRING, start_date=STRING, end_date=STRING, description=STRING, source_text=STRING,
)  # fmt: skip
COMMUNITY_REPORTS = _with_optional(
    table(
        "level", "id",
        id=STRING, level=INT, parent=STRING, title=STRING, summary=STRING, content=STRING,
        rating=FLOAT,
        rating_explanation=STRING, findings=FINDINGS, weight=INT, text_unit_ids=STRINGS, size=INT,
        made_of=STRINGS,
    ),
    "made_of",
)  # fmt: skip
TEXTS = table("id", id=STRING, text=STRING)
TEXT_UNIT_HEADERS = table("id", id=STRING, header=STRING)
EMBEDDINGS = table("id", id=STRING, vector=VECTOR)
REJECTS = table(
    "step", "row_id", "kind", "reason", "message",
    step=STRING, row_id=STRING, kind=STRING, reason=STRING, message=STRING,
)  # fmt: skip
