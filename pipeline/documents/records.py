"""Records of json and jsonl texts."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

_ARRAY = re.compile(r"\s*\[\s*")
_COMMA = re.compile(r"\s*,\s*")


@dataclass(frozen=True)
class Record:
    """``line``: the line (csv, jsonl) or the position (json) it stands at, from 1."""

    line: int
    fields: dict[str, object]


@dataclass(frozen=True)
class Fault:
    """Why a file, or what is left of it, or with ``line`` one record of it, is not read. ``reason``: a reject's reason
    code."""

    reason: str
    message: str
    line: int | None = None


def read_json(text: str) -> Iterator[Record | Fault]:
    """An object is one record, an array one for each of its objects; of an array that breaks off, those before the
    place where it does."""
    value = _parsed(text, None)
    if isinstance(value, Fault):
        yield from _before_the_break(text)
        yield value
        return
    for position, item in enumerate(value if isinstance(value, list) else [value], start=1):
        yield _json_record(position, item)


def _before_the_break(text: str) -> Iterator[Record | Fault]:
    """No guess is made at where the next record begins: an object inside of a broken one would be taken for it."""
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
