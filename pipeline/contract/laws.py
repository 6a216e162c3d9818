"""The law of a verb: which rows are decided together, so that a night makes anew what changed and
no more.

Rows are of groups. A group is named by a value, such as a text unit's id or an entity's, that
columns of the inputs hold and a column of each output. The law says: of the rows of some groups
alone comes, of these groups, what comes of all rows. Rowwise is the case where a row of the one
input is a group of its own.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import TableSchema

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

Touches = Callable[[pd.DataFrame, pd.DataFrame, pd.DataFrame], "pd.Series[bool]"]
"""Of a dictionary: rows of the first keyed input, the dictionary before and now, both whole (a
title that one document gives up is another's alone from then on) -> which of the rows may come out
otherwise, as booleans."""


@dataclass(frozen=True)
class Uses:
    """Which entries of a dictionary a row uses: those whose ``key`` one of its ``columns`` holds.
    ``table``: the keyed input that the row is in."""

    table: str
    columns: tuple[str, ...]
    key: str = "id"


@dataclass(frozen=True)
class Law:
    """``keyed``: of each input whose rows are of groups the columns that name them, each row being
    of every group that one of them names; ``row_of``: of each output the column that names the
    group of a row. ``lookup``: the inputs that are dictionaries, and which rows use what of them.
    An input that is in neither is read whole: where it changes, all is made anew. ``until``: where
    a group's name is the beginning of a cell, the characters at the first of which it ends, as that
    of a file does in the names of its records."""

    keyed: Mapping[str, tuple[str, ...]]
    row_of: Mapping[str, str]
    lookup: Mapping[str, Uses | Touches] = field(default_factory=dict)
    until: str = ""

    def groups(self, cells: pa.Array) -> pa.Array:
        """The group that each cell, a text, names."""
        return (
            pc.replace_substring_regex(cells, f"(?s)[{re.escape(self.until)}].*", "")
            if self.until
            else cells
        )


@dataclass(frozen=True)
class Part:
    """A piece of a verb that has a law of its own. ``function``: tables by the names of ``inputs``,
    and of ``params`` and the verb's roles those that it takes -> its outputs, in their order.
    ``inputs`` are the verb's or outputs of earlier parts; without a ``law`` they are read whole.
    The first part of a source has none: it tells what there is outside, by which the others know
    what has changed."""

    function: Callable[..., Any]
    inputs: Mapping[str, TableSchema]
    outputs: Mapping[str, TableSchema]
    law: Law | None

    def call(
        self, tables: Mapping[str, pd.DataFrame], roles: Mapping[str, Any]
    ) -> dict[str, pd.DataFrame]:
        """Its outputs. ``tables``: its inputs; ``roles``: the verb's, by its names of them, and
        ``params``. Raises DataError where a required cell is missing."""
        where = f"'{self.function.__name__}'"
        filled = {
            name: self.inputs[name].filled(rows, f"{where}: table '{name}'")
            for name, rows in tables.items()
        }
        taken = inspect.signature(self.function).parameters
        returned = self.function(
            **filled, **{name: role for name, role in roles.items() if name in taken}
        )
        frames = returned if isinstance(returned, tuple) else (returned,)
        return dict(zip(self.outputs, frames, strict=True))
