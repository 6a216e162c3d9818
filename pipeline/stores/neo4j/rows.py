"""Converts rows of "sourced_nodes", "sourced_edges" and "communities" to and from Neo4j, cuts them
into batches, and computes the state of tables."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.stores.base import PROPERTIES, TableState
from pipeline.stores.binary_copy import Kind, digests
from pipeline.stores.list_columns import first_items, lengths_of, values_of
from pipeline.text.ids import digest, relationship_ends

# The functions of this module are generated at import, so type checkers see none of them.
pc: Any = pyarrow.compute

NAME_KEY_LENGTH, NAME_KEY_HEAD = 500, 400
"""The longest name that is a key as it is, and the number of characters that a longer name
keeps."""
ENTITY = "Entity"
"""The label that every node of an entity has."""
INTEGERS: Mapping[str, Collection[str]] = {
    "sourced_nodes": {"degree", "source_count"},
    "sourced_edges": {"source_count"},
    "communities": {"level", "weight", "size", "entity_count"},
}
NUMBERS = frozenset({"weight", "rating", "x", "y"})
LISTS = frozenset({"source_id", "keywords", "labels", "entity_ids", "parents"})
UNORDERED = frozenset({"entity_ids", "parents"})
"""Lists that Neo4j keeps as relationships, which have no order."""
PREFIX = "prop_"
"""The beginning of the names of these properties in Neo4j, so that none has the name of another
property of the node. The statements in cypher.py have it too."""
LONG_TEXTS = ("description", "display_name", "summary", PROPERTIES)
WRITTEN: Mapping[str, Sequence[str]] = {
    "sourced_nodes": [
        "id", "entity_type", "display_name", "name_key", "description", "degree", "source_id",
        "source_count",
        "x", "y", "row_hash", PROPERTIES,
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
"""The columns of rows that are written, in the order in which the statements read them."""
CELL_BYTES = 64
"""About how many bytes an id, a number or a hash takes in a message to the server."""
DIGITS = 12
"""The number of digits of a hash or an id that enter a table's checksum."""


def cap_sources(rows: pd.DataFrame, limit: int) -> pd.DataFrame:
    """Return rows with each list ``source_id`` cut to its first ``limit`` items."""
    return rows.assign(source_id=first_items(rows["source_id"], limit))


def as_stored(rows: pd.DataFrame, limit: int) -> pd.DataFrame:
    """Return rows as Neo4j keeps them, with the columns that it derives.

    Nodes and edges keep the first ``limit`` items of ``source_id``, and the number of all in
    ``source_count``. Nodes have ``name_key``, the key of their name, and ``labels``. Communities
    have ``entity_count``, and the ids they are related to in ``entity_ids`` and ``parents``.
    """
    if "entity_ids" in rows:
        members = [sorted(ids) for ids in values_of(rows["entity_ids"])]
        parents = [[parent] if parent else [] for parent in rows["parent"]]
        return rows.assign(
            entity_ids=pd.Series(members, rows.index, dtype=object),
            entity_count=lengths_of(rows["entity_ids"]),
            parents=pd.Series(parents, rows.index, dtype=object),
        )
    stored = cap_sources(rows, limit).assign(source_count=lengths_of(rows["source_id"]))
    if "display_name" not in rows:
        return stored
    labels = pd.Series([[ENTITY, type] for type in rows["entity_type"]], rows.index, dtype=object)
    return stored.assign(name_key=rows["display_name"].map(name_key), labels=labels)


