"""snapshot: a table kept under a name of its own."""

from collections.abc import Mapping

import pandas as pd

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema


def _result(read: Mapping[str, TableSchema], params: Params) -> TableSchema:
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _result}, rowwise="table")
def snapshot(table: pd.DataFrame) -> pd.DataFrame:
    """The table as it is; ``outputs`` names it, and the step's ``emit`` makes it files."""
    return table
