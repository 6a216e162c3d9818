from typing import LiteralString

import pytest
from neo4j import GraphDatabase
from neo4j.exceptions import ConstraintError

from tests.servers.neo4j_server import Neo4jAddress

CONSTRAINT = (
    "CREATE CONSTRAINT smoke_key IF NOT EXISTS FOR (n:Smoke) REQUIRE (n.workspace, n.id) IS UNIQUE"
)
CREATE = """
CREATE (a:Smoke:$($label) {workspace: 'smoke', id: 1})-[r:$($type)]->(:Smoke {workspace: 'smoke', id: 2})
RETURN labels(a) AS labels, type(r) AS type
"""  # noqa: E501


def test_it_keeps_constraints_and_takes_labels_and_types_as_parameters(neo4j_address: Neo4jAddress):
    auth = (neo4j_address.user, neo4j_address.password)
    with GraphDatabase.driver(neo4j_address.uri, auth=auth) as driver:

        def query(text: LiteralString, **parameters: str) -> list[dict]:
            answer = driver.execute_query(text, parameters, database_=neo4j_address.database)
            return [record.data() for record in answer.records]

        query(CONSTRAINT)
        try:
            names = {"label": "A `strange` label", "type": "was told\nby"}
            (made,) = query(CREATE, **names)
            # The order in which labels were first seen by the server is theirs in an answer.
            assert (set(made["labels"]), made["type"]) == ({"Smoke", names["label"]}, names["type"])
            with pytest.raises(ConstraintError):
                query("CREATE (:Smoke {workspace: 'smoke', id: 1})")
        finally:
            query("MATCH (n:Smoke) DETACH DELETE n")
            query("DROP CONSTRAINT smoke_key")
