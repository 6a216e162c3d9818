"""The statements of the Neo4j store, apart from those of drawings.

All are constants: values, labels and types are parameters (``$(...)`` is Cypher's dynamic label or
type), so that no name ever becomes query text. Rows that are written are lists: a map costs twice
as much to send and to read.
"""

from collections.abc import Mapping
from typing import LiteralString

CONSTRAINTS: tuple[LiteralString, ...] = (
    (
        "CREATE CONSTRAINT graphmill_entity IF NOT EXISTS FOR (n:Entity) REQUIRE (n.workspace,"
        " n.id) IS UNIQUE"
    ),
    (
        "CREATE CONSTRAINT graphmill_community IF NOT EXISTS FOR (n:Community) REQUIRE"
        " (n.workspace, n.id) IS UNIQUE"
    ),
    (
        "CREATE CONSTRAINT graphmill_live IF NOT EXISTS FOR (n:GraphmillLive) REQUIRE n.workspace"
        " IS UNIQUE"
    ),
    (
        "CREATE CONSTRAINT graphmill_lock IF NOT EXISTS FOR (n:GraphmillLock) REQUIRE n.workspace"
        " IS UNIQUE"
    ),
)
INDEXES: tuple[LiteralString, ...] = (
    "CREATE INDEX graphmill_entity_name IF NOT EXISTS FOR (n:Entity) ON (n.workspace, n.name_key)",
)

# The lock is a node of its own, apart from the live node. So a load that holds it can still record,
# visibly to all, that it is under way. The node is created before it is locked, and never deleted:
# otherwise clients would wait for its creation or deletion. A transaction that waits for the lock
# has the same name in its metadata, but is blocked.
HOLDER = """
    SHOW TRANSACTIONS YIELD transactionId, database, metaData, startTime, status
    WHERE database = $database AND metaData.lock = $name AND NOT status STARTS WITH 'Blocked'
    RETURN metaData.client AS client, startTime AS since, transactionId AS transaction
    """
TERMINATE = """
    SHOW TRANSACTIONS YIELD transactionId AS ended, metaData
    WHERE metaData.request = $request
    TERMINATE TRANSACTIONS ended YIELD message
    RETURN ended, message
    """
MAKE_LOCK = "MERGE (:GraphmillLock {workspace: $name})"
LOCK = "MATCH (lock:GraphmillLock {workspace: $name}) SET lock.held = true"
# The owner is recorded before the first row is written, so that a load that is cut off leaves no
# rows without an owner.
BEGIN = """
    MERGE (live:GraphmillLive {workspace: $workspace})
    SET live.loading = true, live.owner = coalesce($owner, live.owner),
        live.place = coalesce($place, live.place)
    """
PUBLISH = "MERGE (live:GraphmillLive {workspace: $workspace}) SET live = $properties"
LIVE = "MATCH (live:GraphmillLive {workspace: $workspace}) RETURN properties(live) AS properties"
MOMENT = """
    MATCH (live:GraphmillLive {workspace: $workspace})
    RETURN live.version AS version, coalesce(live.loading, false) AS loading, coalesce(live.owner,
        '') AS owner
    """
MOST = "MATCH (live:GraphmillLive {workspace: $workspace}) RETURN live.max_source_ids AS most"
WORKSPACES = (
    "MATCH (live:GraphmillLive) RETURN properties(live) AS properties ORDER BY live.workspace"
)

