"""What a drawing reads of every graph store, on real servers, beside the same in plain Python."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.query.search.filtered import FilteredGraph, FilteredVectors
from pipeline.stores.records import Between, Community, Dot, Line
from pipeline.text.ids import entity_id
from tests.query.memory_stores import MemoryStores, of_documents, village
from tests.records import column
from tests.stores.communities import COLUMNS, community, load
from tests.stores.graphs import LIVE, Graph, LoadableGraph, edge, graph, node, random_graph

OpenGraph = Callable[..., LoadableGraph]


def dots(stored: Graph) -> list[Dot]:
    """By degree, then id."""
    rows = [
        Dot(row.id, row.display_name, row.entity_type, row.degree)
        for row in stored.nodes.itertuples()
    ]
    return sorted(rows, key=lambda dot: (-dot.degree, dot.id))


def lines(stored: Graph, ids: Sequence[str], ends: int) -> list[Line]:
    """Of which so many ends at least are among the ids."""
    degrees = {dot.id: dot.degree for dot in dots(stored)}
    found = []
    for row in stored.edges.itertuples():
        pair = (row.source_entity_id, row.target_entity_id)
        if sum(end in ids for end in pair) >= ends:
            rank = sum(degrees.get(end, 0) for end in pair) if ends == 1 else 0
            keyword = row.keywords[0] if row.keywords else ""
            found.append((-row.weight, -rank, row.id, Line(row.id, *pair, keyword, row.weight)))
    return [line for *_, line in sorted(found, key=lambda entry: entry[:3])]


@pytest.mark.parametrize("seed", range(2))
def test_reads_equal_a_plain_reference(open_graph: OpenGraph, seed: int):
    stored, other = random_graph(seed), random_graph(seed, content=1)
    opened, neighbour = open_graph("-one"), open_graph("-other")
    opened.load(stored)
    neighbour.load(other)
    reads, ids = opened.reads, [*stored.nodes["id"][:-12:-1], "ent-unknown"]
    by_id = {dot.id: dot for dot in dots(stored)}
    assert reads.dots(ids) == [by_id[id] for id in ids if id in by_id]
    for limit in (1, 5, 1000):
        assert reads.most_linked(limit) == dots(stored)[:limit]
        assert reads.lines_of(ids, limit) == lines(stored, ids, 1)[:limit]
        assert reads.lines_among(ids, limit) == lines(stored, ids, 2)[:limit]
    assert reads.dots([]) == []
    assert reads.lines_of([], 9) == []
    assert reads.lines_among([], 9) == []
    assert reads.most_linked(9, "com-1") == []
    assert reads.communities(["com-1"]) == []
    assert reads.parts_of("", 9) == []
    assert reads.between(["com-1"]) == []


def test_an_entity_is_found_by_words_of_its_name(open_graph: OpenGraph):
    opened = open_graph()
    names = [
        "Orvane",
        "New Orvane",
        "Orvane Coast",
        "Coast",
        "Ärmelkanal",
        "100%_\\ 'x'; --",
        "Idra  Vasterling",
    ]
    opened.load(graph([node(name) for name in names]))

    def found(text: str, limit: int = 9) -> list[str]:
        return column(opened.reads.named(text, limit), "name")

    assert found("ORVANE")[:2] == ["Orvane", "Orvane Coast"]
    assert sorted(found("orvane")) == ["New Orvane", "Orvane", "Orvane Coast"]
    assert found("coast  orv") == ["Orvane Coast"]
    assert found("ärmel") == ["Ärmelkanal"]
    assert found("100%_\\") == ["100%_\\ 'x'; --"]
    assert found("vasterling idra") == ["Idra  Vasterling"]
    assert found("'") == ["100%_\\ 'x'; --"]
    assert not found("%rvan_")
    assert len(found("o", limit=2)) == 2


@dataclass(frozen=True)
class Expected:
    rows: pd.DataFrame

    def communities(self, ids: Sequence[str]) -> list[Community]:
        parts = Counter(self.rows["parent"])
        found = [
            Community(
                row.id, row.level, row.parent, row.title, row.summary, row.size, parts[row.id]
            )
            for row in self.rows.itertuples()
            if row.id in ids
        ]
        return sorted(found, key=lambda found: (-found.size, found.id))

    def between(self, ids: Sequence[str], edges: pd.DataFrame) -> list[Between]:
        of = {
            member: row.id
            for row in self.rows.itertuples()
            if row.id in ids
            for member in row.entity_ids
        }
        count, weight = Counter(), Counter()
        for row in edges.itertuples():
            ends = tuple(
                sorted(of.get(id, "") for id in (row.source_entity_id, row.target_entity_id))
            )
            if ends[0] and ends[0] != ends[1]:
                count[ends] += 1
                weight[ends] += row.weight
        return sorted(
            (Between(*ends, count[ends], weight[ends]) for ends in count),
            key=lambda found: (-found.relationships, found.one_id, found.other_id),
        )


def test_communities_their_children_and_the_counts_between_them_are_read(open_graph: OpenGraph):
    opened, stored = open_graph(), random_graph(0)
    rows, _ = load(opened, 0)
    expected, reads, seen = Expected(rows), opened.reads, set()
    assert reads.communities(list(rows["id"])) == expected.communities(list(rows["id"]))
    for parent in ["", *rows["id"]]:
        children = list(rows.loc[rows["parent"] == parent, "id"])
        assert reads.parts_of(parent, 9) == expected.communities(children)
        assert reads.parts_of(parent, 1) == expected.communities(children)[:1]
        found = reads.between(children)
        assert found == expected.between(children, stored.edges)
        seen |= {parent} if found else set()
    assert "" in seen
    assert len(seen) > 1
    for row in rows.itertuples():
        assert (
            reads.most_linked(3, row.id)
            == [dot for dot in dots(stored) if dot.id in row.entity_ids][:3]
        )


def test_an_entity_has_the_place_that_was_loaded(open_graph: OpenGraph):
    opened, stored = open_graph(), graph([node("A"), node("B")])
    a, b = (row.id for row in stored.nodes.itertuples())

    def load_at(
        x: list[float], y: list[float]
    ) -> tuple[int, list[tuple[float | None, float | None]]]:
        counts = opened.load(Graph(stored.nodes.assign(x=x, y=y), stored.edges))
        return counts["nodes"]["updated"], [(dot.x, dot.y) for dot in opened.reads.dots([a, b])]

    assert load_at([0.25, np.nan], [-1.0, np.nan]) == (0, [(0.25, -1.0), (None, None)])
    assert load_at([0.25, np.nan], [-1.0, np.nan]) == (0, [(0.25, -1.0), (None, None)])
    assert load_at([np.nan, 0.5], [np.nan, 0.0]) == (2, [(None, None), (0.5, 0.0)])


def test_each_load_counts_relationships_between_communities_again(open_graph: OpenGraph):
    opened, stored = open_graph(), random_graph(0)
    rows, _ = load(opened, 0)
    coarsest = list(rows.loc[rows["parent"] == "", "id"])
    assert opened.reads.between(coarsest) == Expected(rows).between(coarsest, stored.edges) != []
    fewer = Graph(stored.nodes, stored.edges.iloc[::2])
    opened.load(fewer)
    assert opened.reads.between(coarsest) == Expected(rows).between(coarsest, fewer.edges)
    rows, _ = load(opened, 1)
    coarsest = list(rows.loc[rows["parent"] == "", "id"])
    assert opened.reads.between(coarsest) == Expected(rows).between(
        coarsest, random_graph(0, content=1).edges
    )
    opened.store.drop()
    assert opened.reads.between(coarsest) == []


def test_communities_of_two_levels_have_no_count_between_them_even_without_parents(
    open_graph: OpenGraph,
):
    opened, names = open_graph(), ["A", "B", "C"]
    stored = graph([node(name) for name in names], [edge("A", "B"), edge("B", "C")])
    ids = [entity_id(name) for name in names]
    whole, one, other = found = [community(0, ids), community(1, ids[:2]), community(1, ids[2:])]
    with opened.store.writing(LIVE) as writer:
        rows = {**stored.tables(opened.store), "communities": pd.DataFrame(found, columns=COLUMNS)}
        for table, frame in rows.items():
            writer.apply(table, diff(with_hashes(frame), writer.hashes(table)))
        writer.publish()
    assert opened.reads.between([whole[0], one[0], other[0]]) == [
        Between(*sorted([one[0], other[0]]), 1, 1.0)
    ]


def test_two_directions_are_two_lines_of_one_pair(open_graph: OpenGraph):
    opened = open_graph()
    opened.load(graph([node("A"), node("B")], [edge("A", "B"), edge("B", "A")]))
    assert len(opened.reads.lines_among([entity_id("A"), entity_id("B")], 9)) == 2
    assert len(opened.reads.lines_of([entity_id("A"), entity_id("B")], 9)) == 2


class Drawable(MemoryStores):
    """Stores in memory whose reads for drawings return all rows, whatever is asked for."""

    def most_linked(self, limit: int, community: str = "") -> list[Dot]:
        return [
            Dot(row.id, row.name, row.type, row.degree) for row in self.entity_rows.itertuples()
        ][:limit]

    def named(self, text: str, limit: int) -> list[Dot]:
        return self.most_linked(limit)

    def lines_of(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        rows = self.relationship_rows.itertuples()
        return [
            Line(row.id, row.source_entity_id, row.target_entity_id, row.keywords[0], row.weight)
            for row in rows
        ][:limit]

    lines_among = lines_of


def test_a_caller_of_some_documents_sees_a_drawing_of_these_only():
    stores = Drawable(
        *(getattr(village(), name) for name in ("chunk_rows", "entity_rows", "relationship_rows"))
    )
    seen = FilteredGraph(stores, FilteredVectors(stores, of_documents("doc-1")))
    assert (
        seen.most_linked(9)
        == seen.named("a", 9)
        == [Dot("ent-Ada", "Ada", "", 1), Dot("ent-Bea", "Bea", "", 2)]
    )
    assert seen.most_linked(1) == [Dot("ent-Ada", "Ada", "", 1)]
    assert seen.lines_of(["ent-Ada"], 9) == [
        Line("rel-Ada-Bea", "ent-Ada", "ent-Bea", "knows", 1.0)
    ]
    assert seen.lines_among(["ent-Ada", "ent-Bea"], 9) == seen.lines_of(["ent-Ada"], 9)
    assert seen.communities(["com-1"]) == []
    assert seen.parts_of("", 9) == []
    assert seen.between(["com-1"]) == []
