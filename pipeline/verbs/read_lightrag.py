"""read_lightrag: read documents, text units and extractions from an index of LightRAG."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field

from pipeline.contract.reasons import decided
from pipeline.contract.registry import Params, verb
from pipeline.contract.rejects import make_reject
from pipeline.contract.schemas import DOCUMENTS, EXTRACTIONS, REJECTS, TEXT_UNITS
from pipeline.corrections.decisions import Decision
from pipeline.corrections.file import make_decision
from pipeline.documents.lightrag import (
    CHUNKS,
    GRAPH,
    GRAPH_ELSEWHERE,
    REPLIES,
    STATUS,
    Row,
    lightrag_digest,
    other_files,
    read_files,
    records_of,
)
from pipeline.documents.lightrag import DOCUMENTS as DOCUMENTS_FILE
from pipeline.documents.lightrag_edits import (
    Edit,
    ReadRows,
    Said,
    count_rows_of,
    find_edits,
    find_lost_names,
    find_read_rows,
    fold,
)
from pipeline.documents.metadata import content_hash
from pipeline.documents.own_tables.graphml import read_graphml
from pipeline.documents.records import Fault
from pipeline.errors import SettingsError, counted
from pipeline.models.base import Tokenizer
from pipeline.models.parse.records import Entity, Relationship
from pipeline.text.ids import clean, document_id, match_key, text_unit_id
from pipeline.verbs.extract_graph import TextNames
from pipeline.verbs.extract_table import BLANK

FINISHED = "processed"
BY = "import lightrag"
"""The name in the corrections that an import makes."""
NO_PATH = frozenset({"", "unknown_source"})
"""Paths of documents that LightRAG was given as a text."""
NOTHING_READ = find_read_rows((), frozenset(), is_whole=False)
"""The rows that are read of a graph that cannot be read."""
MOST = 0.5
"""The share of the names in replies above which a graph that lacks them is not whole. A person
deletes some nodes; LightRAG may be writing all of them anew."""
SHOWN = 120
"""The number of characters of a record or name that a message shows."""


class LightragParams(Params):
    """``path`` is the working folder of LightRAG, or that of its workspace."""

    path: str = Field(
        default="data/lightrag", exclude=True
    )  # its content is stamped: a folder may move


def folder_digest(params: LightragParams) -> str:
    """Return a digest of the files; it changes when one of them does."""
    return lightrag_digest(Path(params.path))


@dataclass
class _Rejects:
    """The rejects of reading an index, in the order in which they are added."""

    rows: list[Row] = field(default_factory=list)

    def add(self, file: str, id: str, kind: str, reason: str, message: str) -> None:
        where = clean(f"{file}: {id}" if id else file)
        text = clean(f"{where}: {message}")
        self.rows.append(make_reject(where, reason, text, kind))


@dataclass(frozen=True)
class _Unit:
    """A text unit: its row, and the keys of the replies that were paid for it."""

    row: Row
    replies: Sequence[str]


@verb(
    inputs={},
    outputs={
        "documents": DOCUMENTS,
        "text_units": TEXT_UNITS,
        "extractions": EXTRACTIONS,
        "rejects": REJECTS,
    },
    settings="lightrag",
    stamp=folder_digest,
    reasons={"by_hand": decided("a part of another index that a person has made or edited")},
    libraries=("rs-bpe", "networkx"),
)
def read_lightrag(
    params: LightragParams, tokenizer: Tokenizer
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Read the working folder of LightRAG 1.5.7. Return DOCUMENTS, TEXT_UNITS, EXTRACTIONS and
    REJECTS.

    Extractions come from the cached replies of the passages, so relationships have the direction
    that LightRAG's own graph has lost. If a reply and its gleaning name the same thing, the longer
    description counts, as in LightRAG. Each record has weight 1. Documents that are not finished,
    or have no passage, are left out. Vectors are never read. Parts of the graph that no reply
    gives are rejects of the reason by_hand, or of not_imported if no correction can express them.
    Other reasons are unfinished, incomplete, duplicate_id, dangling, empty, record and one_name.

    Raises SettingsError if a file is missing, DataError if one is damaged or of another version.
    """
    folder = Path(params.path)
    files = read_files(folder)
    rejects = _Rejects()
    documents = _read_documents(files, rejects)
    units = _read_units(files[CHUNKS], documents, tokenizer, rejects)
    _tell_missing_chunks(files, documents, rejects)
    extractions = _read_extractions(units, files[REPLIES], rejects)
    found = _find_edits(folder / GRAPH, files, documents, units, extractions, rejects)
    _tell_edits(found[0] if found else (), rejects)
    _tell_one_name(extractions, rejects)
    _tell_other_files(folder, rejects)
    return (
        DOCUMENTS.frame(list(documents.values())),
        TEXT_UNITS.frame([unit.row for unit in units]),
        EXTRACTIONS.frame(extractions),
        REJECTS.frame(rejects.rows),
    )


