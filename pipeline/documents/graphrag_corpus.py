"""Documents and text units of a Microsoft GraphRAG index, and what of it cannot be used."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.documents.graphrag import Row
from pipeline.documents.metadata import as_json, cleaned, content_hash
from pipeline.models.base import Tokenizer
from pipeline.text import clean, document_id, text_unit_id

_OURS = re.compile("doc-[0-9a-f]{32}")
_PREPENDED = re.compile(r"[^\n:]+: [^\n]*\.\n")
_CUT_CHARACTER = "\ufffd"
_LONGEST_MESSAGE = 300


@dataclass
class LeftOut:
    """Rejects, as they come."""

    rows: list[dict[str, str]] = field(default_factory=list)

    def add(self, table: str, place: int, kind: str, reason: str, message: str) -> None:
        where = f"{table}[{place}]"
        said = clean(f"{where}: {message}")[:_LONGEST_MESSAGE]
        self.rows.append({"step": "", "row_id": where, "kind": kind, "reason": reason, "message": said})


def read_documents(rows: Sequence[Row], rejects: LeftOut) -> dict[str, dict[str, str]]:
    """Their id of it -> the document."""
    documents: dict[str, dict[str, str]] = {}
    for place, row in enumerate(rows):
        theirs = text_of(row["id"])
        if not theirs:
            rejects.add("documents", place, "row", "incomplete", "no id")
        elif theirs in documents:
            rejects.add("documents", place, "row", "duplicate_id", f"'{theirs}' is there already")
        else:
            documents[theirs] = _document(theirs, row)
    return documents


def _document(theirs: str, row: Row) -> dict[str, str]:
    title, text, given = text_of(row["title"]), text_of(row["text"]), row["metadata"]
    own = bool(_OURS.fullmatch(theirs))
    if own and isinstance(given, dict) and set(given) == {"source", "metadata"}:
        source, metadata = text_of(given["source"]), _rewritten(text_of(given["metadata"]))
    else:
        source, metadata = title or theirs, as_json(dict(_fields(given, row["creation_date"])))
    return {
        "id": theirs if own else document_id(theirs),
        "title": title or source,
        "text": text,
        "source": source,
        "metadata": metadata,
        "content_hash": content_hash(title or source, text, metadata),
    }


def _fields(given: Any, creation_date: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(given, dict):
        yield from cleaned(given).items()
    elif given:
        yield "metadata", cleaned(given)
    if creation_date:
        yield "creation_date", text_of(creation_date)


def _rewritten(metadata: str) -> str:
    """An object as this version writes it, whoever wrote it; an empty one for what is none."""
    try:
        fields = json.loads(metadata)
    except (ValueError, RecursionError):
        fields = {}
    return as_json(cleaned(fields)) if isinstance(fields, dict) else "{}"


def read_units(
    rows: Sequence[Row], documents: Mapping[str, Mapping[str, str]], tokenizer: Tokenizer, rejects: LeftOut
) -> tuple[dict[str, list[str]], list[Row]]:
    """Their id of it -> our ids (theirs may come from the text alone, so that documents share it); and the rows."""
    known: dict[str, list[str]] = defaultdict(list)
    units: list[Row] = []
    seen: Counter[tuple[str, str]] = Counter()
    orders: Counter[str] = Counter()
    starts: dict[str, int] = defaultdict(lambda: -1)
    for place, row in enumerate(rows):
        theirs, text = text_of(row["id"]), text_of(row["text"])
        document = next((documents[id] for id in texts_of(row["documents"]) if id in documents), None)
        if not theirs or not text.strip():
            rejects.add("text_units", place, "row", "incomplete", "no id, or no text")
        elif document is None:
            rejects.add("text_units", place, "row", "dangling", f"no such document: {texts_of(row['documents'])}")
        else:
            id = document["id"]
            unit = text_unit_id(id, text, seen[id, text])
            start, end = _span(text, document["text"], starts[id] + 1)
            units.append(
                {
                    "id": unit,
                    "text": text,
                    "n_tokens": tokenizer.count(text),
                    "document_id": id,
                    "start": start,
                    "end": end,
                    "order": orders[id],
                }
            )
            known[theirs].append(unit)
            seen[id, text] += 1
            orders[id] += 1
            starts[id] = start if end else starts[id]
    return known, units


def _span(unit: str, document: str, earliest: int) -> tuple[int, int]:
    """Where the unit is in the document. GraphRAG may put lines "key: value." before a unit's text, and cut a
    character in two at its ends."""
    for text in _bodies(unit):
        body = text.strip(_CUT_CHARACTER)
        start = document.find(body, earliest)
        start = document.find(body) if start < 0 else start
        if body and start >= 0:
            return start, start + len(body)
    return 0, 0


def _bodies(unit: str) -> Iterator[str]:
    yield unit
    place = 0
    while line := _PREPENDED.match(unit, place):
        place = line.end()
        yield unit[place:]


def text_of(cell: Any) -> str:
    return "" if cell is None or cell != cell else clean(str(cell))  # noqa: PLR0124  (NaN)


def texts_of(cell: Any) -> list[str]:
    return list(map(text_of, cell)) if isinstance(cell, list) else [text] if (text := text_of(cell)) else []
