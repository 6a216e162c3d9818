"""The tables in PostgreSQL: `lightrag_*`, which users of LightRAG know, the graph, and the record
of what each workspace shows.

The tables with vectors are partitioned by workspace, and the type of their vectors names no
dimensions. So workspaces may use different models, and an index never has to filter out the rows of
other workspaces. ``embedding_key`` distinguishes the vectors of different models, so that an index
holds those of one model only. The lists of sources are partitioned too, for the index over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, LiteralString

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import ARRAY, BigInteger, Column, Double, Index, Integer, MetaData, Table, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB

from pipeline.text.ids import digest

# The module imports pandas, which would slow down commands that need no tables.
if TYPE_CHECKING:
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


def _define_table(name: str, *columns: Column, partitioned: bool = False) -> Table:
    """Define a table with the key (workspace, id) and the column ``row_hash``."""
    return Table(
        name,
        METADATA,
        Column("workspace", Text, primary_key=True),
        Column("id", Text, primary_key=True),
        *columns,
        Column("row_hash", Text, nullable=False),
        postgresql_partition_by="LIST (workspace)" if partitioned else None,
    )


def _define_vector_table(name: str, *columns: Column) -> Table:
    """Define a partitioned table whose rows have a vector."""
    vectors = Column("embedding", VECTOR()), Column("embedding_key", Text)
    return _define_table(name, *columns, *vectors, partitioned=True)


DOCUMENTS = _define_table(
    "graphmill_documents",
    Column("title", Text),
    Column("source", Text),
    Column("metadata", JSONB),
    Column("date", Text),
)
CHUNKS = _define_vector_table(
    "lightrag_chunks",
    Column("full_doc_id", Text),
    Column("chunk_order_index", Integer),
    Column("tokens", Integer),
    Column("content", Text),
    Column("char_start", BigInteger),
    Column("char_end", BigInteger),
    Column("heading", Text),
    Column("header", Text),
)
SEARCHED: LiteralString = r"(coalesce(nullif(header, '') || E'\n\n', '') || content)"
"""The expression of the text of a text unit that is searched by words: its header, a blank line,
and its own text."""
ENTITIES = _define_vector_table(
    "lightrag_entities",
    Column("entity_name", Text),
    Column("content", Text),
)
RELATIONSHIPS = _define_vector_table(
    "lightrag_relationships",
    Column("src_id", Text),
    Column("tgt_id", Text),
    Column("content", Text),
)
# The lists of source text units of entities and relationships. In a row with a vector, a change of
# the list would also write the vector and index it again.
SOURCE_LISTS = _define_table(
    "graphmill_sources", Column("chunk_ids", ARRAY(Text)), partitioned=True
)
REPORTS = _define_vector_table(
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
CLAIMS = _define_table(
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
STATEMENTS = _define_table(
    "graphmill_statements",
    Column("relationship_id", Text),
    Column("text_unit_id", Text),
    Column("type", Text),
    Column("description", Text),
    Column("valid_from", Text),
    Column("valid_to", Text),
    Column("attributes", JSONB),
)
Index("graphmill_statements_relationship", STATEMENTS.c.workspace, STATEMENTS.c.relationship_id)
Index("graphmill_statements_text_unit", STATEMENTS.c.workspace, STATEMENTS.c.text_unit_id)
ATTRIBUTES = _define_table(
    "graphmill_attributes",
    Column("entity_id", Text),
    Column("name", Text),
    Column("type", Text),
    Column("value", Text),
    Column("unit", Text),
    Column("text_unit_id", Text),
    Column("document_id", Text),
    Column("correction", Text),
)
Index("graphmill_attributes_entity", ATTRIBUTES.c.workspace, ATTRIBUTES.c.entity_id)
# Conditions ask which documents state a property, so the index needs no row of text units.
Index(
    "graphmill_attributes_name",
    ATTRIBUTES.c.workspace,
    ATTRIBUTES.c.name,
    ATTRIBUTES.c.document_id,
)
NODES = _define_table(
    "graphmill_nodes",
    Column("display_name", Text),
    Column("entity_type", Text),
    Column("description", Text),
    Column("degree", Integer),
    Column("x", Double),
    Column("y", Double),
)
EDGES = _define_table(
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
COMMUNITIES = _define_table(
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
# Without "fastupdate", new entries go into the index at once. Otherwise reads would scan a list of
# pending entries one by one.
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
    "statements": STATEMENTS,
    "attributes": ATTRIBUTES,
    **GRAPH_TABLES,
}
# Tables that a load computes from the rows of TABLES. verify compares them with these rows, and a
# load corrects them.
DERIVED_TABLES = {"between": BETWEEN}
# The table in which a load records facts about itself. It holds nothing of the documents that
# verify could compare.
NOTES_OF_LOADS = (LIVE,)
ROW_TABLES = {**{table.name: "id" for table in TABLES.values()}, BETWEEN.name: "one_id, other_id"}
"""Every table that verify compares, by its name in the database, with the columns that sort a
workspace's rows."""
PARTITIONED = (*VECTOR_TABLES.values(), SOURCE_LISTS)
ENTITY_IDS = "ent-"
"""The beginning of the ids of entities, and of no other ids."""

MODEL = "embedding_key"
KEYS = ("workspace", MODEL)
"""The columns that have the same value in every row of a load."""

VECTOR_LIMIT, HALFVEC_LIMIT = 2000, 4000
"""The largest numbers of dimensions that pgvector can index, as ``vector`` and as ``halfvec``."""

PLAIN_LIMIT = 1800
"""The largest number of dimensions of a vector that fits into the page of its row, if the other
columns are stored out of line."""


def partition_of(table: Table, workspace: str) -> str:
    """Return the name of the partition of a partitioned table that holds a workspace's rows."""
    return f"{table.name}_{digest(workspace)[:12]}"


def stored_in(table: Table, workspace: str) -> str:
    """Return the name of the relation that holds a workspace's rows: a partition or the table."""
    return partition_of(table, workspace) if table in PARTITIONED else table.name


def kind_of(column: Column) -> Kind:
    """Return the kind under which COPY encodes a column."""
    return KINDS[column.type.compile(dialect=DIALECT)]
