"""replace_text: other words for some of those in a table's texts."""

import re
from collections.abc import Mapping
from functools import reduce
from typing import Self

import pandas as pd
from pydantic import Field, model_validator

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema
from pipeline.verbs.tables.columns import text_column


class Replacement(Params):
    """``find`` becomes ``put``; ``regex``: find is a regular expression of Python's re, put its template."""

    find: str = Field(min_length=1)
    put: str = ""
    regex: bool = False

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        try:
            re.sub(self.find if self.regex else "", self.put if self.regex else "", "")
            if self.regex:
                re.compile(self.find)
        except (re.error, IndexError) as error:
            raise ValueError(f"no regular expression and template ({error}); correct them") from error
        return self


class ReplaceParams(Params):
    """``columns``: those whose texts change; ``replace``: what becomes what, one after the other."""

    columns: tuple[str, ...] = Field(min_length=1)
    replace: tuple[Replacement, ...] = Field(min_length=1)


def _result(read: Mapping[str, TableSchema], params: ReplaceParams) -> TableSchema:
    for name in params.columns:
        text_column(read["table"], name)
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _result}, rowwise="table")
def replace_text(table: pd.DataFrame, params: ReplaceParams) -> pd.DataFrame:
    """The table with these texts replaced in every place; nothing stays nothing."""

    def replaced(text: str) -> str:
        return reduce(_replaced, params.replace, text)

    return table.assign(**{name: table[name].map(replaced, na_action="ignore") for name in params.columns})


def _replaced(text: str, entry: Replacement) -> str:
    return re.sub(entry.find, entry.put, text) if entry.regex else text.replace(entry.find, entry.put)
