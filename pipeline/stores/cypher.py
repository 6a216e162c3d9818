"""Every statement the Neo4j store sends. All are constants: values, labels and types go in as parameters
(``$(...)`` is Cypher's dynamic label or type), so that no name ever becomes query text.
"""

from collections.abc import Mapping
from typing import LiteralString

CONSTRAINTS: tuple[LiteralString, ...] = (
    "CREATE CONSTRAINT graphmill_entity IF NOT EXISTS FOR (n:Entity) REQUIRE (n.workspace, n.id) IS UNIQUE",
    "CREATE CONSTRAINT graphmill_live IF NOT EXISTS FOR (n:GraphmillLive) REQUIRE n.workspace IS UNIQUE",
)

LOCK = "MERGE (live:GraphmillLive {workspace: $workspace}) SET live.loading = true"
PUBLISH = "MATCH (live:GraphmillLive {workspace: $workspace}) SET live = $properties"
LIVE = "MATCH (live:GraphmillLive {workspace: $workspace}) RETURN properties(live) AS properties"

HASHES: Mapping[str, LiteralString] = {
    "nodes": """
        MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
        RETURN n.id AS id, n.row_hash AS row_hash
        """,
    "edges": """
        MATCH (n:Entity {workspace: $workspace})-[r {workspace: $workspace}]->()
        WHERE n.id IS NOT NULL AND r.id IS NOT NULL
        RETURN r.id AS id, r.row_hash AS row_hash
        """,
}

_HASH_NUMBER: LiteralString = """toInteger(replace(replace(replace(replace(replace(replace(
            %s, 'a', '0'), 'b', '1'), 'c', '2'), 'd', '3'), 'e', '4'), 'f', '5'))"""
"""Twelve hexadecimal digits as a number that sums of millions of rows stay exact with: Cypher reads no
hexadecimal text and has no hash function."""


def _checksum(row: LiteralString) -> LiteralString:
    hashes = _HASH_NUMBER % f"left({row}.row_hash, 12)"
    ids = _HASH_NUMBER % f"right({row}.id, 12)"
    return f"toString(sum({hashes})) + '-' + toString(sum({ids}))"


STATES: Mapping[str, LiteralString] = {
    "nodes": f"""
        MATCH (n:Entity {{workspace: $workspace}}) WHERE n.id IS NOT NULL
        RETURN count(*) AS rows, {_checksum("n")} AS checksum
        """,
    "edges": f"""
        MATCH (n:Entity {{workspace: $workspace}})-[r {{workspace: $workspace}}]->()
        WHERE n.id IS NOT NULL AND r.id IS NOT NULL
        RETURN count(*) AS rows, {_checksum("r")} AS checksum
        """,
}

WRITE_NODES = """
    UNWIND $rows AS row
    MERGE (n:Entity {workspace: $workspace, id: row.id})
    REMOVE n:$(coalesce(n.entity_type, row.label))
    SET n:$(row.label)
    SET n += row.properties
    """
DELETE_NODES = """
    UNWIND $ids AS id
    MATCH (n:Entity {workspace: $workspace, id: id})
    DETACH DELETE n
    """
WRITE_EDGES = """
    UNWIND $rows AS row
    MATCH (source:Entity {workspace: $workspace, id: row.source})
    MATCH (target:Entity {workspace: $workspace, id: row.target})
    CREATE (source)-[r:$(row.type)]->(target)
    SET r = row.properties, r.workspace = $workspace
    """
DELETE_EDGES = """
    UNWIND $rows AS row
    MATCH (source:Entity {workspace: $workspace, id: row.source})
    MATCH (target:Entity {workspace: $workspace, id: row.target})
    WITH DISTINCT row.id AS id, source, target
    MATCH (source)-[r {id: id}]->(target)
    DELETE r
    """
DELETE_STRAYS = """
    MATCH (:Entity {workspace: $workspace})-[r {workspace: $workspace}]->() WHERE r.id IN $ids
    DELETE r
    """

ENTITIES = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    RETURN n.id, n.displayName, n.entity_type, n.description, n.degree, n.source_id
    """
RELATIONSHIPS = """
    UNWIND $rows AS row
    MATCH (source:Entity {workspace: $workspace, id: row.source})
    MATCH (target:Entity {workspace: $workspace, id: row.target})
    WITH DISTINCT row.id AS id, source, target
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