def _read_documents(files: Mapping[str, Mapping[str, Row]], rejects: _Rejects) -> dict[str, Row]:
    """Return the rows of the finished documents by LightRAG's id."""
    found: dict[str, Row] = {}
    sources: set[str] = set()
    with_passages = {row["full_doc_id"] for row in files[CHUNKS].values()}
    # Of two documents with one path, the first id has it, in files and in a database alike.
    for theirs, row in sorted(files[DOCUMENTS_FILE].items()):
        status = str(files[STATUS].get(theirs, {}).get("status", "not in the file"))
        if status != FINISHED:
            message = f"its status is {status}; let LightRAG finish it, and import again"
            rejects.add(STATUS, theirs, "row", "unfinished", message)
            continue
        if row["parse_format"] != "raw":
            message = f"its text is in other files (parse_format {row['parse_format']})"
            rejects.add(DOCUMENTS_FILE, theirs, "row", "not_imported", message)
            continue
        if theirs not in with_passages:
            message = f"{CHUNKS} has no passage of it; let LightRAG index it again"
            rejects.add(DOCUMENTS_FILE, theirs, "row", "incomplete", message)
            continue
        path = clean(str(row["file_path"] or ""))
        source = clean(theirs) if path in NO_PATH or path in sources else path
        if source in sources:
            message = f"another document is called '{source[:SHOWN]}'; give it another path"
            rejects.add(DOCUMENTS_FILE, theirs, "row", "duplicate_id", message)
            continue
        sources.add(source)
        found[theirs] = _document(source, clean(row["content"]))
    for theirs in files[STATUS].keys() - files[DOCUMENTS_FILE].keys():
        rejects.add(STATUS, theirs, "row", "unfinished", f"it has no text in {DOCUMENTS_FILE}")
    return found


def _document(source: str, text: str) -> Row:
    return {
        "id": document_id(source),
        "title": source,
        "text": text,
        "source": source,
        "metadata": "{}",
        "content_hash": content_hash(source, text, "{}"),
        "title_from": "file_name",
    }


