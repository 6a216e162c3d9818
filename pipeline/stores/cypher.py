"""Every statement the Neo4j store sends. All are constants: values, labels and types go in as parameters
(``$(...)`` is Cypher's dynamic label or type), so that no name ever becomes query text.

Rows that are written are lists: half of what a map costs to send and to read.
"""

from collections.abc import Mapping
from typing import LiteralString

CONSTRAINTS: tuple[LiteralString, ...] = (
    "CREATE CONSTRAINT graphmill_entity IF NOT EXISTS FOR (n:Entity) REQUIRE (n.workspace, n.id) IS UNIQUE",
    "CREATE CONSTRAINT graphmill_live IF NOT EXISTS FOR (n:GraphmillLive) REQUIRE n.workspace IS UNIQUE",
    "CREATE CONSTRAINT graphmill_lock IF NOT EXISTS FOR (n:GraphmillLock) REQUIRE n.workspace IS UNIQUE",
)
INDEXES: tuple[LiteralString, ...] = (
    "CREATE INDEX graphmill_entity_name IF NOT EXISTS FOR (n:Entity) ON (n.workspace, n.name_key)",
)

# The lock is no part of the live row: a load that holds it can still say for all to see that it is under way.
# It is there before it is taken, and stays: nobody waits for what is being made or deleted.
MAKE_LOCK = "MERGE (:GraphmillLock {workspace: $workspace})"
LOCK = "MATCH (lock:GraphmillLock {workspace: $workspace}) SET lock.held = true"
BEGIN = "MERGE (live:GraphmillLive {workspace: $workspace}) SET live.loading = true"
PUBLISH = "MERGE (live:GraphmillLive {workspace: $workspace}) SET live = $properties"
LIVE = "MATCH (live:GraphmillLive {workspace: $workspace}) RETURN properties(live) AS properties"
MOMENT = """
    MATCH (live:GraphmillLive {workspace: $workspace})
    RETURN live.version AS version, coalesce(live.loading, false) AS loading
    """
WORKSPACES = "MATCH (live:GraphmillLive) RETURN properties(live) AS properties ORDER BY live.workspace"

# A row that an earlier version wrote lacks a property: it differs, and is written again.
HASHES: Mapping[str, LiteralString] = {
    "nodes": """
        MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
        RETURN [n.id] AS ids, [CASE WHEN n.name_key IS NULL THEN '' ELSE coalesce(n.row_hash, '') END] AS hashes
        """,
    "edges": """
        MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
        CALL (n) {
            MATCH (n)-[r {workspace: $workspace}]->() WHERE r.id IS NOT NULL
            RETURN collect(r.id) AS ids,
                   collect(CASE WHEN r.source_count IS NULL THEN '' ELSE coalesce(r.row_hash, '') END) AS hashes
        }
        WITH ids, hashes WHERE size(ids) > 0
        RETURN ids, hashes
        """,
}

# Twelve hexadecimal digits as a number that sums of millions of rows stay exact with: Cypher reads no
# hexadecimal text and has no hash function. pipeline/stores/neo4j_states.py says the same of rows at hand.
STATES: Mapping[str, LiteralString] = {
    "nodes": """
        MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
        WITH [digits IN [left(n.row_hash, 12), right(n.id, 12)] | toInteger(
            replace(replace(replace(replace(replace(replace(
                digits, 'a', '0'), 'b', '1'), 'c', '2'), 'd', '3'), 'e', '4'), 'f', '5'))] AS numbers
        RETURN count(*) AS rows, toString(sum(numbers[0])) + '-' + toString(sum(numbers[1])) AS checksum
        """,
    "edges": """
        MATCH (n:Entity {workspace: $workspace})-[r {workspace: $workspace}]->()
        WHERE n.id IS NOT NULL AND r.id IS NOT NULL
        WITH [digits IN [left(r.row_hash, 12), right(r.id, 12)] | toInteger(
            replace(replace(replace(replace(replace(replace(
                digits, 'a', '0'), 'b', '1'), 'c', '2'), 'd', '3'), 'e', '4'), 'f', '5'))] AS numbers
        RETURN count(*) AS rows, toString(sum(numbers[0])) + '-' + toString(sum(numbers[1])) AS checksum
        """,
}

ROWS: Mapping[str, LiteralString] = {
    "nodes": """
        MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
        RETURN n.id AS id, n.displayName AS display_name, n.entity_type AS entity_type,
               n.description AS description, n.source_id AS source_id, n.degree AS degree, n.row_hash AS row_hash
        """,
    "edges": """
        MATCH (source:Entity {workspace: $workspace})-[r {workspace: $workspace}]->(target)
        WHERE source.id IS NOT NULL AND r.id IS NOT NULL
        RETURN r.id AS id, source.id AS source_entity_id, target.id AS target_entity_id,
               source.displayName AS source, target.displayName AS target, r.description AS description,
               r.weight AS weight, r.rank AS rank, type(r) AS type, r.keywords AS keywords,
               r.source_id AS source_id, r.row_hash AS row_hash
        """,
}

