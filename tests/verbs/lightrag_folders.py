"""The index that LightRAG 1.5.7 made of five made-up documents; make_lightrag_index.py makes it."""

from pathlib import Path
from typing import Any

import networkx as nx

INDEX = Path(__file__).parent / "lightrag_1_5_7"
GRAPH = "graph_chunk_entity_relation.graphml"
BY_HAND = {"source_id": "manual_creation", "file_path": "manual_creation"}


def edit_graph(folder: Path) -> None:
    """Edit the graph of an index as LightRAG's page does: make, rename and describe."""
    path = folder / GRAPH
    graph: Any = nx.read_graphml(path)
    graph = nx.relabel_nodes(graph, {"Tide Book": "Book of Tides"})
    graph.nodes["周明"]["entity_type"] = "keeper"
    graph.edges["Otto Brun", "Tessing"]["description"] = "He left for good."
    graph.add_edge(
        "Ida Vale", "Ada Holm", keywords="friendship,life", description="Friends.", weight=1.0,
        **BY_HAND,
    )  # fmt: skip
    graph.add_edge(
        "Hand-made Bell", "Skarrow Lamp", keywords="place", description="It hangs by it.",
        weight=1.0, **BY_HAND,
    )  # fmt: skip
    graph.add_node("Lonely Rock", entity_type="location", description="A rock.", **BY_HAND)
    graph.remove_node("林秋雁")
    nx.write_graphml(graph, path)