def _read_units(
    chunks: Mapping[str, Row],
    documents: Mapping[str, Row],
    tokenizer: Tokenizer,
    rejects: _Rejects,
) -> list[_Unit]:
    """Return the text units of the documents, in their order.

    Chunks of documents that were left out are told in one reject.
    """
    units: list[_Unit] = []
    seen: Counter[tuple[str, str]] = Counter()
    orders: Counter[str] = Counter()
    starts: dict[str, int] = defaultdict(lambda: -1)
    homeless = 0
    ordered = sorted(chunks.items(), key=lambda chunk: _place_of(chunk[1]))
    for theirs, chunk in ordered:
        document = documents.get(chunk["full_doc_id"])
        text = clean(chunk["content"])
        if document is None:
            homeless += 1
            continue
        if not text.strip():
            rejects.add(CHUNKS, theirs, "row", "incomplete", "no text")
            continue
        id = document["id"]
        start = _find(text, document["text"], starts[id] + 1)
        row = {
            "id": text_unit_id(id, text, seen[id, text]),
            "text": text,
            "n_tokens": tokenizer.count(text),
            "document_id": id,
            "start": max(start, 0),
            "end": start + len(text) if start >= 0 else 0,
            "order": orders[id],
            "heading": "",
        }
        units.append(_Unit(row, [str(key) for key in chunk["llm_cache_list"] or ()]))
        seen[id, text] += 1
        orders[id] += 1
        starts[id] = max(start, starts[id])
    if homeless:
        message = f"{homeless} of {len(chunks)} passages belong to documents that were left out"
        rejects.add(CHUNKS, "", "row", "dangling", message)
    return units


def _tell_missing_chunks(
    files: Mapping[str, Mapping[str, Row]], documents: Iterable[str], rejects: _Rejects
) -> None:
    """Add the documents of which a passage is not there that LightRAG has listed."""
    for theirs in documents:
        missing = _missing_chunks(files, theirs)
        if missing:
            message = (
                f"{CHUNKS} lacks {counted(len(missing), 'passage')} of it;"
                " let LightRAG index it again"
            )
            rejects.add(STATUS, theirs, "record", "dangling", message)


def _missing_chunks(files: Mapping[str, Mapping[str, Row]], theirs: str) -> list[str]:
    """Return the ids of the passages that LightRAG has listed of a document and that are gone."""
    listed = files[STATUS][theirs].get("chunks_list")
    ids = [str(id) for id in listed] if isinstance(listed, list) else []
    return [id for id in ids if id not in files[CHUNKS]]


def _place_of(chunk: Row) -> tuple[str, int]:
    """Return the document of a chunk and its place there."""
    order = chunk["chunk_order_index"]
    return str(chunk["full_doc_id"]), order if isinstance(order, int) else 0


def _find(unit: str, document: str, earliest: int) -> int:
    """Return the start of a text in its document, -1 if it is not there."""
    start = document.find(unit, earliest)
    return start if start >= 0 else document.find(unit)


def _read_extractions(
    units: Iterable[_Unit], replies: Mapping[str, Row], rejects: _Rejects
) -> list[Row]:
    """Return the records of all replies, by text unit and in the order in which they came."""
    rows: list[Row] = []
    for unit in units:
        records: dict[tuple[str, ...], Row] = {}
        for record in _records_of_unit(unit, replies, rejects):
            key = _key_of(record)
            earlier = records.get(key)
            is_better = earlier is None or _length(record) > _length(earlier)
            if is_better:
                records[key] = record
        known = TextNames(unit.row["text"])
        for order, record in enumerate(records.values()):
            place = {"text_unit_id": unit.row["id"], "order": order}
            rows.append(
                {**BLANK, **record, **place, "grounded": known.has_names_of(_names_of(record))}
            )
    return rows


def _names_of(record: Row) -> Entity | Relationship:
    """Return a record with the names of another one, all that a check of them needs."""
    if record["kind"] == "entity":
        return Entity(record["name"], record["type"], record["description"])
    return Relationship(record["source"], record["target"], record["description"], (), 1.0)


def _key_of(record: Row) -> tuple[str, ...]:
    if record["kind"] == "entity":
        return ("entity", record["name"])
    return ("relationship", record["source"], record["target"])


def _length(record: Row) -> int:
    return len(record["description"])


