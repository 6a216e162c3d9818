"""Rows as CSV: UTF-8, comma, every text in double quotes (doubled inside), a missing value as nothing at all."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from pipeline.export.exported import new_file


def write_rows(
    folder: Path, name: str, schema: pa.Schema, frames: Iterable[pd.DataFrame], *, header: bool = True
) -> int:
    """Write the frames one after the other, in the schema's columns; the number of rows."""
    rows = 0
    options = arrow_csv.WriteOptions(include_header=header, quoting_style="needed")
    with new_file(folder, name) as path, arrow_csv.CSVWriter(path, schema, write_options=options) as writer:
        for frame in frames:
            writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))
            rows += len(frame)
    return rows


def joined(lists: Iterable[Sequence[str]], separator: str) -> list[str]:
    return [separator.join(items) for items in lists]
