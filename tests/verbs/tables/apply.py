"""A table verb as a workflow applies it: args checked against the schemas, rows in the order of a
snapshot."""

from typing import Any

import pandas as pd
import pyarrow as pa

import pipeline.verbs  # noqa: F401  (registers the verbs)
from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import FLOAT, INT, STRING, STRINGS, TableSchema, table
from tests.slices import called_in_slices

PEOPLE = table("id", id=STRING, name=STRING, town=STRING, age=INT, height=FLOAT, tags=STRINGS)
ROWS = [
    ("p1", "Ada Holm", "Skarrow", 31, 1.7, ["keeper", "builder"]),
    ("p2", "Otto Holm", "Skarrow", 29, 1.8, []),
    ("p3", "Mira Vale", "Quill", None, None, ["builder"]),
    ("p4", "Idra Senn", None, 70, 1.6, None),
]
TOWNS = table("town", town=STRING, country=STRING)
TOWN_ROWS = [("Quill", "Norland"), ("Skarrow", "Ask"), ("Tollen", "Ask"), (None, "nowhere")]


def people(rows: list[tuple[Any, ...]] = ROWS) -> pd.DataFrame:
    return PEOPLE.frame(rows)


def applied(
    name: str,
    args: dict[str, Any],
    frames: dict[str, pd.DataFrame],
    schemas: dict[str, TableSchema],
    batch_rows: int | None = None,
) -> dict[str, pa.Table]:
    """Return the tables that the snapshot would hold, by output."""
    verb = REGISTRY.verbs[name]
    params = verb.params.model_validate(args)
    written = verb.written(schemas, params)
    made = called_in_slices(
        verb, frames, {"params": params} if verb.takes_params else {}, batch_rows
    )
    return {output: schema.encode(made[output], name) for output, schema in written.items()}


def on_people(
    name: str, args: dict[str, Any], **others: tuple[pd.DataFrame, TableSchema]
) -> pd.DataFrame:
    frames = {"table": people()} | {key: frame for key, (frame, _) in others.items()}
    schemas = {"table": PEOPLE} | {key: schema for key, (_, schema) in others.items()}
    return applied(name, args, frames, schemas)["result"].to_pandas()


def refusal(name: str, args: dict[str, Any], **schemas: TableSchema) -> str:
    """Return the message with which the params are refused before any row is read."""
    verb = REGISTRY.verbs[name]
    try:
        verb.written({"table": PEOPLE, **schemas}, verb.params.model_validate(args))
    except ValueError as error:
        return str(error)
    raise AssertionError("not refused")
