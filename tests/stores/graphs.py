"""Graphs to load into a store, and what the reads of a graph store must return, in plain Python."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.base import Live, Store
from pipeline.stores.postgres.database import field_names
from pipeline.stores.reads import GraphStore
from pipeline.stores.records import Entity, Link, Relationship, SharedUnit
from pipeline.text.ids import digest, entity_id, relationship_id
from tests.stores.sources import tables_of

LIVE = Live("index", "version 1", {"model": "m", "dimensions": 3}, 3)
NODE_COLUMNS = ["id", "display_name", "entity_type", "description", "source_id", "degree"]
EDGE_COLUMNS = [
    "id", "source_entity_id", "target_entity_id", "source", "target", "description", "weight",
    "type", "keywords",
    "source_id",
]  # fmt: skip


@dataclass(frozen=True)
class Graph:
    """Rows of nodes and edges, with their lists of sources."""

    nodes: pd.DataFrame
    edges: pd.DataFrame

    def tables(self, store: Store) -> Mapping[str, pd.DataFrame]:
        return tables_of(store, {"nodes": self.nodes, "edges": self.edges})


@dataclass(frozen=True)
class LoadableGraph:
    store: Store
    reads: GraphStore

    def load(self, graph: Graph, live: Live = LIVE) -> dict[str, dict[str, int]]:
        """What was written: table, as people call it -> counts."""
        counts = {}
        with self.store.writing(live) as writer:
            for table, rows in graph.tables(self.store).items():
                delta = diff(with_hashes(rows), writer.hashes(table))
                writer.apply(table, delta)
                counts[table.removeprefix("sourced_")] = delta.counts
            writer.publish()
        return counts

    def content(self) -> dict[str, Sequence[Any]]:
        """All that the store holds, as its reads tell it."""
        with self.store.writing(LIVE) as writer:
            graph_tables = [
                table for table in self.store.tables if table.endswith(("nodes", "edges"))
            ]
            nodes, edges = (
                sorted(writer.hashes(table)["id"].to_pylist()) for table in graph_tables
            )
        return {
            "entities": self.reads.entities(nodes),
            "relationships": self.reads.relationships(edges),
            "relationships_of": self.reads.relationships_of(nodes, 10_000),
            "shared_units": self.reads.shared_units(nodes),
        }


def node(
    name: str, type: str = "PERSON", units: Sequence[str] = (), description: str = ""
) -> tuple:
    return (entity_id(name), name, type, description or f"about {name}", list(units), 1)


def edge(
    source: str,
    target: str,
    type: str = "KNOWS",
    weight: float = 1.0,
    *,
    description: str = "",
    keywords: Sequence[str] | None = None,
    units: Sequence[str] = ("c1",),
) -> tuple:
    """Return a row of EDGE_COLUMNS."""
    ends = entity_id(source), entity_id(target)
    return (
        relationship_id(*ends),
        *ends,
        source,
        target,
        description or f"{source} and {target}",
        weight,
        type,
        [type.lower()] if keywords is None else list(keywords),
        list(units),
    )


def graph(nodes: Sequence[tuple], edges: Sequence[tuple] = ()) -> Graph:
    placed = pd.DataFrame(list(nodes), columns=NODE_COLUMNS).assign(x=np.nan, y=np.nan)
    placed = placed.assign(properties="")
    return Graph(placed, pd.DataFrame(list(edges), columns=EDGE_COLUMNS))


def random_graph(seed: int, n_nodes: int = 30, n_edges: int = 60, content: int = 0) -> Graph:
    """Graphs of equal seed and other ``content`` share many ids: about half of the rows differ."""
    shape, detail = random.Random(seed), random.Random(f"{seed}/{content}")
    names = [f"Name {number}" for number in range(n_nodes)]
    kept = [name for name in names if detail.random() < 0.8]
    units = [f"chunk-{digest(str(number))}" for number in range(12)]
    pairs = sorted({tuple(shape.sample(names, 2)) for _ in range(n_edges)})
    nodes = [
        (
            entity_id(name),
            name,
            detail.choice(["PERSON", "PLACE"]),
            f"about {name} {detail.choice(['', 'now'])}",
            detail.sample(units, detail.randint(0, 5)),
            detail.randint(0, 3),
        )
        for name in kept
    ]
    edges = [
        edge(
            source,
            target,
            description=f"{source} {detail.choice(['met', 'saw'])} {target}",
            weight=float(detail.randint(1, 3)),
            type=detail.choice(["MET", "SAW", "RELATED"]),
            keywords=detail.sample(["met", "saw", "heard"], detail.randint(0, 3)),
            units=detail.sample(units, detail.randint(1, 3)),
        )
        for source, target in pairs
        if source in kept and target in kept and detail.random() < 0.8
    ]
    return graph(nodes, edges)


def expected_entities(graph: Graph, ids: Sequence[str]) -> list[Entity]:
    rows = {
        row.id: Entity(
            row.id, row.display_name, row.entity_type, row.description, row.degree, row.source_id
        )
        for row in graph.nodes.itertuples()
    }
    return [rows[id] for id in ids if id in rows]


def expected_relationships(graph: Graph, ids: Sequence[str]) -> list[Relationship]:
    links = {link.id: link for link in _all_relationships(graph)}
    return [links[id] for id in ids if id in links]


def expected_relationships_of(
    graph: Graph, entity_ids: Sequence[str], limit: int
) -> list[Relationship]:
    links = _touching(graph, set(entity_ids))
    return sorted(links, key=lambda link: (-link.rank, -link.weight, link.id))[:limit]


def expected_shared_units(graph: Graph, entity_ids: Sequence[str]) -> list[SharedUnit]:
    units = dict(zip(graph.nodes["id"], graph.nodes["source_id"], strict=True))
    pairs = list(zip(graph.edges["source_entity_id"], graph.edges["target_entity_id"], strict=True))
    rows = []
    for id in sorted(set(entity_ids) & set(units)):
        neighbours = ({b for a, b in pairs if a == id} | {a for a, b in pairs if b == id}) - {id}
        shared = {
            unit: sum(unit in units[neighbour] for neighbour in neighbours)
            for unit in sorted(set(units[id]))
        }
        rows.extend(SharedUnit(id, unit, count) for unit, count in shared.items())
    return rows


def expected_links(graph: Graph, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
    degrees = dict(zip(graph.nodes["id"], graph.nodes["degree"], strict=True))
    few = {id for id in entity_ids if id in degrees and degrees[id] <= most}
    links = sorted(_touching(graph, few), key=lambda link: (link.rank, link.id))
    return [Link(link.id, link.source_entity_id, link.target_entity_id) for link in links[:limit]]


def _touching(graph: Graph, ids: Collection[str]) -> list[Relationship]:
    """Return the relationships that start or end at one of the entities."""
    return [
        link
        for link in _all_relationships(graph)
        if link.source_entity_id in ids or link.target_entity_id in ids
    ]


def _all_relationships(graph: Graph) -> list[Relationship]:
    """Return all edges as records, which take the columns of their fields' names."""
    degrees = dict(zip(graph.nodes["id"], graph.nodes["degree"], strict=True))
    links = []
    for row in graph.edges.to_dict("records"):
        rank = degrees[row["source_entity_id"]] + degrees[row["target_entity_id"]]
        values = {**row, "rank": rank, "text_unit_ids": row["source_id"]}
        links.append(Relationship(**{name: values[name] for name in field_names(Relationship)}))
    return links