# The hash is '' for a row that somebody has changed: a node without its name_key, a relationship
# that is not between the ends that its id names (misplaced), a community with wrong members or a
# wrong parent. With $most, it is also '' for a row that names more or fewer text units than $most
# allows.
HASHES: Mapping[str, LiteralString] = {
    "sourced_nodes": (
        """
        MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
        RETURN [n.id] AS ids, [CASE
            WHEN n.name_key IS NOT NULL AND ($most IS NULL
              OR size(n.source_id)
                = CASE WHEN n.source_count > $most THEN $most ELSE n.source_count END)
            THEN coalesce(n.row_hash, '') ELSE '' END
        ] AS hashes, [] AS misplaced
        """
    ),
    "sourced_edges": (
        """
        MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
        CALL (n) {
            MATCH (n)-[r {workspace: $workspace}]->(target) WHERE r.id IS NOT NULL
            WITH r, coalesce(r.id <> 'rel-' + substring(n.id, 4) + '-' + substring(target.id, 4),
                true) AS is_misplaced
            RETURN collect(r.id) AS ids, collect(CASE
                WHEN NOT is_misplaced AND ($most IS NULL
                  OR size(r.source_id)
                    = CASE WHEN r.source_count > $most THEN $most ELSE r.source_count END)
                THEN coalesce(r.row_hash, '') ELSE '' END
            ) AS hashes, collect(CASE WHEN is_misplaced THEN r.id END) AS misplaced
        }
        WITH ids, hashes, misplaced WHERE size(ids) > 0
        RETURN ids, hashes, misplaced
        """
    ),
    "communities": (
        """
        MATCH (c:Community {workspace: $workspace}) WHERE c.id IS NOT NULL
        RETURN [c.id] AS ids, [CASE
            WHEN c.entity_count = COUNT { (c)<-[:IN_COMMUNITY]-(:Entity {workspace: $workspace}) }
              AND c.entity_count = COUNT { (c)<-[:IN_COMMUNITY]-() }
              AND COUNT { (c)-[:PARENT]->() } = CASE c.parent WHEN '' THEN 0 ELSE 1 END
              AND (c.parent = '' OR EXISTS { (c)-[:PARENT]->(:Community {workspace: $workspace,
                  id: c.parent}) })
            THEN coalesce(c.row_hash, '') ELSE '' END
        ] AS hashes, [] AS misplaced
        """
    ),
}

# The state of a table: the number of its rows, and a checksum. The checksum sums twelve digits of
# each hash and id as numbers, so that the sums of millions of rows stay exact. A hexadecimal digit
# a to f counts as 0 to 5: Cypher cannot parse hexadecimal text, and has no hash function. The
# function state_of of rows.py computes the same. A hash that is '' in HASHES counts as 0.
STATES: Mapping[str, LiteralString] = {
    "sourced_nodes": (
        """
        MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
        WITH [digits IN [CASE WHEN n.name_key IS NULL THEN '' ELSE left(n.row_hash, 12) END,
            right(n.id, 12)]
            | toInteger(replace(replace(replace(replace(replace(replace(
                digits, 'a', '0'), 'b', '1'), 'c', '2'), 'd', '3'), 'e', '4'), 'f', '5'))]
                    AS numbers
        RETURN count(*) AS rows, toString(sum(numbers[0])) + '-' + toString(sum(numbers[1]))
            AS checksum
        """
    ),
    "sourced_edges": (
        """
        MATCH (n:Entity {workspace: $workspace})-[r {workspace: $workspace}]->(target)
        WHERE n.id IS NOT NULL AND r.id IS NOT NULL
        WITH [digits IN [
            CASE WHEN r.id = 'rel-' + substring(n.id, 4) + '-' + substring(target.id, 4)
            THEN left(r.row_hash, 12) ELSE '' END, right(r.id, 12)]
            | toInteger(replace(replace(replace(replace(replace(replace(
                digits, 'a', '0'), 'b', '1'), 'c', '2'), 'd', '3'), 'e', '4'), 'f', '5'))]
                    AS numbers
        RETURN count(*) AS rows, toString(sum(numbers[0])) + '-' + toString(sum(numbers[1]))
            AS checksum
        """
    ),
    "communities": (
        """
        MATCH (c:Community {workspace: $workspace}) WHERE c.id IS NOT NULL
        WITH [digits IN [
            CASE WHEN c.entity_count
                = COUNT { (c)<-[:IN_COMMUNITY]-(:Entity {workspace: $workspace}) }
              AND c.entity_count = COUNT { (c)<-[:IN_COMMUNITY]-() }
              AND COUNT { (c)-[:PARENT]->() } = CASE c.parent WHEN '' THEN 0 ELSE 1 END
              AND (c.parent = '' OR EXISTS { (c)-[:PARENT]->(:Community {workspace: $workspace,
                  id: c.parent}) })
            THEN left(c.row_hash, 12) ELSE '' END, right(c.id, 12)]
            | toInteger(replace(replace(replace(replace(replace(replace(
                digits, 'a', '0'), 'b', '1'), 'c', '2'), 'd', '3'), 'e', '4'), 'f', '5'))]
                    AS numbers
        RETURN count(*) AS rows, toString(sum(numbers[0])) + '-' + toString(sum(numbers[1]))
            AS checksum
        """
    ),
}

