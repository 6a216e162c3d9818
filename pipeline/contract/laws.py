"""The law of a verb: which rows form a group, so that a run recomputes only the groups that
changed.

A group is identified by a value, such as the id of a text unit or of an entity. Columns of the
inputs, and a column of each output, hold this value. The law promises: called with all rows of some
groups, the verb returns for these groups what it returns for them when it is called with all rows.
A rowwise verb is the case in which each row of one input is a group of its own. docs/incremental.md
follows an example.
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

# Type checkers do not see the functions of pyarrow.compute: they are created at import.
pc: Any = pyarrow.compute

Touches = Callable[[pd.DataFrame, pd.DataFrame, pd.DataFrame], "pd.Series[bool]"]
"""A function that finds the rows affected by a change of a lookup input: (rows of the first keyed
input, the lookup input before, and now) -> a boolean for each row. Both versions are passed whole:
a title that one document gives up belongs to another one from then on.
"""


@dataclass(frozen=True)
class Uses:
    """The entries of a lookup input that a row uses: those whose ``key`` equals the row's cell in
    one of ``columns``.

    ``table``: the keyed input that has the rows.
    """

    table: str
    columns: tuple[str, ...]
    key: str = "id"


@dataclass(frozen=True)
class ByParams:
    """The rows of the first keyed input that a change of the verb's params affects.

    ``touches`` is a function (rows, params before, params now) -> a boolean for each row. Where it
    is false for all rows of a group, both params give the group the same output. It reads
    ``columns`` of the rows, and an input's missing cells are filled.
    """

    columns: tuple[str, ...]
    touches: Callable[[pd.DataFrame, Any, Any], "pd.Series[bool]"]


@dataclass(frozen=True)
class Law:
    """The declaration of a verb's groups.

    - ``keyed``: input -> the columns that name the groups of its rows. A row belongs to every group
      that one of these columns names.
    - ``row_of``: output -> the column that names the group of a row.
    - ``lookup``: inputs in which rows look things up -> which rows use which of their entries.
    - ``until``: characters at the first of which a group's name ends within a cell, where the name
      is only the beginning of a cell: ``file#key`` of a record belongs to the group ``file``.
    - ``by_params``: which rows a change of params affects; None if it may affect all of them.

    An input that is in neither ``keyed`` nor ``lookup`` is read whole; if it changes, every group
    is recomputed.
    """

    keyed: Mapping[str, tuple[str, ...]]
    row_of: Mapping[str, str]
    lookup: Mapping[str, Uses | Touches] = field(default_factory=dict)
    until: str = ""
    by_params: ByParams | None = None

    def groups(self, cells: pa.Array) -> pa.Array:
        """Return the name of the group for each cell, a text."""
        if not self.until:
            return cells
        rest = f"(?s)[{re.escape(self.until)}].*"
        return pc.replace_substring_regex(cells, rest, "")


@dataclass(frozen=True)
class Part:
    """A sub-step of a verb with a law of its own.

    ``function`` takes tables by the names of ``inputs``, and those of ``params`` and the verb's
    roles that it has parameters for. It returns the outputs in their order. ``inputs`` are inputs
    of the verb or outputs of earlier sub-steps. Without a ``law`` they are read whole. The first
    sub-step of a source has no law: it lists what exists outside, so that the following ones know
    what changed.
    """

    function: Callable[..., Any]
    inputs: Mapping[str, TableSchema]
    outputs: Mapping[str, TableSchema]
    law: Law | None

    def reads_params(self) -> bool:
        """Return whether params of the verb can change what the sub-step computes."""
        return "params" in inspect.signature(self.function).parameters

    def call(
        self, tables: Mapping[str, pd.DataFrame], roles: Mapping[str, Any]
    ) -> dict[str, pd.DataFrame]:
        """Call the function and return its outputs by name.

        ``tables``: its inputs. ``roles``: the verb's roles by their names, and ``params``. Raises
        DataError where a required cell is missing.
        """
        where = f"'{self.function.__name__}'"
        filled = {
            name: self.inputs[name].filled(rows, f"{where}: table '{name}'")
            for name, rows in tables.items()
        }
        parameters = inspect.signature(self.function).parameters
        taken = {name: role for name, role in roles.items() if name in parameters}
        returned = self.function(**filled, **taken)
        frames = returned if isinstance(returned, tuple) else (returned,)
        return dict(zip(self.outputs, frames, strict=True))
