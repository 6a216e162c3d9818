"""The PostgreSQL tables: `lightrag_*` as users of the data know them, the graph, and what is live.

The tables with vectors are partitioned by workspace over a column without dimensions: workspaces
may use different models, and an index never has to filter other workspaces' rows out.
``embedding_key`` tells the vectors of one model from those of another, so that an index holds one
model's only. The lists of sources are partitioned too, for the index over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import ARRAY, BigInteger, Column, Double, Index, Integer, MetaData, Table, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB

from pipeline.text.ids import digest

if TYPE_CHECKING:  # it loads tables
    from pipeline.stores.binary_copy import Kind

METADATA = MetaData()
DIALECT = postgresql.dialect()
KINDS: Mapping[str, Kind] = {
    "TEXT": "text",
    "TEXT[]": "text[]",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "DOUBLE PRECISION": "float8",
    "JSONB": "jsonb",
    "VECTOR": "vector",
}


def _table(name: str, *columns: Column, partitioned: bool = False) -> Table:
    return Table(
        name,
        METADATA,
        Column("workspace", Text, primary_key=True),
        Column("id", Text, primary_key=True),
        *columns,
        Column("row_hash", Text, nullable=False),
        postgresql_partition_by="LIST (workspace)" if partitioned else None,
    )


def _vector_table(name: str, *columns: Column) -> Table:
    vectors = Column("embedding", VECTOR()), Column("embedding_key", Text)
    return _table(name, *columns, *vectors, partitioned=True)


DOCUMENTS = _table(
    "graphmill_documents", Column("title", Text), Column("source", Text), Column("metadata", JSONB)
)
CHUNKS = _vector_table(
    "lightrag_chunks",
    Column("full_doc_id", Text),
    Column("chunk_order_index", Integer),
    Column("tokens", Integer),
    Column("content", Text),
    Column("char_start", BigInteger),
    Column("char_end", BigInteger),
)
ENTITIES = _vector_table(
    "lightrag_entities",
    Column("entity_name", Text),
    Column("content", Text),
)
RELATIONSHIPS = _vector_table(
    "lightrag_relationships",
    Column("src_id", Text),
    Column("tgt_id", Text),
    Column("content", Text),
)
# Of entities and relationships. Beside a vector, a list that changes would have the vector written
# and indexed anew.
SOURCE_LISTS = _table("graphmill_sources", Column("chunk_ids", ARRAY(Text)), partitioned=True)
REPORTS = _vector_table(
    "graphmill_reports",
    Column("level", Integer),
    Column("parent", Text),
    Column("children", ARRAY(Text)),
    Column("title", Text),
    Column("summary", Text),
    Column("content", Text),
    Column("rating", Double),
    Column("weight", Integer),
    Column("size", Integer),
    Column("chunk_ids", ARRAY(Text)),
)
CLAIMS = _table(
    "graphmill_claims",
    Column("text_unit_id", Text),
    Column("subject_id", Text),
    Column("object_id", Text),
    Column("subject", Text),
    Column("object", Text),
    Column("type", Text),
    Column("status", Text),
    Column("start_date", Text),
    Column("end_date", Text),
    Column("description", Text),
    Column("source_text", Text),
)
Index("graphmill_claims_subject", CLAIMS.c.workspace, CLAIMS.c.subject_id)
Index("graphmill_claims_object", CLAIMS.c.workspace, CLAIMS.c.object_id)
NODES = _table(
    "graphmill_nodes",
    Column("display_name", Text),
    Column("entity_type", Text),
    Column("description", Text),
    Column("degree", Integer),
    Column("x", Double),
    Column("y", Double),
)
EDGES = _table(
    "graphmill_edges",
    Column("source_entity_id", Text),
    Column("target_entity_id", Text),
    Column("source", Text),
    Column("target", Text),
    Column("type", Text),
    Column("description", Text),
    Column("keywords", ARRAY(Text)),
    Column("weight", Double),
)
Index("graphmill_edges_source", EDGES.c.workspace, EDGES.c.source_entity_id)
Index("graphmill_edges_target", EDGES.c.workspace, EDGES.c.target_entity_id)
COMMUNITIES = _table(
    "graphmill_communities",
    Column("level", Integer),
    Column("parent", Text),
    Column("title", Text),
    Column("summary", Text),
    Column("rating", Double),
    Column("weight", Integer),
    Column("size", Integer),
    Column("entity_ids", ARRAY(Text)),
)
# No pending list, which reads would have to go through one by one.
Index(
    "graphmill_communities_entities",
    COMMUNITIES.c.entity_ids,
    postgresql_using="gin",
    postgresql_with={"fastupdate": "off"},
)
# How many relationships lead between communities of one parent, counted by a load.
BETWEEN = Table(
    "graphmill_between",
    METADATA,
    Column("workspace", Text, primary_key=True),
    Column("one_id", Text, primary_key=True),
    Column("other_id", Text, primary_key=True),
    Column("relationships", BigInteger, nullable=False),
    Column("weight", Double, nullable=False),
)
LIVE = Table(
    "graphmill_live",
    METADATA,
    Column("workspace", Text, primary_key=True),
    Column("workflow", Text),
    Column("version", Text),
    Column("embedding", JSONB),
    Column("dimensions", Integer),
    Column("tables", JSONB),
    Column("schema_version", Integer),
    Column("probe", JSONB),
    Column("lexical", JSONB),
    Column("owner", Text),
    Column("place", Text),
)

VECTOR_TABLES = {
    "chunks": CHUNKS,
    "entities": ENTITIES,
    "relationships": RELATIONSHIPS,
    "reports": REPORTS,
}
GRAPH_TABLES = {"nodes": NODES, "edges": EDGES, "communities": COMMUNITIES}
TABLES = {
    "documents": DOCUMENTS,
    **VECTOR_TABLES,
    "sources": SOURCE_LISTS,
    "claims": CLAIMS,
    **GRAPH_TABLES,
}
# What a load makes of the rows of TABLES. verify compares it with them, and load writes it again.
DERIVED_TABLES = {"between": BETWEEN}
# What a load notes about itself. It tells nothing of the documents' contents that verify could
# compare.
NOTES_OF_LOADS = (LIVE,)
ROW_TABLES = {**{table.name: "id" for table in TABLES.values()}, BETWEEN.name: "one_id, other_id"}
"""Every table that verify compares, by its name in the database, with the columns that order a
workspace's rows."""
PARTITIONED = (*VECTOR_TABLES.values(), SOURCE_LISTS)
ENTITY_IDS = "ent-"
"""What the ids of entities begin with, and no others."""

MODEL = "embedding_key"
KEYS = ("workspace", MODEL)
"""Columns that are the same in every row of a load."""

VECTOR_LIMIT, HALFVEC_LIMIT = 2000, 4000
"""Dimensions up to which pgvector can index a ``vector`` and a ``halfvec``."""

PLAIN_LIMIT = 1800
"""Dimensions up to which a vector can be kept in its row's page, beside the other columns, all
stored out of line."""


def partition_of(table: Table, workspace: str) -> str:
    """The name of the partition that holds a workspace's rows of one of the partitioned tables."""
    return f"{table.name}_{digest(workspace)[:12]}"


def stored_in(table: Table, workspace: str) -> str:
    """The name of what holds a workspace's rows: its partition, or the table itself."""
    return partition_of(table, workspace) if table in PARTITIONED else table.name


def kind_of(column: Column) -> Kind:
    return KINDS[column.type.compile(dialect=DIALECT)]
