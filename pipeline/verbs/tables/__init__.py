"""Verbs over any table: a workflow derives tables in YAML alone. Importing this package registers them."""

from pipeline.verbs.tables.aggregate import aggregate
from pipeline.verbs.tables.concat import concat
from pipeline.verbs.tables.convert import convert
from pipeline.verbs.tables.dedupe import dedupe
from pipeline.verbs.tables.derive import derive
from pipeline.verbs.tables.drop import drop
from pipeline.verbs.tables.filter import filter  # noqa: A004 - as it is called in a workflow
from pipeline.verbs.tables.join import join
from pipeline.verbs.tables.order_by import order_by
from pipeline.verbs.tables.rename import rename
from pipeline.verbs.tables.replace_text import replace_text
from pipeline.verbs.tables.select import select
from pipeline.verbs.tables.snapshot import snapshot
from pipeline.verbs.tables.unroll import unroll

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
