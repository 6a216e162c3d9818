"""Writes CSV files for Neo4j's import tool, with nodes, relationships and communities as a load
writes them."""

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa

from pipeline.contract.schemas import COMMUNITIES, COMMUNITY_REPORTS, LAYOUT
from pipeline.export.properties import Properties
from pipeline.export.source import GRAPH, ExportReport, ExportSource, joined, write_rows
from pipeline.export.statements import with_statements
from pipeline.files import new_file
from pipeline.load.projection import (
    communities,
    edge_types,
    most_frequent,
    placed,
    sourced_edges,
    sourced_nodes,
)
from pipeline.load.row_hashes import with_hashes
from pipeline.stores.list_columns import frame_of, lengths_of
from pipeline.stores.neo4j.rows import cap_sources, members, name_key, parents

TEXT, INT, FLOAT = pa.large_string(), pa.int64(), pa.float64()
COMMUNITY_NODES: Mapping[str, pa.DataType] = {
    "id:ID": TEXT, ":LABEL": TEXT, "level:long": INT, "parent": TEXT, "title": TEXT,
    "summary": TEXT,
    "rating:double": FLOAT, "weight:long": INT, "size:long": INT, "entity_count:long": INT,
    "row_hash": TEXT,
    "workspace": TEXT,
}  # fmt: skip
LINKS: Mapping[str, pa.DataType] = {":START_ID": TEXT, ":END_ID": TEXT, ":TYPE": TEXT}
UNIT = "\x1f"
"""The separator of items in a list. The import tool cannot escape a separator, and no cleaned text
has this character."""
_UNIT_NAME = "U+001F"
_LARGEST_FIELD = "64m"
NODES: Mapping[str, pa.DataType] = {
    "id:ID": TEXT, ":LABEL": TEXT, "displayName": TEXT, "name_key": TEXT, "description": TEXT,
    "entity_type": TEXT, "source_id:string[]": TEXT, "source_count:long": INT, "degree:long": INT,
    "x:double": FLOAT, "y:double": FLOAT, "row_hash": TEXT, "workspace": TEXT,
}  # fmt: skip
EDGES: Mapping[str, pa.DataType] = {
    "id": TEXT, ":START_ID": TEXT, ":END_ID": TEXT, ":TYPE": TEXT, "description": TEXT,
    "keywords:string[]": TEXT,
    "weight:double": FLOAT, "source_id:string[]": TEXT, "source_count:long": INT, "row_hash": TEXT,
    "workspace": TEXT,
}  # fmt: skip
STATEMENTS = "statements:string[]"
"""A further column of EDGES if the workflow makes statements: a list of JSON objects."""


def community_rows(source: ExportSource) -> pd.DataFrame:
    """Return the rows of communities as a load makes them, with their hashes."""
    found = frame_of(source.table("communities"))
    if source.has("community_reports"):
        reports = frame_of(source.table("community_reports"))
    else:
        reports = COMMUNITY_REPORTS.frame()
    return with_hashes(communities(found[COMMUNITIES.columns], reports))


def community_nodes(rows: pd.DataFrame, source: ExportSource) -> pd.DataFrame:
    """Return the rows of communities in the columns COMMUNITY_NODES."""
    renamed = {
        "id": "id:ID",
        "level": "level:long",
        "rating": "rating:double",
        "weight": "weight:long",
        "size": "size:long",
    }
    nodes = rows.rename(columns=renamed)
    nodes["workspace"] = source.workspace
    nodes["entity_count:long"] = lengths_of(rows["entity_ids"])
    nodes[":LABEL"] = "Community"
    return nodes[list(COMMUNITY_NODES)]


