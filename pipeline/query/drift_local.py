"""Local searches for follow-up questions, their contexts numbered as one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pandas as pd

from pipeline.query.context import RESERVE, Context, Table
from pipeline.query.data_citations import DataCitations
from pipeline.query.find import find_evidence
from pipeline.query.messages import count_tokens, instructed
from pipeline.query.mixed_context import mixed_citable, mixed_context
from pipeline.query.numbers import Numbers
from pipeline.query.read_allowed import allowed
from pipeline.query.request import QueryRequest
from pipeline.query.retrieve import QuestionVectors
from pipeline.query.stage import Found, QueryStage
from pipeline.stores.base import GraphReads, VectorReads

LOCAL = "drift_local"


@dataclass(frozen=True)
class LocalSearch:
    question: str
    context: Context

    @property
    def citable(self) -> DataCitations:
        return mixed_citable(self.context)


@dataclass
class LocalContexts:
    """Contexts as ``local`` has them with ``context: graphrag``, each within max_map_tokens."""

    request: QueryRequest
    stage: QueryStage
    numbers: Numbers
    built: list[Context] = field(default_factory=list)

    def of(self, questions: Sequence[str]) -> tuple[list[LocalSearch], tuple[str, ...]]:
        """A search for each question, without those that find nothing, from one read of the stores; and what is to be
        said of the moment. The question itself is what is searched for."""
        if not questions:
            return [], ()
        vectors = self.stage.embedding.embed(questions)
        found, notes = self.stage.read(allowed(self.request, lambda *stores: self._found(questions, vectors, *stores)))
        searches = [
            LocalSearch(question, self._context(question, one)) for question, one in zip(questions, found, strict=True)
        ]
        shown = [search for search in searches if not search.context.empty]
        self.built.extend(search.context for search in shown)
        return shown, notes

    def merged_with(self, first: Context) -> Context:
        """All records that were shown, each once; a window for each call."""
        contexts = [first, *self.built]
        references = {entry.id: entry for context in contexts for entry in context.references}
        return Context(
            _merged([context.entities for context in contexts]),
            _merged([context.relationships for context in contexts]),
            _merged([context.chunks for context in contexts]),
            tuple(references[number] for number in sorted(references)),
            _merged([context.reports for context in contexts]),
            _merged([context.claims for context in contexts]),
            tuple(chain(first.windows, (context.text for context in self.built))),
        )

    def _found(
        self, questions: Sequence[str], embedded: np.ndarray, vectors: VectorReads, graph: GraphReads
    ) -> list[Found]:
        searched = zip(questions, embedded, strict=True)
        n_chunks = self.request.chunk_top_k
        return [
            find_evidence(self._local(question), QuestionVectors(vector, vector, None), vectors, graph, n_chunks)
            for question, vector in searched
        ]

    def _context(self, question: str, found: Found) -> Context:
        evidence, chunks = found
        tokenizer = self.stage.tokenizer
        overhead = count_tokens(instructed(self.request, self.stage, LOCAL, "", question), tokenizer)
        total = min(self.request.max_total_tokens, self.request.max_map_tokens + overhead + RESERVE)
        local = self._local(question).model_copy(update={"max_total_tokens": total})
        return mixed_context(local, evidence, chunks, tokenizer, overhead, self.numbers)

    def _local(self, question: str) -> QueryRequest:
        return self.request.model_copy(update={"mode": "local", "context": "graphrag", "query": question})


def _merged(tables: Sequence[Table]) -> Table:
    """``dropped`` stays a count of all windows together."""
    filled = [table.records for table in tables if len(table.records)]
    records = pd.concat(filled).drop_duplicates("id") if filled else tables[0].records.assign(number=[])
    ordered = records.sort_values("number", kind="stable").reset_index(drop=True)
    return Table(ordered, "", sum(table.tokens for table in tables), sum(table.dropped for table in tables))
