"""The context of an answer: evidence cut to its budgets, as CSV tables with a list of references."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.models.base import Tokenizer
from pipeline.query.evidence import Evidence
from pipeline.query.fusion import round_robin
from pipeline.query.request import QueryRequest

RESERVE = 100
"""Tokens kept free for what a model's own message format adds."""

SECTION = "-----{}-----\n```csv\n{}```\n"
ENTITY_HEADER = ["id", "entity", "type", "description", "rank"]
RELATIONSHIP_HEADER = ["id", "source", "target", "description", "keywords", "weight", "rank"]
SOURCE_HEADER = ["id", "content"]


@dataclass(frozen=True)
class Table:
    """A section of the context: the records kept, their CSV, its tokens, and how many were dropped."""

    records: pd.DataFrame
    csv: str
    tokens: int
    dropped: int


@dataclass(frozen=True)
class Reference:
    """A document that the context shows; ``id`` is the number an answer cites it by."""

    id: int
    document_id: str
    source: str
    title: str


@dataclass(frozen=True)
class Context:
    entities: Table
    relationships: Table
    chunks: Table
    references: tuple[Reference, ...]

    @property
    def empty(self) -> bool:
        return self.entities.records.empty and self.relationships.records.empty and self.chunks.records.empty

    @property
    def text(self) -> str:
        """The sections that hold anything, and the references."""
        sections = {"Entities": self.entities, "Relationships": self.relationships, "Sources": self.chunks}
        shown = [SECTION.format(name, table.csv) for name, table in sections.items() if len(table.records)]
        references = "\n".join(f"[{entry.id}] {entry.source}" for entry in self.references)
        return "\n".join([*shown, f"-----References-----\n{references}\n"] if references else shown)


def ranked_chunks(evidence: Evidence, limit: int) -> list[str]:
    """Ids of the text units to read: the lanes in turn, the best of each first."""
    order = ("graph", "vector", "entity", "relationship")
    return round_robin(*(evidence.chunk_lanes.get(lane, []) for lane in order))[:limit]


def build_context(
    request: QueryRequest, evidence: Evidence, chunks: pd.DataFrame, tokenizer: Tokenizer, overhead: int
) -> Context:
    """Cut entities and relationships to their own budgets, chunks to what is left of the total.

    ``chunks``: CHUNK_COLUMNS in their order; ``overhead``: tokens of the prompt without its context.
    """
    left = max(request.max_total_tokens - overhead - RESERVE, 0)
    entities = _cut(
        evidence.entities, _entity_rows(evidence.entities), ENTITY_HEADER,
        min(request.max_entity_tokens, left), tokenizer,
    )  # fmt: skip
    left -= entities.tokens
    relationships = _cut(
        evidence.relationships, _relationship_rows(evidence.relationships), RELATIONSHIP_HEADER,
        min(request.max_relation_tokens, left), tokenizer,
    )  # fmt: skip
    left -= relationships.tokens
    references = _references(chunks)
    numbers = {entry.document_id: entry.id for entry in references}
    reference_tokens = tokenizer.count("\n".join(f"[{entry.id}] {entry.source}" for entry in references))
    rows = pd.DataFrame({"id": chunks["document_id"].map(numbers), "content": chunks["content"]})
    shown = _cut(chunks, rows, SOURCE_HEADER, max(left - reference_tokens, 0), tokenizer)
    kept = set(shown.records["document_id"])
    return Context(entities, relationships, shown, tuple(entry for entry in references if entry.document_id in kept))


def _entity_rows(entities: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": range(1, len(entities) + 1),
            "entity": entities["name"].to_numpy(),
            "type": entities["type"].to_numpy(),
            "description": entities["description"].to_numpy(),
            "rank": entities["degree"].to_numpy(),
        }
    )


def _relationship_rows(links: pd.DataFrame) -> pd.DataFrame:
    rows = links[["source", "target", "description", "weight", "rank"]].reset_index(drop=True)
    rows.insert(0, "id", range(1, len(links) + 1))
    rows.insert(4, "keywords", [", ".join(words) for words in links["keywords"]])
    return rows


def _cut(records: pd.DataFrame, rows: pd.DataFrame, header: Sequence[str], budget: int, tokenizer: Tokenizer) -> Table:
    """The longest head of the rows whose CSV, header and section frame included, is within the budget."""
    used = tokenizer.count(SECTION.format("Relationships", ",".join(header)))
    lines = []
    for row in rows[list(header)].itertuples(index=False):
        line = _csv_line(row)
        cost = tokenizer.count(line)
        if used + cost > budget:
            break
        used += cost
        lines.append(line)
    kept = records.head(len(lines))
    text = "".join([",".join(header) + "\n", *lines])
    return Table(kept, text, used if lines else 0, len(records) - len(kept))


def _csv_line(row: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(row)
    return line.getvalue()


def _references(chunks: pd.DataFrame) -> list[Reference]:
    """Documents by how many of the chunks are theirs, then by first appearance."""
    counts = chunks.groupby("document_id", sort=False).size()
    ranked = counts.sort_values(ascending=False, kind="stable").index
    first = chunks.drop_duplicates("document_id").set_index("document_id")
    return [
        Reference(number, str(id), str(first.at[id, "source"]), str(first.at[id, "title"]))
        for number, id in enumerate(ranked, start=1)
    ]