def community_links(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the relationships of communities: IN_COMMUNITY from entities, PARENT to communities."""
    memberships = members(rows).rename(columns={"entity_id": ":START_ID", "id": ":END_ID"})
    yield memberships.assign(**{":TYPE": "IN_COMMUNITY"})
    hierarchy = parents(rows).rename(columns={"id": ":START_ID", "parent": ":END_ID"})
    yield hierarchy.assign(**{":TYPE": "PARENT"})


def write_neo4j_admin(source: ExportSource, folder: Path) -> ExportReport:
    """Write nodes.csv and relationships.csv, and for communities also communities.csv and
    community_links.csv.

    The header of each file is in a file of its own. The report's ``command`` imports them. A load
    into the database after the import writes only the rows with an empty list. Raises UsageError if
    the workflow makes no graph.
    """
    source.require(*GRAPH)
    has_communities = source.has("communities")
    kept = _count_kept_types(source)
    layout = frame_of(source.table("layout")) if source.has("layout") else LAYOUT.frame()
    links = source.batches("relationships")
    edges = EDGES
    if source.has("statements"):
        links = with_statements(links, source)
        edges = {**EDGES, STATEMENTS: TEXT}
    properties = Properties(source)
    node_columns = {**NODES, **properties.columns}
    node_frames = (
        _node_rows(frame, layout, properties, source) for frame in source.batches("entities")
    )
    edge_frames = (_edge_rows(frame, kept, source) for frame in links)
    files = _write_with_header(folder, "nodes", node_columns, node_frames)
    files |= _write_with_header(folder, "relationships", edges, edge_frames)
    if has_communities:
        rows = community_rows(source)
        nodes = iter([community_nodes(rows, source)])
        files |= _write_with_header(folder, "communities", COMMUNITY_NODES, nodes)
        files |= _write_with_header(folder, "community_links", LINKS, community_links(rows))
    return ExportReport("neo4j-admin", folder, files, import_command(folder, has_communities))


def import_command(folder: Path, with_communities: bool = False) -> str:
    """Return the command that imports the files, for a shell on the database's machine.

    The names of files are relative to the folder. So the folder's name, which may have special
    characters, is no argument of the import tool.
    """
    options = " ".join(import_options(with_communities))
    return f"cd {shlex.quote(str(folder))} && neo4j-admin database import full neo4j {options}"


def import_options(with_communities: bool = False) -> list[str]:
    """Return the options of the import tool for these files."""
    options = [
        "--nodes=nodes_header.csv,nodes.csv",
        "--relationships=relationships_header.csv,relationships.csv",
    ]
    if with_communities:
        options += [
            "--nodes=communities_header.csv,communities.csv",
            "--relationships=community_links_header.csv,community_links.csv",
        ]
    return [
        *options,
        f"--array-delimiter={_UNIT_NAME}",
        "--multiline-fields=true",
        f"--read-buffer-size={_LARGEST_FIELD}",
    ]


def _write_with_header(
    folder: Path, name: str, columns: Mapping[str, pa.DataType], frames: Iterator[pd.DataFrame]
) -> dict[str, int]:
    """Write NAME_header.csv and NAME.csv; return the number of rows of each, 0 for the header."""
    header_name = f"{name}_header.csv"
    with new_file(folder / header_name) as path:
        path.write_text(",".join(columns) + "\n", encoding="utf-8")
    rows_name = f"{name}.csv"
    schema = pa.schema(list(columns.items()))
    n_rows = write_rows(folder, rows_name, schema, frames, header=False)
    return {header_name: 0, rows_name: n_rows}


def _count_kept_types(source: ExportSource) -> Collection[str]:
    """Return the most frequent relationship types, as many as the source keeps."""
    counts: Counter[str] = Counter()
    for frame in source.batches("relationships", ["keywords"]):
        counts.update(edge_types(frame["keywords"]))
    return most_frequent(counts, source.max_types)


def _node_rows(
    entities: pd.DataFrame, layout: pd.DataFrame, properties: Properties, source: ExportSource
) -> pd.DataFrame:
    """Return the nodes of entities in the columns NODES, and those of their properties.

    A node without the hash of its row is written again by the next load: so is one with a property
    that the file cannot hold.
    """
    nodes = placed(sourced_nodes(entities), layout)
    nodes = nodes.assign(properties=[properties.dump(id) for id in nodes["id"]])
    rows = _as_stored(nodes, ["source_id"], source)
    incomplete_ids = properties.find_incomplete(list(rows["id"]))
    is_incomplete = rows["id"].isin(incomplete_ids)
    rows["row_hash"] = rows["row_hash"].mask(is_incomplete, "")
    rows = properties.add_columns(rows, UNIT)
    rows["name_key"] = rows["display_name"].map(name_key)
    rows[":LABEL"] = [f"Entity{UNIT}{label}" for label in rows["entity_type"]]
    rows["source_id:string[]"] = _join_items(rows["source_id"])
    renamed = {
        "id": "id:ID",
        "display_name": "displayName",
        "degree": "degree:long",
        "x": "x:double",
        "y": "y:double",
    }
    return rows.rename(columns=renamed)[[*NODES, *properties.columns]]


def _edge_rows(links: pd.DataFrame, kept: Collection[str], source: ExportSource) -> pd.DataFrame:
    """Return the edges of relationships in the columns EDGES, and STATEMENTS if they have any."""
    rows = _as_stored(sourced_edges(links, kept), ["keywords", "source_id"], source)
    rows["keywords:string[]"] = _join_items(rows["keywords"])
    rows["source_id:string[]"] = _join_items(rows["source_id"])
    renamed = {
        "source_entity_id": ":START_ID",
        "target_entity_id": ":END_ID",
        "type": ":TYPE",
        "weight": "weight:double",
    }
    edges = rows.rename(columns=renamed)[list(EDGES)]
    if "statements" in links.columns:
        statements_of = links.set_index("id")["statements"]
        edges[STATEMENTS] = _join_items(edges["id"].map(statements_of))
    return edges


def _as_stored(rows: pd.DataFrame, lists: list[str], source: ExportSource) -> pd.DataFrame:
    """Return rows with the columns that a load adds: their hash, source_count and workspace.

    The hash is "" for a row with an empty one of ``lists``: the import tool makes no property of an
    empty list. Without its hash, the next load writes the row again.
    """
    hashed = with_hashes(rows)
    is_empty = [rows[name].map(len) == 0 for name in lists]
    has_empty_list = pd.concat(is_empty, axis=1).any(axis=1)
    stored = cap_sources(hashed, source.max_source_ids)
    stored["row_hash"] = hashed["row_hash"].mask(has_empty_list, "")
    stored["source_count:long"] = rows["source_id"].map(len)
    stored["workspace"] = source.workspace
    return stored


def _join_items(lists: pd.Series) -> list[str]:
    """Return each list of texts as one cell for the import tool."""
    # A text with the separator in it would become two items.
    without_separator = [[item.replace(UNIT, "") for item in items] for items in lists]
    return joined(without_separator, UNIT)
