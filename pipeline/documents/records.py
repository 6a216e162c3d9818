"""Records of json, jsonl and csv texts."""

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
"""Rows after a bad one that tell whether a line begins a row, or stands inside of a field of
several lines."""
MOST_LINES = 500
"""Lines in which those rows are sought."""
LOOKS, MORE_A_LINE, FEW_LINES = 100_000, 10, 20
"""Lines that may be looked at so in a whole table: at first, and for each of its lines. Where they
are used up it is no csv but something that looks like one, and the rows are sought in a few lines:
no text takes longer than its length."""
MOSTLY = 0.8
_ENDS = ("\n", "\r")
_ROW = r'(?:"(?:[^"]|"")*+"|[^"{0}\r\n]*+)(?:{0}(?:"(?:[^"]|"")*+"|[^"{0}\r\n]*+))*+[\r\n]*'
"""Cells that have quotes all around them or none."""


@dataclass(frozen=True)
class Record:
    """``line``: the line (csv, jsonl) or the position (json) it stands at, from 1."""

    line: int
    fields: dict[str, object]


@dataclass(frozen=True)
class Fault:
    """Why a file, or what is left of it, or with ``line`` one record or with ``page`` one page of
    it, is not read. ``reason``: a reject's reason code."""

    reason: str
    message: str
    line: int | None = None
    page: int | None = None


def read_json(text: str) -> Iterator[Record | Fault]:
    """An object is one record, an array one for each of its objects; of an array that breaks off,
    those before the place where it does."""
    value = _parsed(text, None)
    if isinstance(value, Fault):
        yield from _before_the_break(text)
        yield value
        return
    for position, item in enumerate(value if isinstance(value, list) else [value], start=1):
        yield _json_record(position, item)


def _before_the_break(text: str) -> Iterator[Record | Fault]:
    """No guess is made at where the next record begins: an object inside of a broken one would be
    taken for it."""
    decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
    begun, position = _ARRAY.match(text), 0
    while begun:
        try:
            value, end = decoder.raw_decode(text, begun.end())
        except (ValueError, RecursionError):
            return
        position += 1
        yield _json_record(position, value)
        begun = _COMMA.match(text, end)


def read_jsonl(text: str) -> Iterator[Record | Fault]:
    """A record a line; a malformed line is a fault of its own."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            value = _parsed(line, number)
            yield value if isinstance(value, Fault) else _json_record(number, value)


def _json_record(line: int, value: object) -> Record | Fault:
    if isinstance(value, dict):
        return Record(line, value)
    return Fault("parse", f"not an object but {type(value).__name__}; write {{...}}", line)


def _parsed(text: str, line: int | None) -> object:
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        return Fault("parse", f"not JSON: {error}; mend it or take it out", line)


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _refuse(number)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")


def read_csv(
    text: str, required: str, setting: str = "input.text_column"
) -> Iterator[Record | Fault]:
    """A record a row; the first row names the columns, the ``required`` one among them, which
    ``setting`` sets. Fields may be of any length. A row that cannot be read is a fault of its own,
    with the line it begins at; a fault without a line says what of the file was not read."""
    lines = list(io.StringIO(text, newline=""))
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield from _records(lines, required, setting)
    finally:
        csv.field_size_limit(limit)


def _records(lines: Sequence[str], required: str, setting: str) -> Iterator[Record | Fault]:
    table = _Table(lines, _delimiter(lines[0] if lines else ""))
    first = next(table.rows(0), None)
    if first is None or first.cells is None:
        yield Fault(
            "parse",
            f"its first row names no columns ({first.error if first else 'no row'}); write a"
            " header",
        )
        return
    header = [name.strip() for name in first.cells]
    if required not in header or len(set(header)) < len(header):
        yield Fault("parse", f"columns {header} lack '{required}' or name one twice; set {setting}")
        return
    start: int | None = first.end
    rows, even = 0, True
    while start is not None:
        place, start = start, None
        for row in table.rows(place):
            if row.cells is None:
                start = table.next_row(row, len(header), even)
                yield from _unread(row, start, len(lines))
            elif row.cells:
                rows, full = rows + 1, len(row.cells) == len(header)
                cut_off = (
                    rows > 1
                    and even
                    and not full
                    and row.end == len(lines)
                    and not lines[-1].endswith(_ENDS)
                )
                yield _cut_off(row, header) if cut_off else _record(row, header)
                even = even and full


def _unread(row: "_Row", resumed: int | None, lines: int) -> Iterator[Fault]:
    yield Fault("parse", f"{row.error}; quote the field or double its quotes", row.start + 1)
    if resumed is None and row.start + 1 < lines:
        yield Fault(
            "parse",
            f"no row is found after line {row.start + 1}: lines up to {lines} are not read; mend"
            " that line",
        )


def _cut_off(row: "_Row", header: Sequence[str]) -> Fault:
    fact = (
        f"{len(row.cells or [])} fields for {len(header)} columns in a last line without an end: it"
        " seems cut off"
    )
    return Fault("parse", f"{fact}; mend or end the line", row.end)


def _record(row: "_Row", header: Sequence[str]) -> Record | Fault:
    cells = row.cells or []
    if len(cells) > len(header):
        return Fault(
            "parse", f"{len(cells)} fields for {len(header)} columns; quote the field", row.end
        )
    return Record(
        row.end, {name: value for name, value in zip(header, cells, strict=False) if value}
    )


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


@dataclass(frozen=True)
class _Row:
    """Lines ``start`` to before ``end``, from 0; ``cells`` are None where they cannot be read:
    ``error`` says why."""

    start: int
    end: int
    cells: list[str] | None
    error: str = ""


@dataclass
class _Table:
    """``looked_at``: how many lines were read to find out where a row begins."""

    lines: Sequence[str]
    delimiter: str
    looked_at: int = 0

    def rows(self, start: int, most: int | None = None) -> Iterator[_Row]:
        """From this line to the end, or over so many lines at most, or to the first row that cannot
        be read."""
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
        """The line after the bad row's first at which a row begins; None where there is none, as in
        a file that is cut off inside of a field. ``even``: whether all rows so far had a cell for
        each column."""
        for place in range(bad.start + 1, len(self.lines)):
            if self.lines[place].strip("\r\n") and self._begins_a_row(
                place, columns, 1.0 if even else MOSTLY
            ):
                return place
        return None

    def _begins_a_row(self, place: int, columns: int, share: float) -> bool:
        """Whether what is read from here on looks like rows: lines inside of a quoted field mostly
        have another number of cells, and the last of them a quote where none was opened."""
        seen = whole = 0
        most = MOST_LINES if self.looked_at < LOOKS + MORE_A_LINE * place else FEW_LINES
        end = place
        for row in self.rows(place, most):
            self.looked_at, end = self.looked_at + row.end - end, row.end
            if row.cells is None:
                break
            if row.cells:
                if self._has_stray_quotes(row) or (not seen and len(row.cells) != columns):
                    return False
                seen, whole = seen + 1, whole + (len(row.cells) == columns)
            if seen == LOOKED_AHEAD:
                break
        return seen > 0 and whole >= share * seen

    def _has_stray_quotes(self, row: _Row) -> bool:
        text = "".join(self.lines[row.start : row.end])
        return '"' in text and not re.fullmatch(_ROW.format(re.escape(self.delimiter)), text)
