"""A read of the stores that sees what the request may see."""

from collections.abc import Callable

from pipeline.query.filtered import FilteredGraph, FilteredVectors, matching_documents
from pipeline.query.request import QueryRequest
from pipeline.query.stage import Result
from pipeline.stores.base import GraphReads, VectorReads

Work = Callable[[VectorReads, GraphReads], Result]


def allowed(request: QueryRequest, work: Work[Result]) -> Work[Result]:
    """The same work over the documents of ``where`` alone."""
    if not request.where:
        return work

    def look(vectors: VectorReads, graph: GraphReads) -> Result:
        seen = FilteredVectors(vectors, matching_documents(vectors.documents(), request.where))
        return work(seen, FilteredGraph(graph, seen))

    return look
