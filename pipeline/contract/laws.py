"""The law of a verb: which rows are decided together, so that a night makes anew what changed and no more.

Rows are of groups. A group is named by a value, such as a text unit's id or an entity's, that columns of the inputs
hold and a column of each output. The law says: of the rows of some groups alone comes, of these groups, what comes of
all rows. Rowwise is the case where a row of the one input is a group of its own.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pipeline.contract.schemas import TableSchema

Touches = Callable[[pd.DataFrame, pd.DataFrame, pd.DataFrame], "pd.Series[bool]"]
"""Of a dictionary: rows of the first keyed input, the dictionary before and now, both whole (a title that one document
gives up is another's alone from then on) -> which of the rows may come out otherwise, as booleans."""


@dataclass(frozen=True)
class Uses:
    """Which entries of a dictionary a row uses: those whose ``key`` one of its ``columns`` holds. ``table``: the keyed
    input that the row is in."""

    table: str
    columns: tuple[str, ...]
    key: str = "id"


@dataclass(frozen=True)
class Law:
    """``keyed``: of each input whose rows are of groups the columns that name them, each row being of every group that
    one of them names; ``row_of``: of each output the column that names the group of a row. ``lookup``: the inputs that
    are dictionaries, and which rows use what of them. An input that is in neither is read whole: where it changes, all
    is made anew."""

    keyed: Mapping[str, tuple[str, ...]]
    row_of: Mapping[str, str]
    lookup: Mapping[str, Uses | Touches] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """A piece of a verb that has a law of its own. ``function``: tables by the names of ``inputs``, and ``params`` and
    ``tracker`` where it takes these -> its outputs, in their order. ``inputs`` are the verb's or outputs of earlier
    parts; without a ``law`` they are read whole."""

    function: Callable[..., Any]
    inputs: Mapping[str, TableSchema]
    outputs: Mapping[str, TableSchema]
    law: Law | None

    def call(self, tables: Mapping[str, pd.DataFrame], params: Any, tracker: Any) -> dict[str, pd.DataFrame]:
        """Its outputs. ``tables``: its inputs. Raises DataError where a required cell is missing."""
        where = f"'{self.function.__name__}'"
        filled = {name: self.inputs[name].filled(rows, f"{where}: table '{name}'") for name, rows in tables.items()}
        taken = inspect.signature(self.function).parameters
        known = {name: given for name, given in (("params", params), ("tracker", tracker)) if name in taken}
        returned = self.function(**filled, **known)
        frames = returned if isinstance(returned, tuple) else (returned,)
        return dict(zip(self.outputs, frames, strict=True))
