"""GraphML, written by networkx: Gephi, yEd, Cytoscape and networkx open it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.export.exported import Exported, new_file
from pipeline.export.source import GRAPH, Source
from pipeline.text import clean

if TYPE_CHECKING:
    import networkx as nx

NAME = "graph.graphml"
SEPARATOR = "; "
_NO_XML = re.compile("[\ufffe\uffff]")

NODE_COLUMNS = ["name", "type", "types", "description", "frequency", "degree", "text_unit_ids"]
EDGE_COLUMNS = ["source", "target", "keywords", "description", "weight", "rank", "text_unit_ids"]


def write_graphml(source: Source, folder: Path) -> Exported:
    """graph.graphml: directed, nodes and edges by their ids, lists as joined texts. The whole graph is in memory.

    Raises UsageError without a graph.
    """
    import networkx as nx

    source.require(*GRAPH)
    graph = _graph(source)
    with new_file(folder, NAME) as path:
        nx.write_graphml(graph, path, encoding="utf-8")
    return Exported("graphml", folder, {NAME: graph.number_of_nodes() + graph.number_of_edges()})


def _graph(source: Source) -> "nx.MultiDiGraph":
    """``label`` is what Gephi shows."""
    import networkx as nx

    graph: nx.MultiDiGraph = nx.MultiDiGraph()
    for entities in source.batches("entities", ["id", *NODE_COLUMNS]):
        for row in entities.to_dict("records"):
            cells = _attributes(row, NODE_COLUMNS)
            graph.add_node(_xml_text(row["id"]), label=cells["name"], **cells)
    for links in source.batches("relationships", ["id", "source_entity_id", "target_entity_id", *EDGE_COLUMNS]):
        for row in links.to_dict("records"):
            ends = _xml_text(row["source_entity_id"]), _xml_text(row["target_entity_id"])
            cells = _attributes(row, EDGE_COLUMNS)
            renamed = {"source_name": cells.pop("source"), "target_name": cells.pop("target")}
            graph.add_edge(*ends, key=_xml_text(row["id"]), **renamed, **cells)
    return graph


def _attributes(row: Mapping[Any, Any], columns: list[str]) -> dict[str, Any]:
    return {name: _attribute(row[name]) for name in columns}


def _attribute(cell: Any) -> Any:
    if isinstance(cell, int | float):
        return cell
    return _xml_text(cell if isinstance(cell, str) else SEPARATOR.join(map(_item, cell)))


def _item(item: Any) -> str:
    """An item of a list; of ``types``: the type and its count."""
    return item if isinstance(item, str) else f"{item['type']} ({item['count']})"


def _xml_text(text: str) -> str:
    """Without the characters that XML cannot hold, whatever verb has made it."""
    return _NO_XML.sub("", clean(text))
