"""CSV of communities for Neo4j's import tool."""

from collections.abc import Iterator, Mapping

import pandas as pd
import pyarrow as pa

from pipeline.export.source import Source
from pipeline.load.community_rows import communities
from pipeline.load.diff import with_hashes
from pipeline.schemas import COMMUNITIES, COMMUNITY_REPORTS
from pipeline.stores.lists import frame_of, lengths_of
from pipeline.stores.neo4j_rows import members, parents

TEXT, INT, FLOAT = pa.large_string(), pa.int64(), pa.float64()
NODES: Mapping[str, pa.DataType] = {
    "id:ID": TEXT, ":LABEL": TEXT, "level:long": INT, "parent": TEXT, "title": TEXT, "summary": TEXT,
    "rating:double": FLOAT, "weight:long": INT, "size:long": INT, "entity_count:long": INT, "row_hash": TEXT,
    "workspace": TEXT,
}  # fmt: skip
LINKS: Mapping[str, pa.DataType] = {":START_ID": TEXT, ":END_ID": TEXT, ":TYPE": TEXT}


def community_rows(source: Source) -> pd.DataFrame:
    """As a load has them, with their hashes."""
    found = frame_of(source.table("communities"))
    has_reports = source.has("community_reports")
    told = frame_of(source.table("community_reports")) if has_reports else COMMUNITY_REPORTS.frame()
    return with_hashes(communities(found[COMMUNITIES.columns], told))


def community_nodes(rows: pd.DataFrame, source: Source) -> pd.DataFrame:
    counted = {"entity_count:long": lengths_of(rows["entity_ids"]), ":LABEL": "Community"}
    types = {"id": "id:ID", "level": "level:long", "rating": "rating:double", "weight": "weight:long"}
    renamed = rows.rename(columns={**types, "size": "size:long"})
    return renamed.assign(workspace=source.workspace, **counted)[list(NODES)]


def community_links(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """IN_COMMUNITY of its entities, and PARENT."""
    ends = {"entity_id": ":START_ID", "id": ":END_ID"}
    yield members(rows).rename(columns=ends).assign(**{":TYPE": "IN_COMMUNITY"})
    yield parents(rows).rename(columns={"id": ":START_ID", "parent": ":END_ID"}).assign(**{":TYPE": "PARENT"})
