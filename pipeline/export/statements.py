"""The statements of relationships, as JSON that an export puts beside each relationship."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import pandas as pd

from pipeline.export.source import ExportSource

TABLE = "statements"
FIELDS = ("type", "description", "text_unit_id")
"""The fields that every statement has in an export."""
SET_FIELDS = ("valid_from", "valid_to")
"""The fields that a statement has in an export if they are set."""
RELATIONSHIP = "relationship_id"
NO_GROUP: tuple[str | None, list[str]] = (None, [])
"""The id and the statements behind those of the last relationship."""


def with_statements(frames: Iterable[pd.DataFrame], source: ExportSource) -> Iterator[pd.DataFrame]:
    """Yield batches of relationships with a column ``statements``: a list of JSON texts for each.

    Both tables are sorted by the id of the relationship, so one pass over both is enough, and only
    a batch of each is in memory. The lists are empty if the workflow makes no statements.
    """
    groups = _group_statements(source) if source.has(TABLE) else iter(())
    relationship_id, statements = next(groups, NO_GROUP)
    for frame in frames:
        lists: list[list[str]] = []
        for id in frame["id"]:
            # Statements whose relationship is not in the table are left out.
            while relationship_id is not None and relationship_id < id:
                relationship_id, statements = next(groups, NO_GROUP)
            lists.append(statements if relationship_id == id else [])
        yield frame.assign(statements=pd.Series(lists, frame.index, dtype=object))


def _group_statements(source: ExportSource) -> Iterator[tuple[str, list[str]]]:
    """Yield the id of each relationship that has statements, with its statements as JSON texts."""
    by_relationship = groupby(_read_statements(source), key=itemgetter(RELATIONSHIP))
    for id, rows in by_relationship:
        statements = [format_statement(row) for row in rows]
        yield id, statements


def _read_statements(source: ExportSource) -> Iterator[Mapping[Any, Any]]:
    for batch in source.batches(TABLE):
        yield from batch.to_dict("records")


def format_statement(row: Mapping[Any, Any]) -> str:
    """Return a statement as a JSON object.

    It has FIELDS, those of SET_FIELDS that are set, and ``attributes`` if there are any.
    """
    statement = {name: row[name] for name in FIELDS}
    for name in SET_FIELDS:
        if row[name]:
            statement[name] = row[name]
    attributes = json.loads(row["attributes"] or "{}")
    if attributes:
        statement["attributes"] = attributes
    return json.dumps(statement, ensure_ascii=False)
