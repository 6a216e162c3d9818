"""A retriever for LangChain (extra ``langchain``)."""

from typing import Any

from pipeline.errors import UsageError, install_extra
from pipeline.frameworks.passages import FoundPassage, Source, find_passages

try:
    from langchain_core.callbacks import (  # pyright: ignore[reportMissingImports]
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document  # pyright: ignore[reportMissingImports]
    from langchain_core.retrievers import BaseRetriever  # pyright: ignore[reportMissingImports]
except ImportError:
    raise UsageError(f"langchain-core is missing; {install_extra('langchain')}") from None


class GraphmillRetriever(BaseRetriever):
    """Passages of a project or a server, as documents of LangChain.

    ``source`` is a ``Project`` or a ``Client``. ``options`` are those of ``Project.query``, such as
    ``mode``, ``chunk_top_k`` and ``where``; arguments of ``invoke`` and ``ainvoke`` replace them.
    The metadata of a document have its ``score``, ``title``, ``source`` and place.
    """

    source: Any
    options: dict[str, Any]

    def __init__(self, source: Source, **options: Any):
        # LangChain makes a retriever anew of its fields, ``options`` among them.
        options = {**options.pop("options", {}), **options}
        own = {name: options.pop(name) for name in ("name", "tags", "metadata") if name in options}
        super().__init__(source=source, options=options, **own)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        passages = find_passages(self.source, query, {**self.options, **options})
        return [document_of(passage) for passage in passages]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        from asyncio import to_thread

        asked = {**self.options, **options}
        passages = await to_thread(find_passages, self.source, query, asked)
        return [document_of(passage) for passage in passages]


def document_of(passage: FoundPassage) -> Document:
    """Return a passage as a document of LangChain, which has its score among its metadata."""
    metadata = {**passage.metadata, "score": passage.score}
    return Document(id=passage.id, page_content=passage.text, metadata=metadata)