def _records_of_unit(unit: _Unit, replies: Mapping[str, Row], rejects: _Rejects) -> Iterator[Row]:
    """Yield the records of a text unit; what is missing or unreadable is added to the rejects."""
    id = unit.row["id"]
    if not unit.replies:
        rejects.add(CHUNKS, id, "row", "dangling", "llm_cache_list names no reply")
    for key in unit.replies:
        if key not in replies:
            rejects.add(CHUNKS, id, "row", "dangling", f"{REPLIES} has no reply '{key[:SHOWN]}'")
            continue
        text = replies[key]["return"] or ""
        if not isinstance(text, str):
            rejects.add(REPLIES, key, "row", "parse", "it holds no text")
            continue
        found = list(records_of(text))
        if not found and key == unit.replies[0]:
            # A gleaning that finds nothing more is no loss.
            rejects.add(REPLIES, key, "row", "empty", "no record in the first reply of a passage")
        for record in found:
            if isinstance(record, str):
                rejects.add(REPLIES, key, "record", "record", f"no record: {record[:SHOWN]}")
            else:
                yield record


@dataclass(frozen=True)
class LightragIndex:
    """The content of an index, as an import examines it before it takes it.

    ``documents`` has rows of DOCUMENTS; ``extractions`` is the number of records of all replies.
    ``edits`` are what people have made or edited in the graph, each with a decision, which is None
    for what no line of corrections.jsonl can express. It is None if there is no graph that can be
    read. ``read_rows`` says of which nodes and edges each edit is found.
    """

    documents: pd.DataFrame
    extractions: int
    edits: Sequence[tuple[Edit, Decision | None]] | None
    read_rows: ReadRows


def examine_lightrag(folder: Path) -> LightragIndex:
    """Return what an index has. Raises as ``read_lightrag``."""
    files, rejects = read_files(folder), _Rejects()
    documents = _read_documents(files, rejects)
    units = _read_units(files[CHUNKS], documents, _NoTokens(), rejects)
    extractions = _read_extractions(units, files[REPLIES], rejects)
    found = _find_edits(folder / GRAPH, files, documents, units, extractions, rejects)
    edits, read_rows = found or (None, NOTHING_READ)
    frame = DOCUMENTS.frame(list(documents.values()))
    return LightragIndex(frame, len(extractions), edits, read_rows)


class _NoTokens:
    """A tokenizer for readers who need no numbers of tokens."""

    name = "none"

    def encode(self, text: str) -> list[int]:
        return []

    def count(self, text: str) -> int:
        return 0


def _find_edits(
    path: Path,
    files: Mapping[str, Mapping[str, Row]],
    documents: Mapping[str, Row],
    units: Iterable[_Unit],
    extractions: Iterable[Row],
    rejects: _Rejects,
) -> tuple[list[tuple[Edit, Decision | None]], ReadRows] | None:
    """Return the edits of the graph with their decisions, and the rows of which each edit is found.

    Return None if no graph can be read.

    A graph that is damaged or lacks most nodes is added to the rejects, and so is the number of
    rows of which nobody knows whether they are edits.
    """
    if not path.is_file():
        return None
    rows: list[Mapping[str, Any]] = []
    for row in read_graphml(path):
        if isinstance(row, Fault):
            rejects.add(GRAPH, "", "row", "parse", f"{row.message}; no edit in it is taken")
            return None
        rows.append(row.fields)
    left_out, lacking = _find_unread(files, documents)
    number = count_rows_of(rows, lacking)
    if number:
        message = (
            f"{counted(number, 'node or edge', 'nodes and edges')} of passages without a reply"
        )
        rejects.add(GRAPH, "", "row", "dangling", message)
    said = _said(files[REPLIES], documents, units, extractions)
    lost = find_lost_names(rows, said)
    if len(lost) > MOST * len(said.names):
        message = (
            f"it lacks {len(lost)} of the {counted(len(said.names), 'name')} in replies, as"
            f" {lost[0][:SHOWN]}; no edit in it is taken: wait until LightRAG has ended"
        )
        rejects.add(GRAPH, "", "row", "incomplete", message)
        return None
    edits = find_edits(rows, said, left_out, lacking)
    unread = left_out | lacking
    known = files[DOCUMENTS_FILE].keys() | files[STATUS].keys()
    is_whole = not unread and known == documents.keys()
    return [(edit, _decide(edit)) for edit in edits], find_read_rows(rows, unread, is_whole)


