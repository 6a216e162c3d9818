"""The kinds of export, by name; CSV for people, and GraphML."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from pipeline.errors import UsageError
from pipeline.export.graphrag_parquet import write_graphrag_parquet
from pipeline.export.neo4j_admin import write_neo4j_admin
from pipeline.export.source import GRAPH, ExportReport, ExportSource, check_folder, joined, write_rows
from pipeline.files import new_file
from pipeline.text.ids import clean

if TYPE_CHECKING:
    import networkx as nx


NAME = "graph.graphml"
SEPARATOR = "; "
_NO_XML = re.compile("[\ufffe\uffff]")

NODE_COLUMNS = ["name", "type", "types", "description", "frequency", "degree", "text_unit_ids"]
EDGE_COLUMNS = ["source", "target", "keywords", "description", "weight", "rank", "text_unit_ids"]
TEXT, INT, FLOAT = pa.large_string(), pa.int64(), pa.float64()


def write_graphml(source: ExportSource, folder: Path) -> ExportReport:
    """graph.graphml: directed, nodes and edges by their ids, lists as joined texts. The whole graph is in memory.

    Raises UsageError without a graph.
    """
    import networkx as nx

    source.require(*GRAPH)
    graph = _graph(source)
    with new_file(folder / NAME) as path:
        nx.write_graphml(graph, path, encoding="utf-8")
    return ExportReport("graphml", folder, {NAME: graph.number_of_nodes() + graph.number_of_edges()})


def _graph(source: ExportSource) -> "nx.MultiDiGraph":
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


@dataclass(frozen=True)
class _File:
    """``lists``: the columns whose cells are lists, joined by SEPARATOR."""

    table: str
    columns: Mapping[str, pa.DataType]
    lists: tuple[str, ...] = ()

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{name: joined(frame[name], SEPARATOR) for name in self.lists})


FILES = {
    "nodes.csv": _File(
        "entities",
        {
            "id": TEXT, "name": TEXT, "type": TEXT, "description": TEXT, "frequency": INT, "degree": INT,
            "text_unit_ids": TEXT,
        },
        ("text_unit_ids",),
    ),
    "edges.csv": _File(
        "relationships",
        {
            "id": TEXT, "source": TEXT, "target": TEXT, "source_entity_id": TEXT, "target_entity_id": TEXT,
            "keywords": TEXT, "description": TEXT, "weight": FLOAT, "rank": INT, "text_unit_ids": TEXT,
        },
        ("keywords", "text_unit_ids"),
    ),
    "documents.csv": _File("documents", {"id": TEXT, "title": TEXT, "source": TEXT, "metadata": TEXT}),
    "text_units.csv": _File(
        "text_units",
        {"id": TEXT, "document_id": TEXT, "order": INT, "start": INT, "end": INT, "n_tokens": INT, "text": TEXT},
    ),
}  # fmt: skip


def write_csv(source: ExportSource, folder: Path) -> ExportReport:
    """documents.csv and text_units.csv only where the workflow has such tables. Raises UsageError without a graph."""
    source.require(*GRAPH)
    files = {name: file for name, file in FILES.items() if source.has(file.table)}
    return ExportReport("csv", folder, {name: _write(source, folder, name, file) for name, file in files.items()})


def _write(source: ExportSource, folder: Path, name: str, file: _File) -> int:
    frames = map(file.rows, source.batches(file.table, list(file.columns)))
    return write_rows(folder, name, pa.schema(list(file.columns.items())), frames)


KINDS: Mapping[str, Callable[[ExportSource, Path], ExportReport]] = {
    "graphml": write_graphml,
    "csv": write_csv,
    "neo4j-admin": write_neo4j_admin,
    "parquet": write_graphrag_parquet,
}


def export(kind: str, source: ExportSource, folder: Path, force: bool = False) -> ExportReport:
    """Write the source's tables below the folder, made if need be.

    Raises UsageError for an unknown kind, a folder that is not empty (unless ``force``) or not to be written to, and
    tables that are not there; DataError when a snapshot is damaged.
    """
    if kind not in KINDS:
        raise UsageError(f"export: no kind '{kind}'; have: {', '.join(KINDS)}")
    try:
        check_folder(folder, force)
        return KINDS[kind](source, folder)
    except OSError as error:
        raise UsageError(f"export: {folder}: {error.strerror or error}; name a folder you may write to") from error
