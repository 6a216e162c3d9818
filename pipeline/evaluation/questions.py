"""Questions and their gold: what a good retrieval finds. A file has one JSON object a line."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipeline.errors import UsageError
from pipeline.text import clean

Kind = Literal["document", "chunk", "text"]
KEYS: dict[str, Kind] = {"documents": "document", "chunks": "chunk", "texts": "text"}
"""Key of a line -> what its names are."""

MOST_FAULTS = 5


@dataclass(frozen=True)
class Gold:
    """Something to be found, as the questions name it: a document by source, id or title, a chunk by id, or a text
    that a chunk holds."""

    kind: Kind
    name: str


@dataclass(frozen=True)
class Question:
    """``type``: what it is counted under, "" where it has none; ``line``: where it stands, from 1."""

    id: str
    text: str
    gold: tuple[Gold, ...]
    type: str
    line: int


Record = Mapping[str, Any]
Questions = str | Path | Iterable[Record]
"""A file of questions, or what its lines would hold."""


class _LineError(Exception):
    """What is wrong with one line."""


def read_questions(questions: Questions, by: str = "type") -> list[Question]:
    """In their order. ``by``: the key whose value is a question's ``type``. Blank lines count as lines.

    Raises UsageError that names the lines which cannot be read, or where there is no question at all.
    """
    where = str(questions) if isinstance(questions, str | Path) else "questions"
    lines = _lines(Path(questions)) if isinstance(questions, str | Path) else enumerate(questions, start=1)
    read, faults, seen = [], [], {}
    for number, line in lines:
        try:
            question = _question(_record(line) if isinstance(line, bytes) else line, number, by)
            if question.id in seen:
                raise _LineError(f"id '{question.id}' is that of line {seen[question.id]} too; give each its own")
        except _LineError as fault:
            faults.append(f"line {number}: {fault}")
            continue
        seen[question.id] = number
        read.append(question)
    if faults:
        more = f"; and {len(faults) - MOST_FAULTS} lines more" if len(faults) > MOST_FAULTS else ""
        raise UsageError(f"{where}: {'; '.join(faults[:MOST_FAULTS])}{more}")
    if not read:
        raise UsageError(f"{where}: no questions; write one JSON object a line (docs/evaluation.md)")
    return read


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Those that are not blank; without the mark that some editors begin a file with."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}); name a file of questions") from None
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _record(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise _LineError("not UTF-8; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise _LineError(f"not JSON ({error.msg}, column {error.colno}); write one object a line") from None
    except (RecursionError, ValueError):  # nested or numbers too large for any reader
        raise _LineError("not JSON that can be read; write one object a line") from None


def _question(record: Any, line: int, by: str) -> Question:
    if not isinstance(record, Mapping):
        raise _LineError("no object; write {...}, one a line")
    text = record.get("question")
    if not isinstance(text, str) or not any(map(str.isalnum, text)):
        raise _LineError("no question; give its text under 'question'")
    gold = [Gold(kind, name) for key, kind in KEYS.items() for name in _names(record, key)]
    if not gold:
        raise _LineError(f"no gold; name what is to be found under one of {', '.join(KEYS)}")
    given, kind = record.get("id"), record.get(by)
    return Question(
        str(line) if given is None else _scalar(given, "id"),
        clean(text).strip(),
        tuple(dict.fromkeys(gold)),
        "" if kind is None else _scalar(kind, by),
        line,
    )


def _names(record: Record, key: str) -> list[str]:
    """A list of texts; a text alone is a list of one."""
    given = record.get(key)
    names = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and clean(name).strip() for name in names):
        raise _LineError(f"'{key}' is no list of texts; write a list of texts that are not empty")
    return [clean(name).strip() for name in names]


def _scalar(value: Any, key: str) -> str:
    """Texts, numbers and truth values, as a text."""
    if isinstance(value, str | int | float):
        written = clean(value if isinstance(value, str) else json.dumps(value)).strip()
        if written:
            return written
    raise _LineError(f"'{key}' is no text or number; write one, or leave it out")