WRITE_NODES = """
    UNWIND $rows AS row
    MERGE (n:Entity {workspace: $workspace, id: row[0]})
    REMOVE n:$(coalesce(n.entity_type, row[1]))
    SET n:$(row[1])
    SET n.entity_type = row[1], n.displayName = row[2], n.name_key = row[3], n.description = row[4],
        n.degree = row[5], n.source_id = row[6], n.source_count = row[7], n.row_hash = row[8]
    """
DELETE_NODES = """
    UNWIND $ids AS id
    MATCH (n:Entity {workspace: $workspace, id: id})
    DETACH DELETE n
    """
WRITE_EDGES = """
    UNWIND $rows AS row
    MATCH (source:Entity {workspace: $workspace, id: row[1]})
    MATCH (target:Entity {workspace: $workspace, id: row[2]})
    CREATE (source)-[:$(row[3]) {
        workspace: $workspace, id: row[0], description: row[4], keywords: row[5], weight: row[6], rank: row[7],
        source_id: row[8], source_count: row[9], row_hash: row[10]
    }]->(target)
    """
DELETE_EDGES = """
    UNWIND $rows AS row
    MATCH (source:Entity {workspace: $workspace, id: row[1]})
    MATCH (target:Entity {workspace: $workspace, id: row[2]})
    WITH DISTINCT row[0] AS id, source, target
    MATCH (source)-[r {id: id}]->(target)
    DELETE r
    """
DELETE_STRAYS = """
    MATCH (:Entity {workspace: $workspace})-[r {workspace: $workspace}]->() WHERE r.id IN $ids
    DELETE r
    """
DELETE_COPIES = """
    MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
    CALL (n) {
        MATCH (n)-[r {workspace: $workspace}]->() WHERE r.id IS NOT NULL
        WITH r.id AS id, collect(r) AS copies WHERE size(copies) > 1
        UNWIND copies[1..] AS copy
        DELETE copy
    }
    """

# Each commits by itself, some thousands at a time: they are run outside any transaction.
DROP: Mapping[str, LiteralString] = {
    "edges": """
        MATCH (n:Entity {workspace: $workspace})-[r {workspace: $workspace}]->() WHERE n.id IS NOT NULL
        CALL (r) { DELETE r } IN TRANSACTIONS OF 10000 ROWS
        """,
    "nodes": """
        MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
        CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 10000 ROWS
        """,
}
DROP_LIVE = "MATCH (live:GraphmillLive {workspace: $workspace}) DELETE live"

ENTITIES = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    RETURN n.id, n.displayName, n.entity_type, n.description, n.degree, n.source_id
    """
RELATIONSHIPS = """
    UNWIND $rows AS row
    MATCH (source:Entity {workspace: $workspace, id: row[1]})
    MATCH (target:Entity {workspace: $workspace, id: row[2]})
    WITH DISTINCT row[0] AS id, source, target
    MATCH (source)-[r {id: id}]->(target)
    RETURN r.id, source.id, target.id, source.displayName, target.displayName, r.description, r.keywords,
           r.weight, r.rank, r.source_id
    """
RELATIONSHIPS_OF = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    MATCH (n)-[r {workspace: $workspace}]-()
    WITH DISTINCT r ORDER BY r.rank DESC, r.weight DESC, r.id LIMIT $limit
    WITH r, startNode(r) AS source, endNode(r) AS target
    RETURN r.id, source.id, target.id, source.displayName, target.displayName, r.description, r.keywords,
           r.weight, r.rank, r.source_id
    ORDER BY r.rank DESC, r.weight DESC, r.id
    """
LINKS = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids AND n.degree <= $most
    MATCH (n)-[r {workspace: $workspace}]-()
    WITH DISTINCT r ORDER BY r.rank, r.id LIMIT $limit
    WITH r, startNode(r) AS source, endNode(r) AS target
    RETURN r.id, source.id, target.id
    ORDER BY r.rank, r.id
    """
SHARED_UNITS = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    WITH n, n.source_id AS units
    CALL (n, units) {
        MATCH (n)-[r {workspace: $workspace}]-(neighbour:Entity) WHERE neighbour <> n
        WITH DISTINCT neighbour
        UNWIND neighbour.source_id AS unit
        WITH neighbour, unit WHERE unit IN units
        WITH unit, count(DISTINCT neighbour) AS neighbours
        RETURN collect([unit, neighbours]) AS shared
    }
    RETURN n.id, units, shared
    """
