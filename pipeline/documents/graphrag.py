"""Read the documents and text units of an index of Microsoft GraphRAG."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pipeline.contract.rejects import make_reject
from pipeline.documents.graphrag_tables import Row
from pipeline.documents.metadata import as_json, cleaned, content_hash
from pipeline.errors import counted
from pipeline.models.base import Tokenizer
from pipeline.text.ids import clean, document_id, text_unit_id

_OURS = re.compile("doc-[0-9a-f]{32}")
_PREPENDED = re.compile(r"[^\n:]+: [^\n]*\.\n")
_CUT_CHARACTER = "\ufffd"
_LONGEST_MESSAGE = 300


@dataclass
class GraphragRejects:
    """The rejects of reading an index, in the order in which they are added."""

    rows: list[dict[str, str]] = field(default_factory=list)

    def add(self, table: str, place: int, kind: str, reason: str, message: str) -> None:
        """Add a reject for the row at ``place`` (from 0) of a table; the message is shortened."""
        where = f"{table}[{place}]"
        text = clean(f"{where}: {message}")[:_LONGEST_MESSAGE]
        row = {"step": "", "row_id": where, "kind": kind, "reason": reason, "message": text}
        self.rows.append(row)

    def add_part(self, place: str, kind: str, reason: str, message: str) -> None:
        """Add a reject for a document or a reply, which ``place`` names."""
        text = clean(f"{place}: {message}")[:_LONGEST_MESSAGE]
        self.rows.append(make_reject(clean(place), reason, text, kind))

    def add_file(self, name: str, content: str) -> None:
        """Add a reject for a file that is not read; ``content`` says what it holds."""
        message = clean(f"{name}: {content}")[:_LONGEST_MESSAGE]
        self.rows.append(make_reject(clean(name), "not_imported", message, "row"))


def read_documents(rows: Sequence[Row], rejects: GraphragRejects) -> dict[str, dict[str, str]]:
    """Map the ids that GraphRAG gave to rows of `DOCUMENTS`.

    Rows without an id or with an id of an earlier row are added to the rejects.
    """
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


def _document(graphrag_id: str, row: Row) -> dict[str, str]:
    """Return the row of `DOCUMENTS` for a document of GraphRAG.

    A document that this project once exported keeps its id, source and metadata.
    """
    title, text = text_of(row["title"]), text_of(row["text"])
    fields = row["metadata"]
    is_ours = _OURS.fullmatch(graphrag_id) is not None
    if is_ours and isinstance(fields, dict) and set(fields) == {"source", "metadata"}:
        source = text_of(fields["source"])
        metadata = _rewrite(text_of(fields["metadata"]))
    else:
        source = title or graphrag_id
        metadata = as_json(_metadata_fields(fields, row["creation_date"]))
    title_or_source = title or source
    return {
        "id": graphrag_id if is_ours else document_id(graphrag_id),
        "title": title_or_source,
        "text": text,
        "source": source,
        "metadata": metadata,
        "content_hash": content_hash(title_or_source, text, metadata),
        "title_from": "given" if title else "file_name",
    }


def _metadata_fields(metadata: Any, creation_date: Any) -> dict[str, Any]:
    """Return the fields of the metadata and the date of creation, if there are any."""
    fields: dict[str, Any] = {}
    if isinstance(metadata, dict):
        fields |= cleaned(metadata)
    elif metadata:
        fields["metadata"] = cleaned(metadata)
    if creation_date:
        fields["creation_date"] = text_of(creation_date)
    return fields


def _rewrite(metadata: str) -> str:
    """Return a JSON object in the form that this version writes, or "{}" if it is no object."""
    try:
        fields = json.loads(metadata)
    except (ValueError, RecursionError):
        return "{}"
    return as_json(cleaned(fields)) if isinstance(fields, dict) else "{}"


def read_units(
    rows: Sequence[Row],
    documents: Mapping[str, Mapping[str, str]],
    tokenizer: Tokenizer,
    rejects: GraphragRejects,
    known_documents: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> tuple[dict[str, list[str]], list[Row]]:
    """Return our ids of the text units by GraphRAG's id, and the rows of `TEXT_UNITS`.

    GraphRAG's id may come from the text alone, so units of several documents may share it.
    ``documents`` is the result of `read_documents`, or the part of it that is taken; then
    ``known_documents`` has all of it, for messages. Rows without id, text or document are added to
    the rejects.
    """
    known: dict[str, list[str]] = defaultdict(list)
    units: list[Row] = []
    seen: Counter[tuple[str, str]] = Counter()
    orders: Counter[str] = Counter()
    # The start of the last unit of each document that was found in it.
    starts: dict[str, int] = defaultdict(lambda: -1)
    for place, row in enumerate(rows):
        graphrag_id, text = text_of(row["id"]), text_of(row["text"])
        document_ids = texts_of(row["documents"])
        document = next((documents[id] for id in document_ids if id in documents), None)
        if not graphrag_id or not text.strip():
            rejects.add("text_units", place, "row", "incomplete", "no id, or no text")
            continue
        if document is None:
            message = _without_document(document_ids, known_documents)
            rejects.add("text_units", place, "row", "dangling", message)
            continue
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
                "heading": "",
            }
        )
        known[graphrag_id].append(unit)
        seen[id, text] += 1
        orders[id] += 1
        if end:
            starts[id] = start
    return known, units


def find_missing_units(tables: Mapping[str, Sequence[Row]]) -> dict[str, tuple[int, str]]:
    """Map GraphRAG's ids of documents that lack a text unit to the place of the row, and the fact.

    GraphRAG makes at least one text unit of a document that has a text.
    """
    units = tables["text_units"]
    unit_ids = {text_of(row["id"]) for row in units}
    document_ids = {text_of(row["id"]) for row in tables["documents"]}
    # A text unit of several documents is taken for the first of them.
    named = [[id for id in texts_of(row["documents"]) if id in document_ids] for row in units]
    with_units = {ids[0] for ids in named if ids}
    found: dict[str, tuple[int, str]] = {}
    for place, row in enumerate(tables["documents"]):
        id = text_of(row["id"])
        if not id:
            # It is incomplete, and told as such.
            continue
        wanted = texts_of(row["text_unit_ids"])
        missing = [unit for unit in wanted if unit not in unit_ids]
        if missing:
            fact = f"it lacks {counted(len(missing), 'text unit')} of {len(wanted)}"
            found.setdefault(id, (place, fact))
        elif id not in with_units and text_of(row["text"]).strip():
            found.setdefault(id, (place, "it has no text unit"))
    return found


def _without_document(
    document_ids: Sequence[str], known_documents: Mapping[str, Mapping[str, str]]
) -> str:
    """Return a message for a text unit none of whose documents is taken."""
    titles = [known_documents[id]["title"] for id in document_ids if id in known_documents]
    if titles:
        return f"of a document that is left out: {', '.join(titles)}"
    return f"no such document: {', '.join(document_ids) or 'none is named'}"


def find_units(
    row: Row, table: str, place: int, units: Mapping[str, Sequence[str]], rejects: GraphragRejects
) -> list[str]:
    """Return our ids of the text units of a row. If some are missing, a reject is added.

    ``units`` maps GraphRAG's id of a text unit to ours. ``place`` is the number of the row.
    """
    their_ids = texts_of(row["text_unit_ids"])
    missing = [id for id in their_ids if id not in units]
    if missing:
        message = f"{len(missing)} of its text units are not there: {missing[0]}"
        rejects.add(table, place, "record", "dangling", message)
    return [unit for id in their_ids for unit in units.get(id, ())]


def _span(unit: str, document: str, earliest: int) -> tuple[int, int]:
    """Return start and end of a text unit in its document, or (0, 0) if it is not found.

    Positions from ``earliest`` on are tried first. GraphRAG may put lines "key: value." before the
    text of a unit, and may cut a character in two at either end.
    """
    for text in _bodies(unit):
        body = text.strip(_CUT_CHARACTER)
        start = document.find(body, earliest)
        if start < 0:
            start = document.find(body)
        if body and start >= 0:
            return start, start + len(body)
    return 0, 0


def _bodies(unit: str) -> Iterator[str]:
    """Yield the text of a unit, then without the first line "key: value.", and so on."""
    yield unit
    line = _PREPENDED.match(unit)
    while line:
        yield unit[line.end() :]
        line = _PREPENDED.match(unit, line.end())


def text_of(cell: Any) -> str:
    """Return a cell as text without control characters; None and NaN are empty."""
    is_nan = cell != cell  # noqa: PLR0124  (only NaN differs from itself)
    return "" if cell is None or is_nan else clean(str(cell))


def texts_of(cell: Any) -> list[str]:
    """Return a cell that holds a list or one value as a list of texts; an empty one as no text."""
    if isinstance(cell, list):
        return list(map(text_of, cell))
    text = text_of(cell)
    return [text] if text else []
