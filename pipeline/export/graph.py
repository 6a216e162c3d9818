"""Builds the knowledge graph in networkx, with attributes that any format can hold, and writes it
as GraphML."""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pipeline.export.memberships import memberships
from pipeline.export.properties import Properties
from pipeline.export.source import GRAPH, ExportReport, ExportSource
from pipeline.export.statements import with_statements
from pipeline.files import new_file
from pipeline.stores.neo4j.rows import PREFIX
from pipeline.text.ids import clean

if TYPE_CHECKING:
    import networkx as nx

NAME = "graph.graphml"
SEPARATOR = "; "
ENDS = ["source_entity_id", "target_entity_id"]
NAMES_OF_ENDS = {"source": "source_name", "target": "target_name"}
"""New names of the columns with the names of both ends: file formats use "source" and "target"
themselves."""
_NO_XML = re.compile("[\ufffe\uffff]")


def write_graphml(source: ExportSource, folder: Path) -> ExportReport:
    """Write graph.graphml: a directed graph, with the ids of entities and relationships.

    The whole graph is in memory. Raises UsageError if the workflow makes no graph.
    """
    import networkx as nx

    graph = graph_of(source)
    with new_file(folder / NAME) as path:
        nx.write_graphml(graph, path, encoding="utf-8")
    written = graph.number_of_nodes() + graph.number_of_edges()
    return ExportReport("graphml", folder, {NAME: written})


def graph_of(
    source: ExportSource, only: Collection[str] | None = None, *, stated: bool = True
) -> "nx.MultiDiGraph":
    """Return the graph: nodes by the ids of entities, edges keyed by the ids of relationships.

    ``only``: the entities to take, with the relationships between them; by default all. The
    attributes are the columns of both tables and those of ``memberships``, as texts and numbers. A
    list becomes one text, and an attribute without a value is left out. Nodes have a ``label``,
    which Gephi shows; names of their properties begin with PREFIX. ``stated``: the attribute
    ``statements`` of an edge is a JSON list of its statements, if it has any. Raises UsageError if
    the workflow makes no graph.
    """
    import networkx as nx

    source.require(*GRAPH)
    graph: nx.MultiDiGraph = nx.MultiDiGraph()
    communities_and_places = memberships(source)
    properties = Properties(source)
    for entities in source.batches("entities"):
        taken = entities if only is None else entities[entities["id"].isin(only)]
        nodes = taken.join(communities_and_places, on="id")
        for row in nodes.to_dict("records"):
            id = row.pop("id")
            attributes: dict[Any, Any] = {"label": row["name"], **row}
            for name, value in properties.of_entity.get(id, {}).items():
                attributes[f"{PREFIX}{name}"] = value
            graph.add_node(_xml_text(id), **_to_attributes(attributes))
    batches = source.batches("relationships")
    if stated:
        batches = with_statements(batches, source)
    for links in batches:
        taken = links
        if only is not None:
            are_both_ends_taken = links[ENDS].isin(only).all(axis=1)
            taken = links[are_both_ends_taken]
        edges = taken.rename(columns=NAMES_OF_ENDS)
        for row in edges.to_dict("records"):
            statements = row.pop("statements", [])
            if statements:
                # Each of them is the JSON of one statement.
                row["statements"] = f"[{', '.join(statements)}]"
            id, one, other = (_xml_text(row.pop(name)) for name in ("id", *ENDS))
            graph.add_edge(one, other, key=id, **_to_attributes(row))
    return graph


def without_parallels(graph: "nx.MultiDiGraph") -> "nx.DiGraph":
    """Return the graph with at most one edge from a node to another: any algorithm accepts it.

    The id of an edge becomes its attribute ``id``. Of parallel edges, the last one stays.
    """
    import networkx as nx

    simple: nx.DiGraph = nx.DiGraph()
    simple.add_nodes_from(graph.nodes(data=True))
    for one, other, id, attributes in graph.edges(keys=True, data=True):
        simple.add_edges_from([(one, other, {"id": id, **attributes})])
    return simple


def _to_attributes(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the cells of a row as attributes, without missing ones."""
    attributes: dict[str, Any] = {}
    for name, cell in row.items():
        value = _to_attribute(cell)
        if value is not None:
            attributes[_xml_text(str(name))] = value
    return attributes


def _to_attribute(cell: Any) -> str | int | float | None:
    """Return a cell as a text or a number; None for a missing value."""
    if isinstance(cell, str):
        return _xml_text(cell)
    if isinstance(cell, Mapping):
        return _xml_text(json.dumps(cell, ensure_ascii=False, default=str))
    if pd.api.types.is_list_like(cell):
        items = map(_format_item, cell)
        return _xml_text(SEPARATOR.join(items))
    if pd.isna(cell):
        return None
    return cell if isinstance(cell, int | float) else str(cell)


def _format_item(item: Any) -> str:
    """Return an item of a list as text; an item of ``types`` is a type with its count."""
    if isinstance(item, Mapping):
        return f"{item['type']} ({item['count']})"
    return str(item)


def _xml_text(text: str) -> str:
    """Return a text without the characters that XML cannot hold."""
    return _NO_XML.sub("", clean(text))
