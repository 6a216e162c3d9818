"""Rows of the tables "nodes" and "edges" as Neo4j takes them, and how they are cut into batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import pandas as pd

from pipeline.stores.lists import first_items, lengths_of, values_of
from pipeline.text import digest, relationship_ends

NAME_KEY_LENGTH, NAME_KEY_HEAD = 500, 400
"""Characters of a name that an index takes whole, and of its beginning where it is longer."""
CELL_BYTES = 64
"""About what an id, a number or a hash takes with what is around it."""


def capped(rows: pd.DataFrame, limit: int) -> pd.DataFrame:
    """The rows as Neo4j keeps them: the first ``limit`` of each list ``source_id``."""
    return rows.assign(source_id=first_items(rows["source_id"], limit))


def name_key(name: str) -> str:
    """What a node is looked up by: its name, shortened where no index takes it whole."""
    return name if len(name) <= NAME_KEY_LENGTH else f"{name[:NAME_KEY_HEAD]}-{digest(name)}"


def node_rows(nodes: pd.DataFrame, max_source_ids: int) -> list[list]:
    """As cypher.WRITE_NODES takes them."""
    names = nodes["display_name"].tolist()
    columns = [
        nodes["id"].tolist(),
        nodes["entity_type"].tolist(),
        names,
        [name_key(name) for name in names],
        nodes["description"].tolist(),
        nodes["degree"].tolist(),
        values_of(first_items(nodes["source_id"], max_source_ids)),
        lengths_of(nodes["source_id"]).tolist(),
        nodes["row_hash"].tolist(),
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def edge_rows(edges: pd.DataFrame, max_source_ids: int) -> list[list]:
    """As cypher.WRITE_EDGES and cypher.DELETE_EDGES take them."""
    plain = ["id", "source_entity_id", "target_entity_id", "type", "description", "keywords", "weight", "rank"]
    columns = [
        *(values_of(edges[name]) for name in plain),
        values_of(first_items(edges["source_id"], max_source_ids)),
        lengths_of(edges["source_id"]).tolist(),
        edges["row_hash"].tolist(),
    ]
    return [list(row) for row in zip(*columns, strict=True)]


AS_WRITTEN: Mapping[str, Callable[[pd.DataFrame, int], list[list]]] = {"nodes": node_rows, "edges": edge_rows}


def places(ids: Sequence[str]) -> list[list[str]]:
    """(id, source, target) of relationships; an id that names no ends is left out."""
    found = []
    for id in ids:
        with suppress(ValueError):
            found.append([id, *relationship_ends(id)])
    return found


def bytes_of(rows: pd.DataFrame, max_source_ids: int) -> pd.Series:
    """About how many bytes each row takes on its way."""
    lists = pd.Series(lengths_of(rows["source_id"]), rows.index).clip(upper=max_source_ids)
    texts = sum((rows[name].str.len() for name in ("description", "display_name") if name in rows), start=lists * 0)
    return (len(rows.columns) + lists) * CELL_BYTES + texts * 2


def batches(rows: pd.DataFrame, sizes: pd.Series, most_rows: int, most_bytes: int) -> Iterator[pd.DataFrame]:
    """The rows in their order, cut so that no batch passes either limit (a single row may)."""
    start, total = 0, 0
    for position, size in enumerate(sizes.tolist()):
        if position > start and (position - start == most_rows or total + size > most_bytes):
            yield rows.iloc[start:position]
            start, total = position, 0
        total += size
    if start < len(rows):
        yield rows.iloc[start:]
