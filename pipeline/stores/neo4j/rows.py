"""Rows of "sourced_nodes", "sourced_edges" and "communities" as Neo4j takes them, their batches,
and their state."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.stores.base import TableState
from pipeline.stores.binary_copy import Kind, digests
from pipeline.stores.list_columns import first_items, lengths_of, values_of
from pipeline.text.ids import digest, relationship_ends

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

NAME_KEY_LENGTH, NAME_KEY_HEAD = 500, 400
"""Characters of a name that an index takes whole, and of its beginning where it is longer."""
ENTITY = "Entity"
"""A label of every node."""
INTEGERS: Mapping[str, Collection[str]] = {
    "sourced_nodes": {"degree", "source_count"},
    "sourced_edges": {"source_count"},
    "communities": {"level", "weight", "size", "entity_count"},
}
NUMBERS = frozenset({"weight", "rating", "x", "y"})
LISTS = frozenset({"source_id", "keywords", "labels", "entity_ids", "parents"})
UNORDERED = frozenset({"entity_ids", "parents"})
"""Lists that are relationships in Neo4j."""
LONG_TEXTS = ("description", "display_name", "summary")
WRITTEN: Mapping[str, Sequence[str]] = {
    "sourced_nodes": [
        "id", "entity_type", "display_name", "name_key", "description", "degree", "source_id",
        "source_count",
        "x", "y", "row_hash",
    ],
    "sourced_edges": [
        "id", "source_entity_id", "target_entity_id", "type", "description", "keywords", "weight",
        "source_id",
        "source_count", "row_hash",
    ],
    "communities": [
        "id", "level", "parent", "title", "summary", "rating", "weight", "size", "entity_count",
        "row_hash",
    ],
}  # fmt: skip
"""The columns that a row is written by, in the order in which cypher's statements name them."""
CELL_BYTES = 64
"""About what an id, a number or a hash takes with what is around it."""
DIGITS = 12
"""Of a hash or an id, those that a table's checksum is made of."""


def capped(rows: pd.DataFrame, limit: int) -> pd.DataFrame:
    """With the first ``limit`` of each list ``source_id``."""
    return rows.assign(source_id=first_items(rows["source_id"], limit))


def as_stored(rows: pd.DataFrame, limit: int) -> pd.DataFrame:
    """The rows as Neo4j keeps them: ``source_id`` capped, and how many it had; of nodes also the
    key of their name, and their labels, to which people may have added others; of communities what
    they are related to."""
    if "entity_ids" in rows:
        members = [sorted(ids) for ids in values_of(rows["entity_ids"])]
        parents = [[parent] if parent else [] for parent in rows["parent"]]
        return rows.assign(
            entity_ids=pd.Series(members, rows.index, dtype=object),
            entity_count=lengths_of(rows["entity_ids"]),
            parents=pd.Series(parents, rows.index, dtype=object),
        )
    stored = capped(rows, limit).assign(source_count=lengths_of(rows["source_id"]))
    if "display_name" not in rows:
        return stored
    labels = pd.Series([[ENTITY, type] for type in rows["entity_type"]], rows.index, dtype=object)
    return stored.assign(name_key=rows["display_name"].map(name_key), labels=labels)


def as_read(table: str, records: Sequence[Sequence[Any]], columns: Sequence[str]) -> pd.DataFrame:
    """What cypher.ROWS gives of a table, with its ``content_hash``. A value that is of another type
    than was written, as only a hand can have made it, is missing."""
    cells = zip(*records, strict=True)
    found = pd.DataFrame(
        {name: _typed(table, values, name) for name, values in zip(columns, cells, strict=True)}
    )
    kinds: dict[str, Kind] = {
        name: _kind(table, name) for name in sorted(columns) if name != "row_hash"
    }
    return found.assign(content_hash=pd.Series(digests(found, kinds), dtype=str))


def _kind(table: str, column: str) -> Kind:
    if column in INTEGERS[table]:
        return "int8"
    if column in NUMBERS:
        return "float8"
    return "text[]" if column in LISTS else "text"


def _typed(table: str, values: Sequence[Any], column: str) -> pd.Series:
    if column in UNORDERED:
        values = [sorted(value) if _is_texts(value) else value for value in values]
    kind = _kind(table, column)
    if kind == "int8":
        return pd.Series([value if type(value) is int else None for value in values], dtype="Int64")
    if kind == "float8":
        return pd.Series(
            [value if type(value) in (int, float) else None for value in values], dtype="float64"
        )
    fits = _is_texts if kind == "text[]" else _is_text
    return pd.Series([value if fits(value) else None for value in values], dtype=object)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def name_key(name: str) -> str:
    """What a node is looked up by: its name, shortened where no index takes it whole."""
    return name if len(name) <= NAME_KEY_LENGTH else f"{name[:NAME_KEY_HEAD]}-{digest(name)}"


