"""The context of a mode that reads reports in windows."""

from collections.abc import Sequence

import pandas as pd

from pipeline.errors import NothingLoadedError
from pipeline.query.context import RESERVE, Context, Table
from pipeline.query.messages import count_tokens, instructed
from pipeline.query.read_allowed import Work, allowed
from pipeline.query.report_windows import Window
from pipeline.query.request import QueryRequest
from pipeline.query.stage import QueryStage
from pipeline.stores.base import CHUNK_COLUMNS, ENTITY_COLUMNS, RELATIONSHIP_COLUMNS, GraphReads, VectorReads

Notes = tuple[str, ...]
NO_REPORTS = "query: no community reports in this workspace; run the workflow 'communities'"


def read_reports(request: QueryRequest, stage: QueryStage, find: Work[pd.DataFrame]) -> tuple[pd.DataFrame, Notes]:
    """What ``find`` finds among the reports that the request may see, and what is to be said of the moment.

    Raises NothingLoadedError where the workspace has none at all.
    """

    def read(vectors: VectorReads, graph: GraphReads) -> pd.DataFrame:
        if vectors.reports_at(0, 1).empty:
            raise NothingLoadedError(NO_REPORTS)
        return allowed(request, find)(vectors, graph)

    return stage.read(read)


def window_budget(request: QueryRequest, stage: QueryStage, prompt: str) -> int:
    """Tokens of evidence that a call with this prompt may have: max_map_tokens, within max_total_tokens."""
    overhead = count_tokens(instructed(request, stage, prompt, "", request.query), stage.tokenizer)
    return max(min(request.max_map_tokens, request.max_total_tokens - overhead - RESERVE), 0)


def report_context(reports: pd.DataFrame, windows: Sequence[Window]) -> Context:
    """Those of the reports that a window shows."""
    shown = {number for window in windows for number in window.numbers}
    kept = reports[reports["number"].isin(shown)].reset_index(drop=True)
    table = Table(kept, "", sum(window.tokens for window in windows), len(reports) - len(kept))
    others = (ENTITY_COLUMNS, RELATIONSHIP_COLUMNS, CHUNK_COLUMNS)
    entities, relationships, chunks = (Table(pd.DataFrame(columns=names), "", 0, 0) for names in others)
    return Context(entities, relationships, chunks, (), table, windows=tuple(window.text for window in windows))
