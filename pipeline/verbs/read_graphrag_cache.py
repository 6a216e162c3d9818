"""read_graphrag_cache: read documents and extractions from an index of GraphRAG and its cache."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipeline.contract.registry import verb
from pipeline.contract.schemas import (
    COMMUNITY_REPORTS,
    COVARIATES,
    DOCUMENTS,
    EXTRACTIONS,
    IMPORTED_COMMUNITIES,
    REJECTS,
    TEXT_UNITS,
)
from pipeline.documents.graphrag import (
    GraphragRejects,
    read_documents,
    read_units,
    text_of,
    texts_of,
)
from pipeline.documents.graphrag_cache import (
    STEP,
    GraphragCache,
    Reply,
    cache_digest,
    count_other_replies,
    open_cache,
)
from pipeline.documents.graphrag_communities import read_claims, read_communities, read_reports
from pipeline.documents.graphrag_tables import (
    Row,
    graphrag_digest,
    list_other_files,
    read_graphrag_tables,
)
from pipeline.errors import DataError, counted
from pipeline.models.base import Tokenizer
from pipeline.models.parse.graph import parse_records
from pipeline.models.parse.records import Entity, Record
from pipeline.text.ids import clean_name, digest, document_id, entity_id
from pipeline.verbs.extract_graph import Grounding
from pipeline.verbs.extract_table import BLANK
from pipeline.verbs.read_graphrag import GraphragParams

Replies = Mapping[str, Sequence[Reply]]
"""Replies by the text of the passage that they are about."""


def digest_with_cache(params: GraphragParams) -> str:
    """Return a digest of the tables and of the cache; it changes when one of them does."""
    folder = Path(params.path)
    return digest(graphrag_digest(folder), cache_digest(folder))


@verb(
    inputs={},
    outputs={
        "documents": DOCUMENTS,
        "text_units": TEXT_UNITS,
        "extractions": EXTRACTIONS,
        "imported_communities": IMPORTED_COMMUNITIES,
        "imported_reports": COMMUNITY_REPORTS,
        "imported_claims": COVARIATES,
        "rejects": REJECTS,
    },
    settings="graphrag",
    stamp=digest_with_cache,
    libraries=("rs-bpe", "pyyaml"),
)
def read_graphrag_cache(params: GraphragParams, tokenizer: Tokenizer) -> tuple[pd.DataFrame, ...]:
    """Read an index of GraphRAG 3.3.0, and the records of each passage from the replies in its
    cache.

    Communities, reports and claims are those of the tables, as of read_graphrag. The id of a
    document is that of an input file with its title, so that such a file takes its place. A
    document that has a passage without a reply is left out: an input file of its name is read by
    the next run. The descriptions of the tables are not taken, as they do not say which passage
    each part is from. Reasons are those of read_graphrag, and unfinished, empty and record.

    Raises SettingsError if a table is missing, DataError if one is damaged or there is no cache.
    """
    folder = Path(params.path)
    cache = open_cache(folder)
    if cache is None:
        raise DataError(
            f"{folder}: no cache of replies with its settings.yaml and prompt; name the project of"
            " GraphRAG, or take its tables alone with 'graphmill import graphrag DIR --workflow"
            " graphrag'"
        )
    tables = read_graphrag_tables(folder)
    rejects = GraphragRejects()
    texts = {text_of(row["text"]): str(row["text"]) for row in _units(tables)}
    replies = {text: cache.replies_about(raw) for text, raw in texts.items()}
    all_documents = read_documents(tables["documents"], rejects)
    documents = _finished(all_documents, tables, replies, rejects)
    known_units, units = read_units(
        tables["text_units"], documents, tokenizer, rejects, all_documents
    )
    extractions = _read_extractions(units, replies, rejects)
    names = {text_of(row["id"]): clean_name(text_of(row["name"])) for row in tables["entities"]}
    ids = {id: entity_id(name) for id, name in names.items() if name}
    communities = read_communities(tables["communities"], ids, known_units, rejects)
    reports = read_reports(tables["community_reports"], communities, rejects)
    claims = read_claims(tables["covariates"], known_units, rejects)
    _tell_other_files(folder, cache, rejects)
    _tell_other_replies(cache, replies, {unit["text"] for unit in units}, rejects)
    return (
        DOCUMENTS.frame(list(documents.values())),
        TEXT_UNITS.frame(units),
        EXTRACTIONS.frame(extractions),
        IMPORTED_COMMUNITIES.frame(list(communities.values())),
        COMMUNITY_REPORTS.frame(reports),
        COVARIATES.frame(claims),
        REJECTS.frame(rejects.rows),
    )


def _units(tables: Mapping[str, Sequence[Row]]) -> Iterator[Row]:
    """Yield the passages that have a text."""
    return (row for row in tables["text_units"] if text_of(row["text"]).strip())


def _finished(
    documents: Mapping[str, Row],
    tables: Mapping[str, Sequence[Row]],
    replies: Replies,
    rejects: GraphragRejects,
) -> dict[str, Row]:
    """Return the documents whose passages all have a reply, with ids as input files have them."""
    lacking: dict[str, int] = {}
    for row in _units(tables):
        if not replies[text_of(row["text"])]:
            for id in texts_of(row["documents"]):
                lacking[id] = lacking.get(id, 0) + 1
    found: dict[str, Row] = {}
    sources: set[str] = set()
    for theirs, row in documents.items():
        if theirs in lacking:
            message = (
                f"{counted(lacking[theirs], 'passage')} without a whole reply in"
                f" cache/{STEP}; put its file into the input folder, and the next run reads it"
            )
            rejects.add_part(row["source"], "row", "unfinished", message)
            continue
        source = theirs if row["source"] in sources else row["source"]
        sources.add(source)
        found[theirs] = {**row, "id": document_id(source), "source": source}
    return found


def _read_extractions(
    units: Iterable[Row], replies: Replies, rejects: GraphragRejects
) -> Iterator[Row]:
    """Yield the records of all replies, by text unit and in the order in which they came."""
    for unit in units:
        is_grounded = Grounding(unit["text"])
        for order, record in enumerate(_records_of(replies[unit["text"]], rejects)):
            place = {"text_unit_id": unit["id"], "order": order}
            kind = "entity" if isinstance(record, Entity) else "relationship"
            fields = {**vars(record), "attributes": None}
            yield {**BLANK, "kind": kind, **fields, **place, "grounded": is_grounded(record)}


def _records_of(replies: Sequence[Reply], rejects: GraphragRejects) -> Iterator[Record]:
    """Yield the records of the replies about a passage; the rest is added to the rejects."""
    for number, reply in enumerate(replies):
        parsed = parse_records(reply.content)
        place = f"cache/{STEP}/{reply.name}"
        if not parsed.records and number == 0:
            # A further reply that names nothing more is no loss.
            rejects.add_part(place, "row", "empty", "no record in the first reply of a passage")
        for problem in parsed.problems:
            message = f"{problem.message}: {problem.record_text}"
            rejects.add_part(place, "record", "record", message)
        yield from parsed.records


def _tell_other_files(folder: Path, cache: GraphragCache, rejects: GraphragRejects) -> None:
    """Add the files beside the tables, and the replies to other steps, to the rejects."""
    for name, content in list_other_files(folder):
        rejects.add_file(name, content)
    for name, number in count_other_replies(cache).items():
        rejects.add_file(f"cache/{name}", f"{counted(number, 'file')}, not read")


def _tell_other_replies(
    cache: GraphragCache, replies: Replies, taken_texts: Collection[str], rejects: GraphragRejects
) -> None:
    """Add the numbers of replies that are about no passage, or about one that is not taken."""
    taken = {reply.name for text in taken_texts for reply in replies[text]}
    known = {reply.name for found in replies.values() for reply in found}
    unknown = set(cache.list_names()) - known
    unknown_reason = "damaged or about no passage"
    if cache.gleanings > 1:
        # From the second gleaning on, GraphRAG asks first whether the passage has more to tell.
        unknown_reason = "damaged, about no passage, or an answer whether a passage has more"
    notes = [
        f"{counted(len(names), 'file')} not read, {reason}"
        for names, reason in (
            (known - taken, "about passages of documents that are left out"),
            (unknown, unknown_reason),
        )
        if names
    ]
    if notes:
        rejects.add_file(f"cache/{STEP}", "; ".join(notes))
