"""Read the nodes and edges of a GraphML file as rows of a table."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.documents.records import Fault, Record

NAMES = ("name", "label", "title")
"""The data of a node that may be its name, the best first; without one it is the node's id."""
TYPES = ("type", "label", "relationship", "relation")
"""The data of an edge that may be its type, the best first."""


def read_graphml(path: Path) -> Iterator[Record | Fault]:
    """Yield a row for each node that has data or stands alone, and for each edge.

    Nodes come first; rows are counted from 1 in the order of the file.
    """
    import networkx as nx

    # The parser raises errors of many kinds: of XML (SyntaxError), of a missing key, of a number.
    faults = (
        SyntaxError, nx.NetworkXException, LookupError, ValueError, TypeError, AttributeError,
        RecursionError,
    )  # fmt: skip
    try:
        graph: Any = nx.read_graphml(path)
    except faults as error:
        fact = str(error).splitlines()[0][:120] if str(error) else error.__class__.__name__
        yield Fault("parse", f"not GraphML ({fact}); write it again")
        return
    names: dict[Any, str] = {}
    line = 0
    for node, data in graph.nodes(data=True):
        names[node] = _first_of(data, NAMES) or str(node)
        line += 1
        rest = _without(data, NAMES)
        if rest or not graph.degree(node):
            yield Record(line, {**rest, "name": names[node]})
    for source, target, data in graph.edges(data=True):
        line += 1
        rest = {key: value for key, value in data.items() if key not in ("source", "target")}
        stated = _first_of(rest, TYPES)
        fields: dict[str, object] = {**_without(rest, TYPES)}
        fields |= {"source": names[source], "target": names[target]}
        if stated:
            fields["type"] = stated
        yield Record(line, fields)


def _first_of(data: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """Return the first of these data that is there, as a text."""
    for key in keys:
        text = str(data.get(key, "")).strip()
        if text:
            return text
    return ""


def _without(data: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the data without the first of these keys that is there.

    The id of an edge is that of the file's writer, who may number edges anew: it is no key.
    """
    used = next((key for key in keys if str(data.get(key, "")).strip()), "")
    return {key: value for key, value in data.items() if key not in (used, "id")}
