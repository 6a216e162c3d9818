"""The knowledge graph as networkx has it, in attributes that any format can hold; GraphML."""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.export.memberships import memberships
from pipeline.export.source import GRAPH, ExportReport, ExportSource
from pipeline.files import new_file
from pipeline.text.ids import clean

if TYPE_CHECKING:
    import networkx as nx

NAME = "graph.graphml"
SEPARATOR = "; "
ENDS = ["source_entity_id", "target_entity_id"]
NAMES_OF_ENDS = {"source": "source_name", "target": "target_name"}
"""Formats have a source and a target of their own."""
_NO_XML = re.compile("[\ufffe\uffff]")


def write_graphml(source: ExportSource, folder: Path) -> ExportReport:
    """graph.graphml: directed, nodes and edges by their ids. The whole graph is in memory.

    Raises UsageError without a graph.
    """
    import networkx as nx

    graph = graph_of(source)
    with new_file(folder / NAME) as path:
        nx.write_graphml(graph, path, encoding="utf-8")
    return ExportReport(
        "graphml", folder, {NAME: graph.number_of_nodes() + graph.number_of_edges()}
    )


def graph_of(source: ExportSource, only: Collection[str] | None = None) -> "nx.MultiDiGraph":
    """Nodes and edges by the ids of entities and relationships, ``only``: those of, and between,
    these entities.

    Attributes are the columns of their tables, and ``memberships``, as texts and numbers alone: a
    list is joined, a cell without a value lacks. ``label`` is what Gephi shows. Raises UsageError
    without a graph.
    """
    import networkx as nx

    source.require(*GRAPH)
    graph: nx.MultiDiGraph = nx.MultiDiGraph()
    beside = memberships(source)
    for entities in source.batches("entities"):
        chosen = entities if only is None else entities[entities["id"].isin(only)]
        for row in chosen.join(beside, on="id").to_dict("records"):
            graph.add_node(_xml_text(row.pop("id")), **_attributes({"label": row["name"], **row}))
    for links in source.batches("relationships"):
        chosen = links if only is None else links[links[ENDS].isin(only).all(axis=1)]
        for row in chosen.rename(columns=NAMES_OF_ENDS).to_dict("records"):
            id, one, other = (_xml_text(row.pop(name)) for name in ("id", *ENDS))
            graph.add_edge(one, other, key=id, **_attributes(row))
    return graph


def without_parallels(graph: "nx.MultiDiGraph") -> "nx.DiGraph":
    """One edge from one node to another, its ``id`` an attribute: so simple that every algorithm
    takes it."""
    import networkx as nx

    simple: nx.DiGraph = nx.DiGraph()
    simple.add_nodes_from(graph.nodes(data=True))
    links = graph.edges(keys=True, data=True)
    simple.add_edges_from((one, other, {"id": id, **told}) for one, other, id, told in links)
    return simple


def _attributes(row: Mapping[Any, Any]) -> dict[str, Any]:
    cells = {str(name): _attribute(cell) for name, cell in row.items()}
    return {name: cell for name, cell in cells.items() if cell is not None}


def _attribute(cell: Any) -> str | int | float | None:
    if isinstance(cell, str):
        return _xml_text(cell)
    if isinstance(cell, Mapping):
        return _xml_text(json.dumps(cell, ensure_ascii=False, default=str))
    if pd.api.types.is_list_like(cell):
        return _xml_text(SEPARATOR.join(map(_item, cell)))
    if pd.isna(cell):
        return None
    return cell if isinstance(cell, int | float) else str(cell)


def _item(item: Any) -> str:
    """An item of a list; of ``types``: the type and its count."""
    return f"{item['type']} ({item['count']})" if isinstance(item, Mapping) else str(item)


def _xml_text(text: str) -> str:
    """Without the characters that XML cannot hold, whatever verb has made it."""
    return _NO_XML.sub("", clean(text))
