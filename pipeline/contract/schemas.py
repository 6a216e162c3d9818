"""Every table: its columns, their types, and the order its rows are kept in; and the version of all
that is kept.

The version is in every manifest and step record (key ``schema_version``) and in the stores' live
row. A Parquet file does not have it: it would change the file's content hash, and so run every step
again.

A verb declares the schemas it reads and writes; the runner checks them at the boundary. Column
meanings are in docs/tables.md. List cells reach a verb as numpy arrays (pandas reads Arrow so).

Texts and lists have 64-bit offsets in memory: with those of 32 bits no column could hold more than
2 GiB of text, or 2^31 floats of vectors. Parquet knows no difference, so that a snapshot has the
same bytes either way.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pyarrow as pa

from pipeline.contract.cells import VECTOR, as_frame, list_of, with_json_texts
from pipeline.errors import DataError

STRING, INT, FLOAT, BOOL = pa.large_string(), pa.int64(), pa.float64(), pa.bool_()

HASHES = pa.schema([("id", STRING), ("row_hash", STRING)])
"""What a store tells of its rows, and a load of those that it should have."""

WIDE: Any = {"binary_type": pa.large_binary(), "list_type": pa.LargeListType}
"""How Parquet is read, so that texts and lists have these types."""


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def type_name(kind: pa.DataType) -> str:
    """As Parquet has it: how wide offsets are in memory changes no result, and is nobody's
    concern."""
    return str(kind).replace("large_", "")


STRINGS = list_of(STRING)
TYPE_COUNTS = list_of(pa.struct([("type", STRING), ("count", INT)]))
FINDINGS = list_of(pa.struct([("summary", STRING), ("explanation", STRING)]))


@dataclass(frozen=True)
class TableSchema:
    """Columns of a table, and the columns that fix the order of its rows (``key``; those in
    ``descending`` from the greatest down). ``more``: of what a verb reads, whether a table may have
    further columns, which it then sees too. ``required``: the columns that say which row it is, or
    of which another; all others may have nulls. ``optional``: those that a table may lack, the last
    ones: nothing is in them then."""

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
        """What fixes the order of rows, as snapshots have it: the columns of the key, "-" before
        those in ``descending``. Empty where the rows stand in an order of their own, or lists are
        in the key."""
        if any(pa.types.is_nested(self.arrow.field(name).type) for name in self.key):
            return ()
        return tuple(f"-{name}" if name in self.descending else name for name in self.key)

    def frame(self, rows: Any = ()) -> pd.DataFrame:
        """A DataFrame of these columns from rows (dicts or tuples); typed even when empty."""
        rows = rows if isinstance(rows, pd.DataFrame) else list(rows)
        if isinstance(rows, list) and rows and isinstance(rows[0], tuple):
            given = self.columns[: len(rows[0])] if self.optional else self.columns
            columns = {name: [row[place] for row in rows] for place, name in enumerate(given)}
            absent = {name: [None] * len(rows) for name in self.optional if name not in columns}
            return as_frame(self._table(columns | absent, "rows"))
        return as_frame(self.encode(pd.DataFrame(rows, columns=self.columns), "rows"))

    def encode(self, frame: pd.DataFrame, where: str) -> pa.Table:
        """The frame as an Arrow table: its columns in declared order and type, its rows sorted by
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
        return self.arrow.empty_table() if frame.empty else self._table(self.seen(frame), where)

    def missing(self, columns: Collection[Any]) -> list[str]:
        """Those of its columns that a table with these would need."""
        return [name for name in self.columns if name not in columns and name not in self.optional]

    def seen(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Its columns of the frame; those that may be lacking are there, with nulls."""
        absent = {name: None for name in self.optional if name not in frame.columns}
        return (frame.assign(**absent) if absent else frame)[self.columns]

    def filled(self, frame: pd.DataFrame, where: str) -> pd.DataFrame:
        """The frame with nothing missing: no text is "", no list an empty one, no number 0. Columns
        of other kinds, and tables that may have further columns, stay as they are.

        Raises DataError where a required cell is missing: it would become somebody else's.
        """
        for name in self.required:
            if lost := int(frame[name].isna().sum()):
                raise DataError(
                    f"{where}: column '{name}' is empty in {lost} rows; fill it, or filter them out"
                )
        missing = [] if self.more else [name for name in self.columns if frame[name].hasnans]
        return frame.assign(
            **{name: _filled(frame[name], self.arrow.field(name).type) for name in missing}
        )

    def joined(self, *tables: pa.Table) -> pa.Table:
        """The rows of several tables of this schema as one."""
        if len(tables) == 1:
            return tables[0].cast(self.arrow)
        return self._ordered(
            pa.concat_tables(table.cast(self.arrow) for table in tables)
        ).combine_chunks()

    def _table(self, columns: Mapping[str, Any] | pd.DataFrame, where: str) -> pa.Table:
        arrays = [
            _array(columns[field.name], field.type, f"{where}: column '{field.name}'")
            for field in self.arrow
        ]
        table = pa.Table.from_arrays(arrays, schema=self.arrow)
        return self._ordered(table).combine_chunks() if self.key else table.combine_chunks()

    def _ordered(self, table: pa.Table) -> pa.Table:
        """The rows by key; the table itself where they are so already: a second one may take much
        memory."""
        nested = [name for name in self.key if pa.types.is_nested(self.arrow.field(name).type)]
        cells = with_json_texts(as_frame(table.select(self.key)), nested)
        ascending = [name not in self.descending for name in self.key]
        order = cells.sort_values(list(self.key), ascending=ascending, kind="stable").index
        return table if order.is_monotonic_increasing else table.take(order.to_numpy())

    def describe(self) -> list[list[str]]:
        """Names, types and key: what of a schema can change a step's result."""
        columns = [[field.name, type_name(field.type)] for field in self.arrow]
        return (
            columns
            + [["key", *self.key]]
            + ([["descending", *self.descending]] if self.descending else [])
        )


def _array(cells: Any, type: pa.DataType, where: str) -> pa.Array | pa.ChunkedArray:
    try:
        return pa.array(cells, type, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{where}: {error}; the verb must return what its schema declares"
        ) from error


def _filled(column: pd.Series, kind: pa.DataType) -> pd.Series:
    if is_text(kind):
        return column.fillna("")
    if is_list(kind):
        cells = [
            () if missing else cell for cell, missing in zip(column, column.isna(), strict=True)
        ]
        return pd.Series(cells, column.index, dtype=object)
    return column.fillna(0).astype(kind.to_pandas_dtype()) if kind in (INT, FLOAT) else column


FOLLOWED = ("id", "document_id", "source_entity_id", "target_entity_id", "left_id", "right_id")
"""Columns that say which row it is, or of which others: required wherever they are."""


def table(*key: str, **columns: pa.DataType) -> TableSchema:
    required = tuple(name for name in FOLLOWED if name in columns)
    return TableSchema(pa.schema(list(columns.items())), key, required=required)


def at_least(**columns: pa.DataType) -> TableSchema:
    """What a verb reads that takes any table with these columns."""
    return TableSchema(pa.schema(list(columns.items())), (), more=True)


ANY = at_least()


def _with_optional(schema: TableSchema, *names: str) -> TableSchema:
    return replace(schema, optional=names)


TITLE_FROM = "title_from"
"""Where a document's title comes from: given, heading, first_line or file_name; nothing counts as
given."""
NAMING = frozenset(("given", "heading", ""))
"""Where titles come from that name what a document is about."""
DOCUMENTS = _with_optional(
    table(
        "id",
        id=STRING, title=STRING, text=STRING, source=STRING, metadata=STRING, content_hash=STRING,
        title_from=STRING,
    ),
    TITLE_FROM,
)  # fmt: skip
TITLES = _with_optional(table("id", id=STRING, title=STRING, title_from=STRING), TITLE_FROM)
"""What of documents a verb reads that leaves their texts alone."""
TEXT_UNITS = table(
    "document_id", "order",
    id=STRING, text=STRING, n_tokens=INT, document_id=STRING, start=INT, end=INT, order=INT,
)  # fmt: skip
EXTRACTIONS = table(
    "text_unit_id", "order",
    text_unit_id=STRING, order=INT, kind=STRING, name=STRING, type=STRING, source=STRING,
    target=STRING,
    description=STRING, keywords=STRINGS, weight=FLOAT, grounded=BOOL,
)  # fmt: skip
CO_OCCURS = "co-occurs"
"""The keyword of a relationship that says no more than that a sentence holds both ends: what stands
behind it in the list is of those sentences, what stands before it is stated of the two."""
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
PLACES = table("document_id", "order", id=STRING, document_id=STRING, order=INT)
"""What of text units a verb reads that needs their order alone."""
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
"""The degrees of their ends, and their ranks, are joined as they are read (snapshots/ranks.py)."""
COMMUNITIES = table(
    "level", "id",
    id=STRING, level=INT, parent=STRING, children=STRINGS, entity_ids=STRINGS,
    relationship_ids=STRINGS,
    text_unit_ids=STRINGS, size=INT, title=STRING,
)  # fmt: skip
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
EMBEDDINGS = table("id", id=STRING, vector=VECTOR)
REJECTS = table(
    "step", "row_id", "kind", "reason", "message",
    step=STRING, row_id=STRING, kind=STRING, reason=STRING, message=STRING,
)  # fmt: skip
