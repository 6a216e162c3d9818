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


def with_statements(frames: Iterable[pd.DataFrame], source: ExportSource) -> Iterator[pd.DataFrame]:
    """Yield batches of relationships with a column ``statements``: a list of JSON texts for each.

    Both tables are sorted by the id of the relationship, so one pass over both is enough, and only
    a batch of each is in memory. The lists are empty if the workflow makes no statements.
    """
    groups = _group_statements(source) if source.has(TABLE) else iter(())
    group = next(groups, None)
    for frame in frames:
        lists: list[list[str]] = []
        for id in frame["id"]:
            # Statements whose relationship is not in the table are left out.
            while group is not None and group[0] < id:
                group = next(groups, None)
            lists.append(group[1] if group is not None and group[0] == id else [])
        yield frame.assign(statements=pd.Series(lists, frame.index, dtype=object))


def _group_statements(source: ExportSource) -> Iterator[tuple[str, list[str]]]:
    """Yield the id of each relationship that has statements, with its statements as JSON texts."""
    for id, rows in groupby(_read_statements(source), key=itemgetter(RELATIONSHIP)):
        yield id, [format_statement(row) for row in rows]


def _read_statements(source: ExportSource) -> Iterator[Mapping[Any, Any]]:
    for batch in source.batches(TABLE):
        yield from batch.to_dict("records")


def format_statement(row: Mapping[Any, Any]) -> str:
    """Return a statement as a JSON object.

    It has FIELDS, those of SET_FIELDS that are set, and ``attributes`` if there are any.
    """
    statement = {name: row[name] for name in FIELDS}
    statement |= {name: row[name] for name in SET_FIELDS if row[name]}
    attributes = json.loads(row["attributes"] or "{}")
    if attributes:
        statement["attributes"] = attributes
    return json.dumps(statement, ensure_ascii=False)
