"""The stores as those see them who may see some documents only.

A text unit of another document is not there. An entity or relationship is there if a text unit of these documents is
one of its sources; what was written of it from other documents too (description, type, keywords) is left out. A report
is there if all of its sources are text units of these documents, a claim if its one is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.query.request import QueryRequest
from pipeline.query.resources import Result
from pipeline.stores.reads import GraphReads, Lexical, VectorReads, Within

UNTOLD: Mapping[str, Any] = {"description": "", "keywords": ()}
Work = Callable[[VectorReads, GraphReads], Result]


@dataclass(frozen=True)
class FilteredVectors:
    vectors: VectorReads
    allowed: Within

    def nearest(self, table: str, vector: np.ndarray, limit: int, within: Within = ()) -> list[tuple[str, float]]:
        return self.vectors.nearest(table, vector, limit, (*self.allowed, *within))

    def nearest_of(self, table: str, ids: Sequence[str], vector: np.ndarray, limit: int) -> list[tuple[str, float]]:
        return self.vectors.nearest_of(table, sorted(self.visible(table, ids)), vector, limit)

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> pd.DataFrame:
        seen = self.visible("chunks", ids)
        return self.vectors.chunks([id for id in ids if id in seen], question)

    def documents(self, within: Within = ()) -> pd.DataFrame:
        return self.vectors.documents((*self.allowed, *within))

    def origins(self, table: str, ids: Sequence[str], within: Within) -> pd.DataFrame:
        return self.vectors.origins(table, ids, (*self.allowed, *within))

    def lexical(self, question: str, limit: int, within: Within = ()) -> Lexical:
        return self.vectors.lexical(question, limit, (*self.allowed, *within))

    def mentions(self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int) -> pd.DataFrame:
        found = self.vectors.mentions(text_unit_ids, entity_ids, most)
        seen = found[found["entity_id"].isin(self.visible("entities", found["entity_id"].tolist()))]
        return self.with_visible_units(seen.reset_index(drop=True))

    def openings(self, ids: Sequence[str], length: int) -> pd.DataFrame:
        return self.vectors.openings(sorted(self.visible("chunks", ids)), length)

    def embeddings(self, table: str, ids: Sequence[str]) -> Mapping[str, np.ndarray]:
        return self.vectors.embeddings(table, ids)

    def reports(self, ids: Sequence[str]) -> pd.DataFrame:
        found = self.vectors.reports(ids)
        whole = self.visible_and_whole("reports", found["id"].tolist())[1]
        return found[found["id"].isin(whole)].reset_index(drop=True)

    def reports_at(self, level: int, limit: int, within: Within = ()) -> pd.DataFrame:
        return self.vectors.reports_at(level, limit, (*self.allowed, *within))

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Within = ()) -> pd.DataFrame:
        return self.vectors.claims_of(entity_ids, limit, (*self.allowed, *within))

    def with_visible_units(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows without the text units of other documents."""
        units = self.visible("chunks", rows["text_unit_ids"].explode().dropna().unique().tolist())
        cells = [[unit for unit in cell if unit in units] for cell in rows["text_unit_ids"]]
        return rows.assign(text_unit_ids=pd.Series(cells, dtype=object))

    def visible(self, table: str, ids: Sequence[str]) -> set[str]:
        """The ids that have a source in the documents."""
        return self.visible_and_whole(table, ids)[0]

    def visible_and_whole(self, table: str, ids: Sequence[str]) -> tuple[set[str], set[str]]:
        """The ids that have a source in the documents, and those of them that have no other."""
        origins = self.vectors.origins(table, ids, self.allowed)
        some, whole = (set(origins["id"][origins[column].astype(bool)]) for column in ("some", "all"))
        return some, whole


@dataclass(frozen=True)
class FilteredGraph:
    graph: GraphReads
    vectors: FilteredVectors

    def entities(self, ids: Sequence[str]) -> pd.DataFrame:
        return self._seen("entities", self.graph.entities(ids), {"description": "", "type": ""})

    def relationships(self, ids: Sequence[str]) -> pd.DataFrame:
        return self._seen("relationships", self.graph.relationships(ids), UNTOLD)

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> pd.DataFrame:
        return self._seen("relationships", self.graph.relationships_of(entity_ids, limit), UNTOLD)

    def shared_units(self, entity_ids: Sequence[str]) -> pd.DataFrame:
        shared = self.graph.shared_units(entity_ids)
        visible = self.vectors.visible("chunks", shared["text_unit_id"].unique().tolist())
        return shared[shared["text_unit_id"].isin(visible)].reset_index(drop=True)

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> pd.DataFrame:
        links = self.graph.links(entity_ids, most, limit)
        visible = self.vectors.visible("relationships", links["id"].tolist())
        return links[links["id"].isin(visible)].reset_index(drop=True)

    def communities_of(self, entity_ids: Sequence[str], level: int) -> pd.DataFrame:
        return self.graph.communities_of(sorted(self.vectors.visible("entities", entity_ids)), level)

    def _seen(self, table: str, rows: pd.DataFrame, untold: Mapping[str, Any]) -> pd.DataFrame:
        """The rows that have a source in the documents, with those sources; ``untold`` in place of what was written
        from others too."""
        visible, whole = self.vectors.visible_and_whole(table, rows["id"].tolist())
        seen = rows[rows["id"].isin(visible)].reset_index(drop=True)
        told = seen["id"].isin(whole)
        hidden = {name: [cell if tell else value for cell, tell in zip(seen[name], told, strict=True)]
                  for name, value in untold.items()}  # fmt: skip
        told_rows = seen.assign(**{name: pd.Series(cells, dtype=object) for name, cells in hidden.items()})
        return self.vectors.with_visible_units(told_rows)


def allowed(request: QueryRequest, work: Work[Result]) -> Work[Result]:
    """The same work over the documents of ``where`` alone."""
    if not request.where:
        return work

    def look(vectors: VectorReads, graph: GraphReads) -> Result:
        seen = FilteredVectors(vectors, (request.where,))
        return work(seen, FilteredGraph(graph, seen))

    return look
