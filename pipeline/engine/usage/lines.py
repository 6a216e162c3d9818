"""The lines of a journal of calls: one as a call begins, one as it ends, each with a check of its
own."""

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
    """``kind``: of model; by default told by whether the call had texts. ``said``: whose call it
    is."""
    return {
        "workflow": "", "document_id": "", **said, "row_id": usage.row_id, "model": usage.model,
        "kind": kind or ("embedding" if usage.texts else "chat"), "outcome": usage.outcome,
        "attempt": usage.attempt, "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens, "cost": usage.cost,
        "seconds": round(usage.seconds, 4),
        "texts": usage.texts, "at": time.time(), "estimated": usage.estimated,
    }  # fmt: skip


def as_line(content: Mapping[str, Any]) -> bytes:
    return json.dumps({**content, "crc": _crc(content)}, ensure_ascii=False).encode() + b"\n"


def append(file: BinaryIO, line: bytes) -> None:
    """All of the line or, where that fails, nothing. One that a kill has cut off before it is ended
    first: the two could not be told apart. ``file`` is open for reading too."""
    before = file.seek(0, SEEK_END)
    if before and file.seek(before - 1) >= 0 and file.read(1) != b"\n":
        line = b"\n" + line
    try:
        while line:
            line = line[file.write(line) :]
    except OSError:
        file.truncate(before)
        raise


def read_lines(lines: Iterable[bytes], where: object) -> Iterator[dict[str, Any]]:
    """What ``as_line`` was given; a line that is damaged is told."""
    for text in lines:
        try:
            yield _line(text)
        except (
            ValueError,
            KeyError,
            TypeError,
            RecursionError,
        ):  # cut off as the machine went down, or damaged
            tell(f"{where}: a line cannot be read; its call is not counted, or as unknown")


def calls_of(lines: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each call, those that have not ended last."""
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


def _line(text: bytes) -> dict[str, Any]:
    """Raises ValueError, KeyError, TypeError or RecursionError for what ``as_line`` has not
    written."""
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
