"""A retriever for LlamaIndex (extra ``llamaindex``)."""

from typing import Unpack

from pipeline.errors import UsageError, install_extra
from pipeline.frameworks.passages import FoundPassage, Source, find_passages
from pipeline.settings.query_keywords import QueryKeywords, with_option_names

try:
    from llama_index.core.retrievers import (  # pyright: ignore[reportMissingImports]
        BaseRetriever,
    )
    from llama_index.core.schema import (  # pyright: ignore[reportMissingImports]
        NodeRelationship,
        NodeWithScore,
        QueryBundle,
        RelatedNodeInfo,
        TextNode,
    )
except ImportError:
    raise UsageError(f"llama-index-core is missing; {install_extra('llamaindex')}") from None


class GraphmillRetriever(BaseRetriever):
    """Passages of a project or a server, as nodes of LlamaIndex.

    ``source`` is a ``Project`` or a ``Client``. ``options`` are those of ``Project.query``, such as
    ``mode``, ``chunk_top_k`` and ``where``.
    """

    @with_option_names
    def __init__(self, source: Source, **options: Unpack[QueryKeywords]):
        self._source = source
        self._options = options
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        passages = find_passages(self._source, query_bundle.query_str, self._options)
        return [node_of(passage) for passage in passages]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        from asyncio import to_thread

        return await to_thread(self._retrieve, query_bundle)


def node_of(passage: FoundPassage) -> NodeWithScore:
    """Return a passage as a node, whose source is the document."""
    document = RelatedNodeInfo(node_id=passage.document_id)
    node = TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=dict(passage.metadata),
        relationships={NodeRelationship.SOURCE: document},
    )
    return NodeWithScore(node=node, score=passage.score)