def as_read(table: str, records: Sequence[Sequence[Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return the records of ``cypher.ROWS`` as rows, with ``content_hash``.

    A value of another type than a load writes counts as missing: somebody has changed it by hand.
    """
    cells_of_columns = zip(*records, strict=True)
    read: dict[str, Any] = {}
    for name, cells in zip(columns, cells_of_columns, strict=True):
        read[name] = _read_cells(table, name, cells)
    found = pd.DataFrame(read)
    # Contents are hashed over the other columns, in the order of their names.
    hashed = sorted(name for name in columns if name != "row_hash")
    kinds: dict[str, Kind] = {name: _kind_of(table, name) for name in hashed}
    content_hashes = pd.Series(digests(found, kinds), dtype=str)
    return found.assign(content_hash=content_hashes)


def _kind_of(table: str, column: str) -> Kind:
    """Return the kind by which a column is hashed."""
    if column in INTEGERS[table]:
        return "int8"
    if column in NUMBERS:
        return "float8"
    if column == PROPERTIES:
        return "optional"
    return "text[]" if column in LISTS else "text"


def _read_cells(table: str, column: str, values: Sequence[Any]) -> pd.Series:
    """Return values as a column of its type; a value of another type becomes missing."""
    if column in UNORDERED:
        values = [sorted(value) if _is_texts(value) else value for value in values]
    if column == PROPERTIES:
        return pd.Series([_read_properties(value) for value in values], dtype=object)
    kind = _kind_of(table, column)
    # A bool is an int to isinstance, but not here.
    if kind == "int8":
        return pd.Series([value if type(value) is int else None for value in values], dtype="Int64")
    if kind == "float8":
        numbers = [value if type(value) in (int, float) else None for value in values]
        return pd.Series(numbers, dtype="float64")
    fits = _is_texts if kind == "text[]" else _is_text
    return pd.Series([value if fits(value) else None for value in values], dtype=object)


def _read_properties(pairs: Sequence[Sequence[Any]]) -> str | None:
    """Return the JSON of properties that were read as pairs of name and value, "" without any.

    It is None if one of them has a value that JSON does not have: somebody has changed it by hand.
    """
    if not pairs:
        return ""
    properties = {name.removeprefix(PREFIX): value for name, value in pairs}
    with suppress(TypeError):
        return dump_properties(properties)
    return None


def dump_properties(properties: Mapping[str, Any]) -> str:
    """Return properties as the JSON of a row, which gather_properties writes alike."""
    return json.dumps(properties, ensure_ascii=False, sort_keys=True)


def _write_properties(cell: str) -> dict[str, Any]:
    """Return the properties of a node as Neo4j has them, by name."""
    properties = json.loads(cell) if cell else {}
    return {f"{PREFIX}{name}": value for name, value in properties.items()}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def name_key(name: str) -> str:
    """Return the key by which a node is looked up: its name, shortened to what an index accepts.

    A shortened key ends with a digest of the whole name.
    """
    return name if len(name) <= NAME_KEY_LENGTH else f"{name[:NAME_KEY_HEAD]}-{digest(name)}"


def as_written(table: str, rows: pd.DataFrame, limit: int) -> list[list[Any]]:
    """Return rows as lists of values for the statements that write or delete rows of a table.

    ``limit``: the number of items of ``source_id`` that are kept.
    """
    stored = as_stored(rows, limit) if table in WRITTEN else rows
    if PROPERTIES in stored:
        stored = stored.assign(properties=stored[PROPERTIES].map(_write_properties))
    names = WRITTEN.get(table, stored.columns)
    columns = [_list_cells(stored[name]) for name in names]
    return [list(row) for row in zip(*columns, strict=True)]


def _list_cells(column: pd.Series) -> list[Any]:
    """Return the cells as Python values, with None for a missing number.

    None becomes no property, while NaN would become one.
    """
    if column.dtype == np.float64 and column.isna().any():
        column = column.astype(object).where(column.notna(), None)
    return values_of(column)


def members(communities: pd.DataFrame) -> pd.DataFrame:
    """Return (id, entity_id): a row for each entity of each community."""
    ids = np.repeat(communities["id"].to_numpy(), lengths_of(communities["entity_ids"]))
    entities = [id for cell in values_of(communities["entity_ids"]) for id in cell]
    return pd.DataFrame({"id": ids, "entity_id": entities})


def parents(communities: pd.DataFrame) -> pd.DataFrame:
    """Return (id, parent) of the communities that have a parent."""
    return communities.loc[communities["parent"] != "", ["id", "parent"]]


def places(ids: Sequence[str]) -> list[list[str]]:
    """Return [id, source, target] of relationships; an id that names no ends is left out."""
    found = []
    for id in ids:
        with suppress(ValueError):
            found.append([id, *relationship_ends(id)])
    return found


def bytes_of(rows: pd.DataFrame, max_source_ids: int) -> pd.Series:
    """Estimate how many bytes each row takes in a message to the server."""
    list_items = pd.Series(0, rows.index)
    if "source_id" in rows:
        lengths = pd.Series(lengths_of(rows["source_id"]), rows.index)
        list_items = lengths.clip(upper=max_source_ids)
    # Each entity of a community becomes a relationship.
    if "entity_ids" in rows:
        list_items = pd.Series(lengths_of(rows["entity_ids"]), rows.index)
    characters = pd.Series(0, rows.index)
    for name in LONG_TEXTS:
        if name in rows:
            characters = characters + rows[name].str.len()
    return (len(rows.columns) + list_items) * CELL_BYTES + characters * 2


def batches(
    rows: pd.DataFrame, sizes: pd.Series, most_rows: int, most_bytes: int
) -> Iterator[pd.DataFrame]:
    """Yield the rows in their order, in batches within both limits.

    ``sizes``: the bytes of each row. A row that is larger than ``most_bytes`` is a batch by itself.
    """
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
    """Return the state of a table with these HASHES, as ``cypher.STATES`` computes it."""
    of_hashes = _sum_digits(pc.utf8_slice_codeunits(rows["row_hash"], 0, DIGITS))
    of_ids = _sum_digits(pc.utf8_slice_codeunits(rows["id"], -DIGITS))
    return TableState(len(rows), f"{of_hashes}-{of_ids}")


def together(some: TableState, others: TableState) -> TableState:
    """Return the state of the rows of both states."""
    hashes_of_some, ids_of_some = _parse_checksum(some)
    hashes_of_others, ids_of_others = _parse_checksum(others)
    hashes = hashes_of_some + hashes_of_others
    ids = ids_of_some + ids_of_others
    return TableState(some.rows + others.rows, f"{hashes}-{ids}")


def without(all: TableState, some: TableState) -> TableState:
    """Return the state of the rows of ``all`` that are not in ``some``."""
    hashes_of_all, ids_of_all = _parse_checksum(all)
    hashes_of_some, ids_of_some = _parse_checksum(some)
    hashes = hashes_of_all - hashes_of_some
    ids = ids_of_all - ids_of_some
    return TableState(all.rows - some.rows, f"{hashes}-{ids}")


def _parse_checksum(state: TableState) -> list[int]:
    """Return the two sums of a checksum: that of hashes, and that of ids."""
    return [int(total) for total in state.checksum.split("-")]


def _sum_digits(texts: pa.ChunkedArray) -> int:
    """Return the sum of texts of DIGITS hexadecimal digits, read as decimal numbers.

    The digits a to f count as 0 to 5. Any other text counts as 0.
    """
    texts = texts.combine_chunks()
    is_number = pc.match_substring_regex(texts, f"^[0-9a-f]{{{DIGITS}}}$")
    numbers = texts.filter(is_number).cast(pa.binary(DIGITS))
    if not len(numbers):
        return 0
    # The bytes of all numbers lie side by side in one buffer.
    codes = np.frombuffer(
        numbers.buffers()[1], np.uint8, len(numbers) * DIGITS, numbers.offset * DIGITS
    )
    digits = codes - np.where(codes >= ord("a"), np.uint8(ord("a")), np.uint8(ord("0")))
    place_values = 10 ** np.arange(DIGITS - 1, -1, -1)
    return int((digits.reshape(-1, DIGITS) @ place_values).sum())
