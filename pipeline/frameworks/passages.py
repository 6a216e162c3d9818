"""The passages of the evidence for a question, as the retrievers of frameworks give them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.frameworks.http import Client
from pipeline.project import Project
from pipeline.serve.bodies import Evidence

Source = Project | Client
"""The place in which a retriever searches: a project of this machine, or a server."""
FIELDS = ("source", "start", "end", "heading", "date", "lane")
"""Fields of a passage that become metadata, if they are set."""


@dataclass(frozen=True)
class FoundPassage:
    """A passage with its score and metadata.

    ``score``: the reranker's if it ranked the passage, otherwise the similarity to the question.
    ``metadata``: those of the document; fields of ``FIELDS``, ``title``, ``document_id`` and
    ``page`` replace fields of the same name.
    """

    id: str
    document_id: str
    text: str
    score: float | None
    metadata: Mapping[str, Any]


def find_passages(source: Source, question: str, options: Mapping[str, Any]) -> list[FoundPassage]:
    """Return the passages for a question, best first. Raises the errors of ``query_data``."""
    found = source.query_data(question, **options)
    return passages_of(found if isinstance(found, Evidence) else Evidence.model_validate(found))


def passages_of(evidence: Evidence) -> list[FoundPassage]:
    """Return the passages of the evidence, in its order."""
    titles = {reference.chunk_id: reference.title for reference in evidence.references}
    passages: list[FoundPassage] = []
    for chunk in evidence.chunks:
        beside = chunk.model_extra or {}
        metadata = dict(beside.get("metadata") or {})
        metadata["document_id"] = chunk.document_id
        if chunk.id in titles:
            metadata["title"] = titles[chunk.id]
        if beside.get("page"):
            metadata["page"] = beside["page"]
        for name in FIELDS:
            value = getattr(chunk, name)
            if value != "":
                metadata[name] = value
        score = chunk.score if chunk.rerank_score is None else chunk.rerank_score
        passages.append(FoundPassage(chunk.id, chunk.document_id, chunk.content, score, metadata))
    return passages
