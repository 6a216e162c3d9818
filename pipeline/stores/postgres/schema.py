"""The tables in PostgreSQL: `lightrag_*`, which users of LightRAG know, the graph, and the record
of what each workspace shows.

The type of the vectors names no dimensions, so workspaces may use different models. Each workspace
has a partition of its own, so an index over vectors holds no rows of others. ``embedding_key``
distinguishes the vectors of different models, so that an index holds those of one model only. The
lists of sources are partitioned too, for the index over them that maintenance.py makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, LiteralString

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import ARRAY, BigInteger, Column, Double, Index, Integer, MetaData, Table, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB

from pipeline.text.ids import digest

# binary_copy imports pandas, which would slow down commands that need no tables.
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
"""The kind under which COPY encodes a column, by the SQL type that SQLAlchemy compiles."""


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
SEARCHED_TEXT: LiteralString = r"(coalesce(nullif(header, '') || E'\n\n', '') || content)"
"""The SQL expression for the text in which a search by words looks: header, blank line, content. A
missing header makes the first operand NULL, and coalesce drops it with its blank line."""

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
# The lists of source text units of entities and relationships. They are no columns of the tables
# with vectors: each change of a list would write the vector too, and index it again. Reports keep
# their lists: they are few.
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
# Conditions ask which documents state a property. The document is in the index, so that the query
# joins no text units.
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
# pending entries one by one. The index cannot hold the workspace: GIN has no operators for a text
# without an extension. The condition on the workspace leaves out what it finds of others.
Index(
    "graphmill_communities_entities",
    COMMUNITIES.c.entity_ids,
    postgresql_using="gin",
    postgresql_with={"fastupdate": "off"},
)
# The number and the total weight of the relationships between two communities of one parent. A load
# counts them.
LINK_COUNTS = Table(
    "graphmill_between",
    METADATA,
    Column("workspace", Text, primary_key=True),
    Column("one_id", Text, primary_key=True),
    Column("other_id", Text, primary_key=True),
    Column("relationships", BigInteger, nullable=False),
    Column("weight", Double, nullable=False),
)
# One row for each workspace: what it shows, see ``Live`` in stores/base.py. ``lexical`` is what the
# load noted for the search by words (lexical.py).
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

# Tables by the name that loads and ``Store.tables`` use.
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
DERIVED_TABLES = {"between": LINK_COUNTS}
UNVERIFIED_TABLES = (LIVE,)
"""The tables that verify does not compare: they hold nothing of the documents."""

SORT_COLUMNS = {
    **{table.name: "id" for table in TABLES.values()},
    LINK_COUNTS.name: "one_id, other_id",
}
"""The columns that sort the rows of a workspace, by the name that a table has in the database. Each
table that verify compares is there."""

PARTITIONED = (*VECTOR_TABLES.values(), SOURCE_LISTS)
ENTITY_ID_PREFIX = "ent-"
"""The beginning of the ids of entities, and of no other ids."""

EMBEDDING_KEY = "embedding_key"
CONSTANT_COLUMNS = ("workspace", EMBEDDING_KEY)
"""The columns that have the same value in every row of a load."""

VECTOR_LIMIT, HALFVEC_LIMIT = 2000, 4000
"""The largest numbers of dimensions that pgvector can index, as ``vector`` and as ``halfvec``."""

INLINE_LIMIT = 1800
"""The largest number of dimensions of a vector that fits into the page of its row, if the other
columns are stored out of line. These 1800 numbers of 4 bytes take 7200 of the page's 8192 bytes."""


def name_partition(table: Table, workspace: str) -> str:
    """Return the name of the partition of a partitioned table that holds a workspace's rows.

    A workspace may have any name, but PostgreSQL cuts names off at 63 bytes, so a digest stands for
    it.
    """
    return f"{table.name}_{digest(workspace)[:12]}"


def name_relation(table: Table, workspace: str) -> str:
    """Return the name of the relation that holds a workspace's rows: a partition or the table."""
    return name_partition(table, workspace) if table in PARTITIONED else table.name


def choose_kind(column: Column) -> Kind:
    """Return the kind under which COPY encodes a column."""
    return KINDS[column.type.compile(dialect=DIALECT)]