def _find_unread(
    files: Mapping[str, Mapping[str, Row]], documents: Collection[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the ids of the passages of documents that are left out, and those of the others
    without one of their replies."""
    left_out: set[str] = set()
    lacking: set[str] = set()
    for id, chunk in files[CHUNKS].items():
        if chunk["full_doc_id"] not in documents:
            left_out.add(id)
        elif _lacks_reply(chunk, files[REPLIES]):
            lacking.add(id)
    for theirs in files[STATUS]:
        unread = lacking if theirs in documents else left_out
        unread.update(_missing_chunks(files, theirs))
    return frozenset(left_out), frozenset(lacking)


def _lacks_reply(chunk: Row, replies: Mapping[str, Row]) -> bool:
    """Check that a passage has no reply, or that one of its replies is not there."""
    keys = chunk["llm_cache_list"] or ()
    return not keys or any(str(key) not in replies for key in keys)


def _said(
    replies: Mapping[str, Row],
    documents: Mapping[str, Row],
    units: Iterable[_Unit],
    extractions: Iterable[Row],
) -> Said:
    """Return what all replies say; those of imported documents with the document."""
    said = Said()
    source_of = {row["id"]: row["source"] for row in documents.values()}
    document_of = {unit.row["id"]: source_of[unit.row["document_id"]] for unit in units}
    for record in extractions:
        said.add(record, document_of[record["text_unit_id"]])
    for reply in replies.values():
        text = reply["return"] or ""
        if not isinstance(text, str):
            continue
        said.texts.add(fold(text))
        for record in records_of(text):
            if not isinstance(record, str):
                said.add(record)
    return said


def _decide(edit: Edit) -> Decision | None:
    """Return the decision that expresses an edit; None if no kind does, or a text is too long."""
    if not edit.fields:
        return None
    try:
        return make_decision({**edit.fields, "by": BY, "why": edit.fact}, edit.place)
    except SettingsError:
        return None


def _tell_edits(edits: Iterable[tuple[Edit, Decision | None]], rejects: _Rejects) -> None:
    """Add what stands in LightRAG's graph and in none of its replies to the rejects."""
    for edit, decision in edits:
        place = edit.place[:SHOWN]
        if decision is None:
            message = f"{edit.fact}; no correction can be made of it: write a document about it"
            rejects.add(GRAPH, place, "row", "not_imported", message)
        else:
            message = f"{edit.fact}; 'graphmill import lightrag' makes a correction of it"
            rejects.add(GRAPH, place, "row", "by_hand", message)


def _tell_one_name(extractions: Sequence[Row], rejects: _Rejects) -> None:
    """Add how many names LightRAG keeps apart that are one entity here."""
    spellings: dict[str, set[str]] = defaultdict(set)
    for record in extractions:
        for end in ("name", "source", "target"):
            if record[end]:
                spellings[match_key(record[end])].add(record[end])
    several = [sorted(names) for names in spellings.values() if len(names) > 1]
    if several:
        number = sum(map(len, several))
        example = ", ".join(several[0])[:SHOWN]
        message = (
            f"{number} names that LightRAG keeps apart by case or punctuation are"
            f" {len(several)} entities here, for example {example}"
        )
        rejects.add(REPLIES, "", "row", "one_name", message)


def _tell_other_files(folder: Path, rejects: _Rejects) -> None:
    """Add each file that is not read, with the reason for vectors."""
    for name in other_files(folder):
        if "vdb_" in name:
            message = "vectors are made anew: another text, and another model"
        elif name == GRAPH_ELSEWHERE:
            message = "edits by hand in it are not found"
        else:
            message = "it holds nothing that the replies and texts do not give"
        rejects.add(name, "", "skipped", "not_imported", message)
