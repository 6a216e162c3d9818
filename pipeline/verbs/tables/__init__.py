"""Verbs that work on any table, with which a workflow derives tables in YAML alone.

Importing this package registers them.
"""

from pipeline.verbs.tables.columns import convert, derive, drop, rename, replace_text, select
from pipeline.verbs.tables.groups import aggregate, join
from pipeline.verbs.tables.rows import (
    concat,
    dedupe,
    filter,  # noqa: A004 - as it is called in a workflow
    order_by,
    snapshot,
    unroll,
)

__all__ = [
    "aggregate",
    "concat",
    "convert",
    "dedupe",
    "derive",
    "drop",
    "filter",
    "join",
    "order_by",
    "rename",
    "replace_text",
    "select",
    "snapshot",
    "unroll",
]
