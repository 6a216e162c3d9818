"""The order that a reranker gives text units, alone or fused with the order of the search."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.documents.headings import BETWEEN, is_place_of_record, leave_out_repeated
from pipeline.errors import ModelError, NoSuchModelError
from pipeline.models.base import Reranker
from pipeline.settings.query_fields import Mode
from pipeline.stores.records import Passage
from pipeline.text.headers import text_with_header

CANDIDATES = 3
"""Factor by which more text units are found than shown if a reranker chooses among them."""
FUSED_MODES: frozenset[Mode] = frozenset(("naive", "mix"))
"""The modes in which the two orders are fused. In others the order of the search stays: in
``graph`` MiniLM's order lost a tenth of the recall at 5 (benchmarks/README.md)."""
FUSED_FIRST = 20
"""The number of text units whose orders are fused, as measured. Those behind them stay there, so
that a question with many text units does not cost more."""
RANK_OFFSET = 60
"""Added to each rank before its reciprocal is taken (Cormack et al. 2009, "Reciprocal rank
fusion")."""
LONGEST_HEADER = 300
"""The most characters of title and headings before a text, so that a reranker that reads only the
first thousand still reads the text itself."""


def rerank_chunks(
    chunks: Sequence[Passage], query: str, reranker: Reranker, fused: bool = False
) -> tuple[Sequence[Passage], tuple[str, ...]]:
    """Return the chunks in their new order, with the scores as ``rerank_score``, and notes.

    The reranker reads what ``text_to_rank`` gives. The order is that of the scores; if ``fused``,
    that of ``fuse_orders`` for the first
    FUSED_FIRST. Ties keep their order. If the reranker fails, the chunks are returned unchanged
    with a note.
    """
    if not chunks:
        return chunks, ()
    first = chunks[:FUSED_FIRST] if fused else chunks
    try:
        scores = reranker.rerank(query, [text_to_rank(chunk) for chunk in first])
    except (ModelError, NoSuchModelError) as error:
        return chunks, (f"not reranked: {error}",)
    places = sorted(range(len(first)), key=lambda place: -scores[place])
    if fused:
        places = fuse_orders(places)
    reranked = [replace(first[place], rerank_score=float(scores[place])) for place in places]
    return [*reranked, *chunks[len(first) :]], ()


def text_to_rank(chunk: Passage) -> str:
    """Return what a reranker reads of a text unit: its header, as the search sees it, and its text.

    Without a header it is title and headings with which the text does not begin. A text may say
    nothing of its subject but in its title, and would else be ranked below texts that name it.
    """
    header = chunk.header
    if not header:
        title = "" if is_place_of_record(chunk.title) else chunk.title
        names = [title, *chunk.heading.split(BETWEEN)]
        header = BETWEEN.join(leave_out_repeated(names, chunk.content))
    return text_with_header(header[:LONGEST_HEADER].strip(), chunk.content)


def count_candidates(shown: int, fused: bool) -> int:
    """Return how many text units to find if a reranker chooses the ``shown`` ones among them."""
    return max(shown, FUSED_FIRST) if fused else CANDIDATES * shown


def fuse_orders(reranked: Sequence[int]) -> list[int]:
    """Return places in the order of the sum of the reciprocals of their two ranks, best first.

    ``reranked`` holds the places 0, 1, ... of the search's own order, the reranker's best first.
    Ties keep the order of the search.
    """
    sums: dict[int, float] = {}
    for rank, place in enumerate(reranked, start=1):
        # Places begin at 0, ranks at 1.
        rank_of_search = place + 1
        sums[place] = 1 / (RANK_OFFSET + rank_of_search) + 1 / (RANK_OFFSET + rank)
    return sorted(sums, key=lambda place: (-sums[place], place))