ROWS: Mapping[str, LiteralString] = {
    "sourced_nodes": (
        """
        MATCH (n:Entity {workspace: $workspace}) WHERE n.id IS NOT NULL
        RETURN n.id AS id, n.displayName AS display_name, n.entity_type AS entity_type,
               n.description AS description, n.source_id AS source_id, n.degree AS degree, n.x
                   AS x, n.y AS y,
               n.row_hash AS row_hash, n.name_key AS name_key, n.source_count AS source_count,
               [key IN keys(n) WHERE key STARTS WITH 'prop_' | [key, n[key]]] AS properties,
               [label IN ['Entity', n.entity_type] WHERE label IN labels(n)] AS labels
        """
    ),
    "sourced_edges": (
        """
        MATCH (source:Entity {workspace: $workspace})-[r {workspace: $workspace}]->(target)
        WHERE source.id IS NOT NULL AND r.id IS NOT NULL
        RETURN r.id AS id, source.id AS source_entity_id, target.id AS target_entity_id,
               source.displayName AS source, target.displayName AS target, r.description
                   AS description,
               r.weight AS weight, type(r) AS type, r.keywords AS keywords,
               r.source_id AS source_id, r.row_hash AS row_hash, r.source_count AS source_count
        """
    ),
    "communities": (
        """
        MATCH (c:Community {workspace: $workspace}) WHERE c.id IS NOT NULL
        RETURN c.id AS id, c.level AS level, c.parent AS parent, c.title AS title, c.summary
            AS summary,
               c.rating AS rating, c.weight AS weight, c.size AS size, c.entity_count
                   AS entity_count,
               [(c)<-[:IN_COMMUNITY]-(n) | n.id] AS entity_ids, [(c)-[:PARENT]->(p) | p.id]
                   AS parents,
               c.row_hash AS row_hash
        """
    ),
}

# Properties of the entity that the row no longer has are removed. Their names are values of the
# parameter, so none becomes query text.
WRITE_NODES = """
    UNWIND $rows AS row
    MERGE (n:Entity {workspace: $workspace, id: row[0]})
    REMOVE n:$(coalesce(n.entity_type, row[1]))
    SET n:$(row[1])
    SET n.entity_type = row[1], n.displayName = row[2], n.name_key = row[3], n.description = row[4],
        n.degree = row[5], n.source_id = row[6], n.source_count = row[7], n.x = row[8],
            n.y = row[9],
        n.row_hash = row[10]
    FOREACH (key IN [key IN keys(n) WHERE key STARTS WITH 'prop_' AND row[11][key] IS NULL] |
        SET n[key] = null)
    SET n += row[11]
    """
DELETE_NODES = """
    UNWIND $rows AS id
    MATCH (n:Entity {workspace: $workspace, id: id})
    DETACH DELETE n
    """
