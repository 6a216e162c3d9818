"""Read the rows of table files: CSV, JSON Lines, JSON, Parquet and GraphML."""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pipeline.documents.encoding import UndecodableError, decoded
from pipeline.documents.input_files import not_read
from pipeline.documents.own_tables.graphml import read_graphml
from pipeline.documents.records import Fault, Record, read_csv, read_json, read_jsonl

GUESSES = ("gb18030", "shift_jis", "cp1252")
"""Encodings of which the first is taken where several are equally likely."""
CSV = (".csv", ".tsv")
JSON_LINES = (".jsonl", ".ndjson")
GRAPHML = ".graphml"
KINDS = (*CSV, ".json", *JSON_LINES, ".parquet", GRAPHML)
"""The suffixes of tables."""
ROWS_AT_ONCE = 10_000
"""The number of rows of Parquet that are in memory as Python objects at one time."""
GUESSED = "encoding_guessed"


def read_rows(path: Path, encoding: str = "") -> Iterator[Record | Fault]:
    """Yield the rows of a table file, and a fault for each row that cannot be read.

    A fault without a line says that the file, or the rest of it, was not read. JSON Lines in UTF-8
    and Parquet are read bit by bit, so that their size is not limited by memory.
    """
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            yield from _read_parquet(path)
        elif suffix == GRAPHML:
            yield from read_graphml(path)
        elif suffix in JSON_LINES and encoding in ("", "utf-8") and _is_utf8(path):
            yield from _read_lines(path)
        else:
            yield from _read_text(path, suffix, encoding)
    except OSError as error:
        yield Fault(*not_read(error))


def _read_text(path: Path, suffix: str, encoding: str) -> Iterator[Record | Fault]:
    """Yield the rows of a file whose text is needed as a whole."""
    try:
        found = decoded(path.read_bytes(), encoding, GUESSES)
    except (UndecodableError, LookupError) as error:
        yield Fault(
            "encoding", f"{error}; convert it to UTF-8, or name its encoding in tables.yaml"
        )
        return
    if not found.sure:
        message = f"read as {found.encoding}, which is a guess; look at it, or convert it to UTF-8"
        yield Fault(GUESSED, message)
    text = found.text
    if not text.strip():
        return
    if suffix in CSV:
        yield from read_csv(text, "", setting="the columns in tables.yaml")
        return
    yield from read_json(text) if suffix == ".json" else read_jsonl(text)


def _read_lines(path: Path) -> Iterator[Record | Fault]:
    """Yield the rows of JSON Lines in UTF-8, one line after the other."""
    with path.open(encoding="utf-8-sig", newline="\n") as stream:
        for number, line in enumerate(stream, start=1):
            for item in read_jsonl(line.rstrip("\r\n")):
                yield _at_line(item, number)


def _at_line(item: Record | Fault, line: int) -> Record | Fault:
    """Return the item of a line that was read by itself, with the line's number in the file."""
    if isinstance(item, Record):
        return Record(line, item.fields)
    return Fault(item.reason, item.message, line)


def _is_utf8(path: Path) -> bool:
    """Check that a file is UTF-8 without decoding it as a whole."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as stream:
        try:
            for part in _parts_of(stream):
                # Zero bytes are UTF-8 too, but no text has them: it is UTF-16, or binary.
                if b"\0" in part:
                    return False
                decoder.decode(part)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _parts_of(stream: BinaryIO) -> Iterator[bytes]:
    while part := stream.read(1 << 20):
        yield part


def _read_parquet(path: Path) -> Iterator[Record | Fault]:
    """Yield the rows of a Parquet file, counted from 1."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    line = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE):
                for fields in batch.to_pylist():
                    line += 1
                    yield Record(line, fields)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        if isinstance(error, OSError):
            raise
        fact = str(error).splitlines()[0] if str(error) else "damaged"
        yield Fault("parse", f"not Parquet, or damaged ({fact[:120]}); write it again")
