"""Rows of the tables the graph verbs read, written short."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import networkx as nx
import pandas as pd

from pipeline.contract.schemas import (
    DESCRIBED_ENTITIES,
    DESCRIBED_RELATIONSHIPS,
    ENTITIES,
    EXTRACTIONS,
    RELATIONSHIPS,
    TEXT_UNITS,
)
from pipeline.text.ids import entity_id, relationship_id

Record = Mapping[str, Any]


def entity(name: str, type: str = "PERSON", description: str = "", weight: float = 1.0) -> Record:
    return {
        "kind": "entity",
        "name": name,
        "type": type,
        "description": description,
        "weight": weight,
    }


def link(
    source: str,
    target: str,
    description: str = "",
    keywords: Sequence[str] = (),
    weight: float = 1.0,
) -> Record:
    return {
        "kind": "relationship", "source": source, "target": target, "description": description,
        "keywords": list(keywords), "weight": weight,
    }  # fmt: skip


def extractions(units: Mapping[str, Sequence[Record]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return extractions and text units; the id of a unit is ``document/order``."""
    blank = {
        "name": "",
        "type": "",
        "source": "",
        "target": "",
        "description": "",
        "keywords": [],
        "grounded": True,
    }
    rows = [
        {**blank, **record, "text_unit_id": unit, "order": order}
        for unit, records in units.items()
        for order, record in enumerate(records)
    ]
    return EXTRACTIONS.frame(rows), text_units(units)


def text_units(names: Iterable[str]) -> pd.DataFrame:
    rows = []
    for name in names:
        document, _, order = name.partition("/")
        rows.append((name, f"text of {name}", 3, document, 0, 10, int(order)))
    return TEXT_UNITS.frame(rows)


def described(graph: nx.DiGraph) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the nodes and edges of the graph as described entities and relationships."""
    entities = [
        {
            "id": entity_id(name), "name": name, "type": "PERSON", "types": [],
            "description": f"about {name}", "text_unit_ids": [f"unit-of-{name}"], "frequency": 1,
        }
        for name in graph.nodes
    ]  # fmt: skip
    relationships = [
        {
            "id": relationship_id(entity_id(source), entity_id(target)), "source": source,
            "target": target,
            "source_entity_id": entity_id(source), "target_entity_id": entity_id(target),
            "description": "knows", "keywords": ["knows", "friends"], "weight": float(weight),
            "text_unit_ids": [f"unit-of-{source}"],
        }
        for source, target, weight in graph.edges(data="weight", default=1)
    ]  # fmt: skip
    return DESCRIBED_ENTITIES.frame(entities), DESCRIBED_RELATIONSHIPS.frame(relationships)


def ranked(graph: nx.DiGraph) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the graph as entities with their degrees, and relationships."""
    entities, relationships = described(graph)
    degree = {entity_id(name): len(set(nx.all_neighbors(graph, name))) for name in graph.nodes}
    with_degrees = entities.assign(degree=entities["id"].map(degree).astype("int64"))
    return ENTITIES.frame(with_degrees.to_dict("records")), RELATIONSHIPS.frame(
        relationships.to_dict("records")
    )


def towns() -> nx.DiGraph:
    """Return three towns of twelve people, two of them joined by a road, and a hermit."""
    whole = nx.DiGraph()
    for town in ("a", "b", "c"):
        people = nx.connected_watts_strogatz_graph(12, 4, 0.3, seed=ord(town))
        whole.add_edges_from(
            (f"{town}{one}", f"{town}{other}", {"weight": 2}) for one, other in people.edges
        )
    whole.add_edge("a0", "b0", weight=1)
    whole.add_node("hermit")
    return whole