WRITE_EDGES = """
    UNWIND $rows AS row
    MATCH (source:Entity {workspace: $workspace, id: row[1]})
    MATCH (target:Entity {workspace: $workspace, id: row[2]})
    CREATE (source)-[:$(row[3]) {
        workspace: $workspace, id: row[0], description: row[4], keywords: row[5], weight: row[6],
        source_id: row[7], source_count: row[8], row_hash: row[9]
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
DELETE_BY_ID = """
    MATCH (:Entity {workspace: $workspace})-[r {workspace: $workspace}]->() WHERE r.id IN $rows
    DELETE r
    """
# The relationships to members and parent are deleted here, and created by the statements below. The
# hash of a community is right as soon as it is written; these relationships come later.
WRITE_COMMUNITIES = """
    UNWIND $rows AS row
    MERGE (c:Community {workspace: $workspace, id: row[0]})
    SET c.level = row[1], c.parent = row[2], c.title = row[3], c.summary = row[4],
        c.rating = row[5],
        c.weight = row[6], c.size = row[7], c.entity_count = row[8], c.row_hash = row[9]
    WITH c
    CALL (c) { MATCH (c)<-[r:IN_COMMUNITY]-() DELETE r }
    CALL (c) { MATCH (c)-[r:PARENT]->() DELETE r }
    """
WRITE_MEMBERS = """
    UNWIND $rows AS row
    MATCH (c:Community {workspace: $workspace, id: row[0]})
    MATCH (n:Entity {workspace: $workspace, id: row[1]})
    CREATE (n)-[:IN_COMMUNITY]->(c)
    """
WRITE_PARENTS = """
    UNWIND $rows AS row
    MATCH (c:Community {workspace: $workspace, id: row[0]})
    MATCH (parent:Community {workspace: $workspace, id: row[1]})
    CREATE (c)-[:PARENT]->(parent)
    """
# The counts of relationships between communities of one parent. COUNTED returns the checksums of
# the tables from which they were counted.
COUNTED = "MATCH (live:GraphmillLive {workspace: $workspace}) RETURN live.between"
DELETE_BETWEEN = "MATCH (:Community {workspace: $workspace})-[r:BETWEEN]->() DELETE r"
# Weights are added in order of size: a sum of floats depends on the order, and otherwise the order
# would depend on the history of the database.
EXPECTED_BETWEEN: LiteralString = """
    MATCH (n:Entity {workspace: $workspace})-[:IN_COMMUNITY]->(c:Community)
    WITH n, c
    MATCH (n)-[r {workspace: $workspace}]->(:Entity)-[:IN_COMMUNITY]->(other:Community)
    WHERE r.id IS NOT NULL AND other.level = c.level AND other.parent = c.parent AND other <> c
    WITH CASE WHEN c.id < other.id THEN [c, other] ELSE [other, c] END AS ends, coalesce(r.weight,
        0.0) AS weight
    ORDER BY weight
    WITH ends, collect(weight) AS weights
    WITH ends[0] AS one, ends[1] AS other, size(weights) AS relationships,
         reduce(total = 0.0, weight IN weights | total + weight) AS weight
    """
COUNT_BETWEEN = (
    EXPECTED_BETWEEN
    + """
    CREATE (one)-[:BETWEEN {relationships: relationships, weight: weight}]->(other)
    """
)
MISCOUNTED = (
    "CALL () {"
    + EXPECTED_BETWEEN
    + """
        OPTIONAL MATCH (one)-[r:BETWEEN]->(other)
        WITH one, other, relationships, weight, collect(r) AS stored
        WITH size(stored) = 1 AND all(r IN stored WHERE r.relationships = relationships
            AND r.weight = weight) AS same
        RETURN count(*) AS expected, count(CASE WHEN same THEN 1 END) AS same
    }
    CALL () {
        MATCH (:Community {workspace: $workspace})-[r:BETWEEN]->() RETURN count(r) AS stored
    }
    RETURN (expected - same) + CASE WHEN stored > expected THEN stored - expected ELSE 0 END
    """
)
DELETE_COMMUNITIES = """
    UNWIND $rows AS id
    MATCH (c:Community {workspace: $workspace, id: id})
    DETACH DELETE c
    """

# These statements commit by themselves, every 10,000 rows: they must run outside a transaction.
# They delete everything that a load has written, also nodes that have lost their label since.
DROP: Mapping[str, LiteralString] = {
    "members": (
        """
        MATCH (:Community {workspace: $workspace})<-[r:IN_COMMUNITY]-()
        CALL (r) { DELETE r } IN TRANSACTIONS OF 10000 ROWS
        """
    ),
    "communities": (
        """
        MATCH (c:Community {workspace: $workspace}) WHERE c.row_hash IS NOT NULL
        CALL (c) { DETACH DELETE c } IN TRANSACTIONS OF 10000 ROWS
        """
    ),
    "edges": (
        """
        MATCH (n:Entity {workspace: $workspace})-[r {workspace: $workspace}]->()
            WHERE n.id IS NOT NULL
        CALL (r) { DELETE r } IN TRANSACTIONS OF 10000 ROWS
        """
    ),
    "nodes": (
        """
        MATCH (n) WHERE n.workspace = $workspace AND n.row_hash IS NOT NULL
        CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 10000 ROWS
        """
    ),
}
DROP_LIVE = "MATCH (live:GraphmillLive {workspace: $workspace}) DELETE live"

# If a load deletes a node or a relationship while it is read, all of its values are null, the id
# too. Any other missing value is replaced by an empty one.
ENTITIES = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    RETURN n.id, coalesce(n.displayName, ''), coalesce(n.entity_type, ''), coalesce(n.description,
        ''),
           coalesce(n.degree, 0), coalesce(n.source_id, [])[..$sources]
    """
