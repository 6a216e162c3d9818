"""The stores as those see them who may know nothing of other documents, whatever they ask for.

More is left out than a filter leaves out (filtered.py): of what other documents tell of too not only descriptions, but
also a name that may be theirs alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pipeline.contract.conditions import Conditions
from pipeline.query.resources import ReadTogether, Result
from pipeline.query.search.filtered import FilteredGraph, FilteredVectors, Work
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Entity, Relationship

LOOKED_INTO, LONGEST = 5, 50_000
"""Text units in which a name is looked for, and characters of each."""


@dataclass(frozen=True)
class NarrowedGraph(FilteredGraph):
    def entities(self, ids: Sequence[str]) -> list[Entity]:
        seen, whole = self._seen("entities", self.graph.entities(ids))
        told = whole | self._named([entity for entity in seen if entity.id not in whole])
        return [
            entity if entity.id in whole else replace(entity, description="", type="")
            for entity in seen
            if entity.id in told
        ]

    def _told(self, rows: Sequence[Relationship]) -> list[Relationship]:
        """Those between entities that may be named."""
        seen = super()._told(rows)
        ends = dict.fromkeys(chain.from_iterable((row.source_entity_id, row.target_entity_id) for row in seen))
        named = {entity.id for entity in self.entities(list(ends))}
        return [row for row in seen if {row.source_entity_id, row.target_entity_id} <= named]

    def _named(self, entities: Sequence[Entity]) -> set[str]:
        """The ids of those whose names stand in a text unit of the documents."""
        looked_into = {entity.id: list(entity.text_unit_ids)[:LOOKED_INTO] for entity in entities}
        openings = self.vectors.openings(list(dict.fromkeys(chain.from_iterable(looked_into.values()))), LONGEST)
        texts = {unit: _flat(f"{title}\n{text}") for unit, (title, text) in openings.items()}
        return {
            entity.id
            for entity in entities
            if any(_flat(entity.name) in texts.get(unit, "") for unit in looked_into[entity.id])
        }


def _flat(text: str) -> str:
    return " ".join(text.split()).casefold()


def narrowed(where: Conditions, read: ReadTogether) -> ReadTogether:
    """Reads of the documents of ``where`` alone."""

    def read_narrowed(work: Work[Result], /) -> tuple[Result, tuple[str, ...]]:
        def look(vectors: VectorReads, graph: GraphReads) -> Result:
            seen = FilteredVectors(vectors, (where,))
            return work(seen, NarrowedGraph(graph, seen))

        return read(look)

    return read_narrowed if where else read
