"""Read the records of texts in JSON, JSON Lines and CSV."""

import csv
import io
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

_ARRAY = re.compile(r"\s*\[\s*")
_COMMA = re.compile(r"\s*,\s*")
LOOKED_AHEAD = 10
"""The number of rows behind a bad one that decide whether a line begins a row.

Otherwise the line stands inside of a field of several lines.
"""
MOST_LINES = 500
"""The number of lines in which those rows are searched."""
LOOKS, MORE_A_LINE, FEW_LINES = 100_000, 10, 20
"""The limits of that search in a whole table.

The search may read `LOOKS` lines, and `MORE_A_LINE` more for each line before it. A text that uses
them up only looks like CSV; from then on rows are searched in `FEW_LINES` lines. So the time grows
with the length of the text alone.
"""
MOSTLY = 0.8
"""The share of rows with all cells by which the rows behind a bad one are recognised."""
_ENDS = ("\n", "\r")
_ROW = r'(?:"(?:[^"]|"")*+"|[^"{0}\r\n]*+)(?:{0}(?:"(?:[^"]|"")*+"|[^"{0}\r\n]*+))*+[\r\n]*'
"""A row whose cells have quotes all around them or none."""


@dataclass(frozen=True)
class Record:
    """A record at a line (CSV, JSON Lines) or at a position (JSON), counted from 1."""

    line: int
    fields: dict[str, object]


@dataclass(frozen=True)
class Fault:
    """The reason why something is not read: a record, a page, or a file or the rest of it.

    ``reason`` is the reason code of a reject. ``line`` or ``page`` is given if only this record or
    page is not read.
    """

    reason: str
    message: str
    line: int | None = None
    page: int | None = None


def read_json(text: str) -> Iterator[Record | Fault]:
    """Yield the records of a JSON text: one for an object, or one for each object of an array.

    If an array breaks off, the objects before that place are records, and a fault follows.
    """
    value = _parse_json(text, None)
    if isinstance(value, Fault):
        yield from _before_the_break(text)
        yield value
        return
    items = value if isinstance(value, list) else [value]
    for position, item in enumerate(items, start=1):
        yield _json_record(position, item)


def _before_the_break(text: str) -> Iterator[Record | Fault]:
    """Yield the records of an array up to the place where it is no JSON.

    No record behind this place is searched: an object inside of a broken one could be taken for it.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
    begun = _ARRAY.match(text)
    position = 0
    while begun:
        try:
            value, end = decoder.raw_decode(text, begun.end())
        except (ValueError, RecursionError):
            return
        position += 1
        yield _json_record(position, value)
        begun = _COMMA.match(text, end)


def read_jsonl(text: str) -> Iterator[Record | Fault]:
    """Yield a record for each line, or a fault for a line that is no JSON object."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            value = _parse_json(line, number)
            yield value if isinstance(value, Fault) else _json_record(number, value)


def _json_record(line: int, value: object) -> Record | Fault:
    """Return the value as a record, or a fault if it is no object."""
    if isinstance(value, dict):
        return Record(line, value)
    return Fault("parse", f"not an object but {type(value).__name__}; write {{...}}", line)


def _parse_json(text: str, line: int | None) -> object:
    """Return the value of a JSON text, or a fault at ``line`` if it is none."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        return Fault("parse", f"not JSON: {error}; mend it or take it out", line)


def _finite(number: str) -> float:
    """Return a number of JSON; raises ValueError for one that is too large for a float."""
    value = float(number)
    return value if math.isfinite(value) else _refuse(number)


def _refuse(constant: str) -> NoReturn:
    """Raise ValueError for NaN and Infinity, which Python's parser accepts."""
    raise ValueError(f"{constant} is no JSON value")


def read_csv(
    text: str, required: str, setting: str = "input.text_column"
) -> Iterator[Record | Fault]:
    """Yield a record for each row of a CSV text; empty cells are left out.

    The first row names the columns. The ``required`` column must be among them, unless it is "";
    ``setting`` is the name of the setting for it, used in messages. A row that cannot be read gives
    a fault with the line at which it begins. A fault without a line says that the file or its rest
    was not read.
    """
    lines = list(io.StringIO(text, newline=""))
    # The limit of 131,072 characters a field is one of the whole process.
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield from _read_rows(lines, required, setting)
    finally:
        csv.field_size_limit(limit)


def _read_rows(lines: Sequence[str], required: str, setting: str) -> Iterator[Record | Fault]:
    """Yield records and faults as `read_csv` does, from the lines of the text."""
    table = _Table(lines, _delimiter(lines[0] if lines else ""))
    first = next(table.rows(0), None)
    if first is None or first.cells is None:
        error = first.error if first else "no row"
        yield Fault("parse", f"its first row names no columns ({error}); write a header")
        return
    header = [name.strip() for name in first.cells]
    lacks_one = bool(required) and required not in header
    if lacks_one or len(set(header)) < len(header):
        fact = f"lack '{required}' or name one twice" if required else "name one twice"
        yield Fault("parse", f"columns {header} {fact}; set {setting}")
        return
    start: int | None = first.end
    n_rows = 0
    # True as long as every row has a cell for each column.
    even = True
    while start is not None:
        place, start = start, None
        for row in table.rows(place):
            if row.cells is None:
                # `rows` ends with a row that cannot be read.
                start = table.next_row(row, len(header), even)
                yield from _unread(row, start, len(lines))
            elif row.cells:
                n_rows += 1
                full = len(row.cells) == len(header)
                is_last_without_end = row.end == len(lines) and not lines[-1].endswith(_ENDS)
                was_even = n_rows > 1 and even
                if was_even and not full and is_last_without_end:
                    yield _cut_off(row, header)
                else:
                    yield _csv_record(row, header)
                even = even and full


