"""The lines of a journal of calls: one as a call begins, one as it ends, each with a checksum."""

import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from io import SEEK_END
from typing import Any, BinaryIO

from pipeline.files import tell
from pipeline.models.base import Usage

UNKNOWN = "unknown"
NEEDED = frozenset({
    "workflow", "step", "row_id", "document_id", "model", "kind", "outcome", "attempt",
    "input_tokens",
    "cached_tokens", "output_tokens", "cost", "seconds", "texts", "at",
})  # fmt: skip
"""Columns that a line of any version has."""


def row_of(usage: Usage, kind: str = "", **said: str) -> dict[str, Any]:
    """Return the row of a call.

    ``kind``: the kind of model; by default "embedding" if the call had texts, otherwise "chat".
    ``said``: whose call it is, by column.
    """
    if not kind:
        kind = "embedding" if usage.texts else "chat"
    return {
        "workflow": "",
        "document_id": "",
        **said,
        "row_id": usage.row_id,
        "model": usage.model,
        "kind": kind,
        "outcome": usage.outcome,
        "attempt": usage.attempt,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost,
        "seconds": round(usage.seconds, 4),
        "texts": usage.texts,
        "at": time.time(),
        "estimated": usage.estimated,
    }


def as_line(content: Mapping[str, Any]) -> bytes:
    """Return the content as a line of a journal, with its checksum."""
    with_checksum = {**content, "crc": _crc(content)}
    text = json.dumps(with_checksum, ensure_ascii=False)
    return text.encode() + b"\n"


def append(file: BinaryIO, line: bytes) -> None:
    """Append a line whole, or nothing if that fails.

    If a kill has cut off the last line of the file, that line is ended first, so that the two do
    not join. ``file`` is open for reading too.
    """
    before = file.seek(0, SEEK_END)
    if before > 0:
        file.seek(before - 1)
        if file.read(1) != b"\n":
            line = b"\n" + line
    try:
        # A write without a buffer may take only the beginning of the line.
        while line:
            written = file.write(line)
            line = line[written:]
    except OSError:
        file.truncate(before)
        raise


def read_lines(lines: Iterable[bytes], where: object) -> Iterator[dict[str, Any]]:
    """Yield what ``as_line`` was given; a damaged line is skipped with a message."""
    for text in lines:
        try:
            yield _parse_line(text)
        except (ValueError, KeyError, TypeError, RecursionError):
            # The line is damaged, or was cut off as the machine went down.
            tell(f"{where}: a line cannot be read; its call is not counted, or as unknown")


def calls_of(lines: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each call; those that have not ended come last, with the outcome UNKNOWN."""
    open_calls: dict[str, dict[str, Any]] = {}
    for line in lines:
        row = {name: value for name, value in line.items() if name not in ("begun", "ended")}
        if "begun" in line:
            open_calls[line["begun"]] = row
            continue
        open_calls.pop(line.get("ended") or "", None)
        yield row
    for row in open_calls.values():
        yield {**row, "outcome": UNKNOWN}


def _parse_line(text: bytes) -> dict[str, Any]:
    """Return the content of a line.

    Raises ValueError, KeyError, TypeError or RecursionError for a line that ``as_line`` has not
    written.
    """
    line = json.loads(text)
    if not isinstance(line, dict):
        raise TypeError(text)
    check = line.pop("crc", None)
    if check is not None and check != _crc(line):
        raise ValueError(text)
    if not line.keys() >= NEEDED:
        raise KeyError(text)
    return line


def _crc(line: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(line, sort_keys=True).encode())