def as_written(table: str, rows: pd.DataFrame, limit: int) -> list[list[Any]]:
    """As the statements of cypher that write and delete rows of the table take them. ``limit``: of
    ``source_id``."""
    stored = as_stored(rows, limit) if table in WRITTEN else rows
    columns = [_cells(stored[name]) for name in WRITTEN.get(table, stored.columns)]
    return [list(row) for row in zip(*columns, strict=True)]


def _cells(column: pd.Series) -> list[Any]:
    """A number that is missing is no property, where NaN would be one."""
    is_missing = column.dtype == np.float64 and column.isna().any()
    return values_of(column.astype(object).where(column.notna(), None) if is_missing else column)


def members(communities: pd.DataFrame) -> pd.DataFrame:
    """(id, entity_id): a row for each entity of each community."""
    ids = np.repeat(communities["id"].to_numpy(), lengths_of(communities["entity_ids"]))
    entities = [id for cell in values_of(communities["entity_ids"]) for id in cell]
    return pd.DataFrame({"id": ids, "entity_id": entities})


def parents(communities: pd.DataFrame) -> pd.DataFrame:
    """(id, parent) of the communities that have one."""
    return communities.loc[communities["parent"] != "", ["id", "parent"]]


def places(ids: Sequence[str]) -> list[list[str]]:
    """(id, source, target) of relationships; an id that names no ends is left out."""
    found = []
    for id in ids:
        with suppress(ValueError):
            found.append([id, *relationship_ends(id)])
    return found


def bytes_of(rows: pd.DataFrame, max_source_ids: int) -> pd.Series:
    """About how many bytes each row takes on its way."""
    lists = pd.Series(0, rows.index)
    if "source_id" in rows:
        lists = pd.Series(lengths_of(rows["source_id"]), rows.index).clip(upper=max_source_ids)
    if "entity_ids" in rows:  # relationships
        lists = pd.Series(lengths_of(rows["entity_ids"]), rows.index)
    texts = sum((rows[name].str.len() for name in LONG_TEXTS if name in rows), start=lists * 0)
    return (len(rows.columns) + lists) * CELL_BYTES + texts * 2


def batches(
    rows: pd.DataFrame, sizes: pd.Series, most_rows: int, most_bytes: int
) -> Iterator[pd.DataFrame]:
    """The rows in their order, cut so that no batch passes either limit (a single row may)."""
    start, total = 0, 0
    for position, size in enumerate(sizes.tolist()):
        if position > start and (position - start == most_rows or total + size > most_bytes):
            yield rows.iloc[start:position]
            start, total = position, 0
        total += size
    if start < len(rows):
        yield rows.iloc[start:]


NO_ROWS = TableState(0, "0-0")


def state_of(rows: pa.Table) -> TableState:
    """``rows``: HASHES."""
    of_hashes = _total(pc.utf8_slice_codeunits(rows["row_hash"], 0, DIGITS))
    of_ids = _total(pc.utf8_slice_codeunits(rows["id"], -DIGITS))
    return TableState(len(rows), f"{of_hashes}-{of_ids}")


def together(some: TableState, others: TableState) -> TableState:
    """The state of all these rows."""
    sums = map(sum, zip(_sums(some), _sums(others), strict=True))
    return TableState(some.rows + others.rows, "-".join(map(str, sums)))


def without(all: TableState, some: TableState) -> TableState:
    """The state of the other rows."""
    left = (whole - part for whole, part in zip(_sums(all), _sums(some), strict=True))
    return TableState(all.rows - some.rows, "-".join(map(str, left)))


def _sums(state: TableState) -> list[int]:
    return list(map(int, state.checksum.split("-")))


def _total(texts: pa.ChunkedArray) -> int:
    """The sum of the numbers that they are with a to f as 0 to 5; what is no such number counts as
    0."""
    texts = texts.combine_chunks()
    numbers = texts.filter(pc.match_substring_regex(texts, f"^[0-9a-f]{{{DIGITS}}}$")).cast(
        pa.binary(DIGITS)
    )
    if not len(numbers):
        return 0
    whole = np.frombuffer(
        numbers.buffers()[1], np.uint8, len(numbers) * DIGITS, numbers.offset * DIGITS
    )
    digits = whole - np.where(whole >= ord("a"), np.uint8(ord("a")), np.uint8(ord("0")))
    return int((digits.reshape(-1, DIGITS) @ 10 ** np.arange(DIGITS - 1, -1, -1)).sum())
