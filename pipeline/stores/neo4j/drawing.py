"""Reads of the graph in Neo4j that a drawing needs, see DrawingReads.

The statements are constants, as those in cypher.py.
"""

from collections.abc import Sequence

from pipeline.stores.neo4j.connection import Neo4jConnection
from pipeline.stores.reads import in_order
from pipeline.stores.records import Between, Community, Dot, Line

NAMED = """
    MATCH (n:Entity {workspace: $workspace}) WITH n, toLower(coalesce(n.displayName, '')) AS name
    WHERE all(word IN $words WHERE name CONTAINS toLower(word))
    RETURN n.id, coalesce(n.displayName, ''), coalesce(n.entity_type, ''), coalesce(n.degree, 0),
        n.x, n.y
    ORDER BY name = toLower($text) DESC, name STARTS WITH toLower($text) DESC, coalesce(n.degree,
        0) DESC, n.id
    LIMIT $limit
    """
DOTS = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    RETURN n.id, coalesce(n.displayName, ''), coalesce(n.entity_type, ''), coalesce(n.degree, 0),
        n.x, n.y
    """
MOST_LINKED = """
    MATCH (n:Entity {workspace: $workspace}) WITH n ORDER BY coalesce(n.degree, 0) DESC,
        n.id LIMIT $limit
    RETURN n.id, coalesce(n.displayName, ''), coalesce(n.entity_type, ''), coalesce(n.degree, 0),
        n.x, n.y
    ORDER BY coalesce(n.degree, 0) DESC, n.id
    """
MOST_LINKED_IN = """
    MATCH (:Community {workspace: $workspace,
        id: $community})<-[:IN_COMMUNITY]-(n:Entity {workspace: $workspace})
    WITH n ORDER BY coalesce(n.degree, 0) DESC, n.id LIMIT $limit
    RETURN n.id, coalesce(n.displayName, ''), coalesce(n.entity_type, ''), coalesce(n.degree, 0),
        n.x, n.y
    ORDER BY coalesce(n.degree, 0) DESC, n.id
    """
LINES_OF = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    MATCH (n)-[r {workspace: $workspace}]-() WHERE r.id IS NOT NULL
    WITH DISTINCT r, startNode(r) AS source, endNode(r) AS target
    WITH r, source, target, coalesce(source.degree, 0) + coalesce(target.degree, 0) AS rank
    ORDER BY coalesce(r.weight, 0.0) DESC, rank DESC, r.id LIMIT $limit
    RETURN r.id, coalesce(source.id, ''), coalesce(target.id, ''), coalesce(r.keywords[0], ''),
        coalesce(r.weight, 0.0)
    ORDER BY coalesce(r.weight, 0.0) DESC, rank DESC, r.id
    """
LINES_AMONG = """
    MATCH (n:Entity) WHERE n.workspace = $workspace AND n.id IN $ids
    MATCH (n)-[r {workspace: $workspace}]->(target:Entity)
    WHERE r.id IS NOT NULL AND target.workspace = $workspace AND target.id IN $ids
    RETURN r.id, coalesce(n.id, ''), coalesce(target.id, ''), coalesce(r.keywords[0], ''),
        coalesce(r.weight, 0.0)
    ORDER BY coalesce(r.weight, 0.0) DESC, r.id LIMIT $limit
    """
COMMUNITIES = """
    MATCH (c:Community) WHERE c.workspace = $workspace AND c.id IN $ids
    RETURN c.id, coalesce(c.level, 0), coalesce(c.parent, ''), coalesce(c.title, ''),
        coalesce(c.summary, ''),
           coalesce(c.size, 0), COUNT { (c)<-[:PARENT]-() }
    ORDER BY coalesce(c.size, 0) DESC, c.id
    """
PARTS_OF = """
    MATCH (c:Community {workspace: $workspace}) WHERE coalesce(c.parent, '') = $community
    WITH c ORDER BY coalesce(c.size, 0) DESC, c.id LIMIT $limit
    RETURN c.id, coalesce(c.level, 0), coalesce(c.parent, ''), coalesce(c.title, ''),
        coalesce(c.summary, ''),
           coalesce(c.size, 0), COUNT { (c)<-[:PARENT]-() }
    ORDER BY coalesce(c.size, 0) DESC, c.id
    """
BETWEEN = """
    MATCH (one:Community) WHERE one.workspace = $workspace AND one.id IN $ids
    MATCH (one)-[r:BETWEEN]->(other:Community) WHERE other.id IN $ids
    RETURN one.id, other.id, r.relationships, r.weight ORDER BY r.relationships DESC, one.id,
        other.id
    """


class Neo4jDrawing(Neo4jConnection):
    """The reads of DrawingReads, over a graph in Neo4j."""

    def named(self, text: str, limit: int) -> list[Dot]:
        words = text.split()
        return self.records(Dot, NAMED, words=words, text=" ".join(words), limit=limit)

    def dots(self, ids: Sequence[str]) -> list[Dot]:
        return in_order(self.records(Dot, DOTS, ids=list(ids)), ids)

    def most_linked(self, limit: int, community: str = "") -> list[Dot]:
        if community:
            return self.records(Dot, MOST_LINKED_IN, community=community, limit=limit)
        return self.records(Dot, MOST_LINKED, limit=limit)

    def lines_of(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        return self.records(Line, LINES_OF, ids=list(entity_ids), limit=limit)

    def lines_among(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        return self.records(Line, LINES_AMONG, ids=list(entity_ids), limit=limit)

    def communities(self, ids: Sequence[str]) -> list[Community]:
        return self.records(Community, COMMUNITIES, ids=list(ids))

    def parts_of(self, community: str, limit: int) -> list[Community]:
        return self.records(Community, PARTS_OF, community=community, limit=limit)

    def between(self, community_ids: Sequence[str]) -> list[Between]:
        return self.records(Between, BETWEEN, ids=list(community_ids))