def _unread(row: "_Row", resumed: int | None, lines: int) -> Iterator[Fault]:
    """Yield a fault for a bad row, and one for the rest of the file if no row is found in it.

    ``resumed`` is the line at which reading goes on, ``lines`` the number of lines of the file.
    """
    yield Fault("parse", f"{row.error}; quote the field or double its quotes", row.start + 1)
    if resumed is None and row.start + 1 < lines:
        yield Fault(
            "parse",
            f"no row is found after line {row.start + 1}: lines up to {lines} are not read; mend"
            " that line",
        )


def _cut_off(row: "_Row", header: Sequence[str]) -> Fault:
    """Return the fault for a last row that has too few cells and no line end."""
    n_cells = len(row.cells or [])
    fact = (
        f"{n_cells} fields for {len(header)} columns in a last line without an end: it seems cut"
        " off"
    )
    return Fault("parse", f"{fact}; mend or end the line", row.end)


def _csv_record(row: "_Row", header: Sequence[str]) -> Record | Fault:
    """Return the record of a row without its empty cells, or a fault if it has too many cells."""
    cells = row.cells or []
    if len(cells) > len(header):
        message = f"{len(cells)} fields for {len(header)} columns; quote the field"
        return Fault("parse", message, row.end)
    named_cells = zip(header, cells, strict=False)
    return Record(row.end, {name: cell for name, cell in named_cells if cell})


def _delimiter(header: str) -> str:
    """Return the delimiter that occurs most in the first line, a comma if none does."""
    return max(",;\t", key=header.count)


@dataclass(frozen=True)
class _Row:
    """The row in the lines from ``start`` up to but not including ``end``, counted from 0.

    ``cells`` is None if the row cannot be read; ``error`` then tells the reason.
    """

    start: int
    end: int
    cells: list[str] | None
    error: str = ""


@dataclass
class _Table:
    """The lines of a CSV text.

    ``looked_at`` counts the lines that were read in search of the beginning of a row.
    """

    lines: Sequence[str]
    delimiter: str
    looked_at: int = 0

    def rows(self, start: int, most: int | None = None) -> Iterator[_Row]:
        """Yield the rows from the line ``start`` on, up to the first that cannot be read.

        At most ``most`` lines are read if it is given.
        """
        end = start
        stop = len(self.lines) if most is None else min(start + most, len(self.lines))
        lines = map(self.lines.__getitem__, range(start, stop))
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        try:
            for cells in reader:
                begun, end = end, start + reader.line_num
                yield _Row(begun, end, cells)
        except csv.Error as error:
            yield _Row(end, start + reader.line_num, None, str(error))

    def next_row(self, bad: _Row, columns: int, even: bool) -> int | None:
        """Return the first line behind the first line of a bad row at which a row begins.

        Returns None if there is none, as in a file that is cut off inside of a field. ``columns``
        is the number of columns; ``even`` says whether every row so far had a cell for each.
        """
        share = 1.0 if even else MOSTLY
        for place in range(bad.start + 1, len(self.lines)):
            is_blank = not self.lines[place].strip("\r\n")
            if not is_blank and self._begins_a_row(place, columns, share):
                return place
        return None

    def _begins_a_row(self, place: int, columns: int, share: float) -> bool:
        """Return whether the lines from ``place`` on look like rows.

        At least the ``share`` of them must have all cells. Lines inside of a quoted field mostly
        have another number of cells, and the last of them has a quote that was not opened.
        """
        has_looks_left = self.looked_at < LOOKS + MORE_A_LINE * place
        most = MOST_LINES if has_looks_left else FEW_LINES
        n_seen = n_whole = 0
        end = place
        for row in self.rows(place, most):
            self.looked_at += row.end - end
            end = row.end
            if row.cells is None:
                break
            if row.cells:
                is_whole = len(row.cells) == columns
                is_first = n_seen == 0
                if self._has_stray_quotes(row) or (is_first and not is_whole):
                    return False
                n_seen += 1
                n_whole += 1 if is_whole else 0
            if n_seen == LOOKED_AHEAD:
                break
        return n_seen > 0 and n_whole >= share * n_seen

    def _has_stray_quotes(self, row: _Row) -> bool:
        """Return whether a cell of the row has a quote in its middle."""
        text = "".join(self.lines[row.start : row.end])
        row_pattern = _ROW.format(re.escape(self.delimiter))
        return '"' in text and not re.fullmatch(row_pattern, text)