# The values of a Relationship, in the order of its fields.
_RELATIONSHIP = """
    RETURN r.id, coalesce(source.id, ''), coalesce(target.id, ''), coalesce(source.displayName, ''),
           coalesce(target.displayName, ''), coalesce(r.description, ''), coalesce(r.keywords, []),
           coalesce(r.weight, 0.0), rank, coalesce(r.source_id, [])[..$sources]
    """
RELATIONSHIPS = (
    """
    UNWIND $rows AS row
    MATCH (source:Entity {workspace: $workspace, id: row[1]})
    MATCH (target:Entity {workspace: $workspace, id: row[2]})
    WITH DISTINCT row[0] AS id, source, target
    MATCH (source)-[r {id: id}]->(target)
    WITH r, source, target, coalesce(source.degree, 0) + coalesce(target.degree, 0) AS rank
    """
    + _RELATIONSHIP
)
RELATIONSHIPS_OF = (
    """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    MATCH (n)-[r {workspace: $workspace}]-() WHERE r.id IS NOT NULL
    WITH DISTINCT r, startNode(r) AS source, endNode(r) AS target
    WITH r, source, target, coalesce(source.degree, 0) + coalesce(target.degree, 0) AS rank
    ORDER BY rank DESC, r.weight DESC, r.id LIMIT $limit
    """
    + _RELATIONSHIP
    + """
    ORDER BY rank DESC, r.weight DESC, r.id
    """
)
LINKS = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids AND n.degree <= $most
    MATCH (n)-[r {workspace: $workspace}]-() WHERE r.id IS NOT NULL
    WITH DISTINCT r, startNode(r) AS source, endNode(r) AS target
    WITH r, source, target, coalesce(source.degree, 0) + coalesce(target.degree, 0) AS rank
    ORDER BY rank, r.id LIMIT $limit
    RETURN r.id, coalesce(source.id, ''), coalesce(target.id, '')
    ORDER BY rank, r.id
    """
COMMUNITIES_OF = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    MATCH (n)-[:IN_COMMUNITY]->(c:Community {workspace: $workspace}) WHERE c.level <= $level
    WITH n, c ORDER BY c.level DESC, c.id
    WITH n, collect([c.id, c.level])[0] AS found
    RETURN n.id, coalesce(found[0], ''), coalesce(found[1], 0) ORDER BY n.id
    """
SHARED_UNITS = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    WITH n, coalesce(n.source_id, [])[..$sources] AS units
    CALL (n, units) {
        MATCH (n) WHERE n.degree <= $hub
        MATCH (n)-[r {workspace: $workspace}]-(neighbour:Entity) WHERE neighbour <> n
            AND neighbour.degree <= $hub
        WITH DISTINCT neighbour
        UNWIND neighbour.source_id AS unit
        WITH neighbour, unit WHERE unit IN units
        WITH unit, count(DISTINCT neighbour) AS neighbours
        RETURN collect([unit, neighbours]) AS shared
    }
    RETURN n.id, units, shared
    """
