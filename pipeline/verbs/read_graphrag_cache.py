"""read_graphrag_cache: read documents and extractions from an index of GraphRAG and its cache."""

from collections import Counter, defaultdict
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
    find_missing_units,
    read_documents,
    read_units,
    text_of,
    texts_of,
)
from pipeline.documents.graphrag_cache import (
    CLAIMS,
    REPORTING,
    STEP,
    Conversation,
    GraphragCache,
    Reply,
    cache_digest,
    count_other_files,
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
from pipeline.text.ids import clean_name, digest, document_id, entity_id, match_key
from pipeline.verbs.extract_graph import TextNames
from pipeline.verbs.extract_table import BLANK
from pipeline.verbs.read_graphrag import GraphragParams

Conversations = Mapping[str, Conversation]
"""The conversations about passages, by the text of the passage."""
DELIMITER = "<|"
"""The beginning of the delimiters of records, which is in no name."""
ASKED_OTHERWISE = "about no passage, or asked with another prompt or max_gleanings"
"""The reason for replies to questions that this index does not give."""
SHOWN = 3
"""The number of names that a message shows."""


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
    each part is from. Reasons are those of read_graphrag, and unfinished, empty, record and
    truncated.

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
    replies = _find_replies(tables, cache)
    all_documents = read_documents(tables["documents"], rejects)
    documents = _finished(all_documents, tables, replies, rejects)
    known_units, units = read_units(
        tables["text_units"], documents, tokenizer, rejects, all_documents
    )
    extractions = list(_read_extractions(units, replies, rejects))
    _tell_unsaid(tables["entities"], known_units, extractions, rejects)
    _tell_broken(units, documents, replies, rejects)
    names = {text_of(row["id"]): clean_name(text_of(row["name"])) for row in tables["entities"]}
    ids = {id: entity_id(name) for id, name in names.items() if name}
    communities = read_communities(tables["communities"], ids, known_units, rejects)
    reports = read_reports(tables["community_reports"], communities, rejects)
    claims = read_claims(tables["covariates"], known_units, rejects)
    for name, content in list_other_files(folder):
        rejects.add_file(name, content)
    _tell_other_folders(cache, tables, len(replies), rejects)
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


def _find_replies(tables: Mapping[str, Sequence[Row]], cache: GraphragCache) -> Conversations:
    """Return what the model has replied about each passage."""
    found: dict[str, Conversation] = {}
    for row in _units(tables):
        text = text_of(row["text"])
        # Texts may differ in control characters alone, which no table here has.
        if text not in found or not found[text].replies:
            found[text] = cache.replies_about(str(row["text"]))
    return found


def _finished(
    documents: Mapping[str, Row],
    tables: Mapping[str, Sequence[Row]],
    replies: Conversations,
    rejects: GraphragRejects,
) -> dict[str, Row]:
    """Return the documents whose passages all have a reply, with ids as input files have them."""
    lacking: dict[str, int] = {}
    for row in _units(tables):
        if not replies[text_of(row["text"])].replies:
            for id in texts_of(row["documents"]):
                lacking[id] = lacking.get(id, 0) + 1
    incomplete = find_missing_units(tables)
    found: dict[str, Row] = {}
    sources: set[str] = set()
    for theirs, row in documents.items():
        source = theirs if row["source"] in sources else row["source"]
        if source in sources:
            message = f"another document is called '{source}'; give it another title"
            rejects.add_part(row["source"], "row", "duplicate_id", message)
            continue
        # A document that is left out keeps its name: a file of this name takes no other's place.
        sources.add(source)
        _, fact = incomplete.get(theirs, (0, ""))
        if theirs in lacking:
            fact = f"{counted(lacking[theirs], 'passage')} without a whole reply in cache/{STEP}"
        if fact:
            message = f"{fact}; put its file into the input folder, and the next run reads it"
            rejects.add_part(row["source"], "row", "unfinished", message)
            continue
        found[theirs] = {**row, "id": document_id(source), "source": source}
    return found


def _read_extractions(
    units: Iterable[Row], replies: Conversations, rejects: GraphragRejects
) -> Iterator[Row]:
    """Yield the records of all replies, by text unit and in the order in which they came."""
    for unit in units:
        known = TextNames(unit["text"])
        for order, record in enumerate(_records_of(replies[unit["text"]].replies, rejects)):
            place = {"text_unit_id": unit["id"], "order": order}
            kind = "entity" if isinstance(record, Entity) else "relationship"
            fields = {**vars(record), "attributes": None}
            yield {**BLANK, "kind": kind, **fields, **place, "grounded": known.has_names_of(record)}


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
        if reply.is_cut:
            rejects.add_part(place, "record", "truncated", "it ends at the limit of tokens")
        yield from parsed.records


def _tell_unsaid(
    rows: Sequence[Row],
    units: Mapping[str, Sequence[str]],
    extractions: Iterable[Row],
    rejects: GraphragRejects,
) -> None:
    """Add the number of entities that no reply names about a passage that they are from.

    The tables are made of the replies, so the cache may be that of another run or project. Names
    with a delimiter are left out: GraphRAG reads a reply and its gleaning as one text, in which the
    last record of the first runs into the next one.
    """
    said: defaultdict[str, set[str]] = defaultdict(set)
    for record in extractions:
        names = (record[key] for key in ("name", "source", "target"))
        said[record["text_unit_id"]].update(match_key(name) for name in names if name)
    unsaid: list[tuple[int, str]] = []
    for place, row in enumerate(rows):
        name = clean_name(text_of(row["name"]))
        known = [unit for id in texts_of(row["text_unit_ids"]) for unit in units.get(id, ())]
        is_unsaid = any(match_key(name) not in said[unit] for unit in known)
        if is_unsaid and DELIMITER not in name:
            unsaid.append((place, name))
    if unsaid:
        place, name = unsaid[0]
        message = (
            f"{len(unsaid)} of {counted(len(rows), 'entity', 'entities')} are named by no reply"
            f" about their passages, as '{name}'; is the cache that of this index?"
        )
        rejects.add("entities", place, "record", "dangling", message)


def _tell_broken(
    units: Iterable[Row],
    documents: Mapping[str, Row],
    replies: Conversations,
    rejects: GraphragRejects,
) -> None:
    """Add the documents of which a further question has no reply; the first replies are taken."""
    if not any(len(found.replies) > 1 for found in replies.values()):
        # The index was made without further questions.
        return
    sources = {row["id"]: row["source"] for row in documents.values()}
    broken = Counter(unit["document_id"] for unit in units if replies[unit["text"]].is_broken)
    for id, number in broken.items():
        message = (
            f"{counted(number, 'passage')} without the reply to a further question (gleaning) in"
            f" cache/{STEP}; the replies before it are taken"
        )
        rejects.add_part(sources[id], "record", "dangling", message)


def _tell_other_folders(
    cache: GraphragCache,
    tables: Mapping[str, Sequence[Row]],
    passages: int,
    rejects: GraphragRejects,
) -> None:
    """Add the files of the cache that are not read and whose content is in no table.

    GraphRAG puts no claim of a further question into its table, and no report that it made before
    it grouped anew.
    """
    for name, number in count_other_files(cache).items():
        place = "cache" if name == "." else f"cache/{name}"
        content = f"{counted(number, 'file')}, not read"
        if name == REPORTING:
            rows = len(tables["community_reports"])
            if number <= rows:
                continue
            content += f"; community_reports has {counted(rows, 'report')} of them"
        elif name == CLAIMS:
            rows = len(tables["covariates"])
            if rows and number <= passages:
                continue
            content += (
                f"; covariates has {counted(rows, 'claim')} of the first questions about"
                f" {counted(passages, 'passage')}"
            )
        rejects.add_file(place, content)


def _tell_other_replies(
    cache: GraphragCache,
    replies: Conversations,
    taken_texts: Collection[str],
    rejects: GraphragRejects,
) -> None:
    """Add the numbers of replies that are damaged, about no passage, or about one left out."""
    taken = _names_of(replies[text] for text in taken_texts)
    known = _names_of(replies.values())
    unknown = sorted(set(cache.list_names()) - known)
    damaged = [name for name in unknown if cache.is_damaged(name)]
    shown = ", ".join(damaged[:SHOWN])
    notes = [
        f"{counted(number, 'file')} not read, {reason}"
        for number, reason in (
            (len(known - taken), "about passages of documents that are left out"),
            (len(unknown) - len(damaged), ASKED_OTHERWISE),
            (len(damaged), f"damaged: {shown}"),
        )
        if number
    ]
    if notes:
        rejects.add_file(f"cache/{STEP}", "; ".join(notes))


def _names_of(conversations: Iterable[Conversation]) -> set[str]:
    """Return the names of all files that conversations are read from."""
    names: set[str] = set()
    for one in conversations:
        names.update(reply.name for reply in one.replies)
        names.update(one.answers)
    return names
