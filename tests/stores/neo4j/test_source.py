"""Rows of a query are read from a real Neo4j, which refuses a query that writes."""

import tracemalloc
from typing import Any, LiteralString

import pytest
from neo4j import GraphDatabase

from pipeline.errors import StoreAuthError, StoreError, UsageError
from pipeline.stores.neo4j.source import Neo4jSource
from tests.servers.neo4j_server import Neo4jAddress, free_port

WRONG = "pass-canary-5c1d"


@pytest.fixture
def source(neo4j_address: Neo4jAddress) -> Neo4jSource:
    address = neo4j_address
    return Neo4jSource(address.uri, address.user, address.password, address.database)


def rows_of(source: Neo4jSource, query: LiteralString) -> list[dict[str, Any]]:
    with source.rows(query) as (_, rows):
        return list(rows)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("'Mira'", "Mira"),
        ("[1, 2.5, null, 'a']", [1, 2.5, None, "a"]),
        ("{a: [date('1871-01-02')]}", {"a": ["1871-01-02"]}),
        ("point({longitude: 5.3, latitude: 60.4})", {"longitude": 5.3, "latitude": 60.4}),
        (
            "point({longitude: 5.3, latitude: 60.4, height: 2})",
            {"longitude": 5.3, "latitude": 60.4, "height": 2.0},
        ),
        ("point({x: 1, y: 2, z: 3})", {"x": 1.0, "y": 2.0, "z": 3.0}),
        ("datetime('1871-01-02T03:04:05Z')", "1871-01-02T03:04:05.000000000+00:00"),
        ("localdatetime('1871-01-02T03:04:05')", "1871-01-02T03:04:05.000000000"),
        ("time('03:04:05Z')", "03:04:05.000000000+00:00"),
        ("duration('P1Y2D')", "P1Y2D"),
        ("0.0 / 0.0", None),
        ("true", True),
    ],
)
def test_a_value_of_cypher_is_one_of_json(source: Neo4jSource, value: LiteralString, cell: Any):
    assert rows_of(source, f"RETURN {value} AS value") == [{"value": cell}]


def test_nodes_relationships_and_paths_are_their_properties(
    source: Neo4jSource, neo4j_address: Neo4jAddress, workspace: str
):
    auth = (neo4j_address.user, neo4j_address.password)
    with GraphDatabase.driver(neo4j_address.uri, auth=auth) as driver:
        driver.execute_query(
            "CREATE (:Source {workspace: $name, a: 1})-[:TO {b: 2}]->(:Source {workspace: $name})",
            {"name": workspace},
            database_=neo4j_address.database,
        )
        try:
            query: Any = (
                f"MATCH path = (n:Source {{workspace: '{workspace}'}})-[r:TO]->()"
                " RETURN n, r, path AS path"
            )
            (row,) = rows_of(source, query)
        finally:
            driver.execute_query(
                "MATCH (n:Source {workspace: $name}) DETACH DELETE n",
                {"name": workspace},
                database_=neo4j_address.database,
            )
    first, second = {"workspace": workspace, "a": 1}, {"workspace": workspace}
    assert row == {"n": first, "r": {"b": 2}, "path": [first, second]}


@pytest.mark.parametrize(
    "query",
    [
        "CREATE (:SourceWritten)",
        "CREATE (n:SourceWritten) RETURN n.name AS source, n.name AS target",
        "MERGE (n:SourceWritten {name: 'a'}) RETURN n.name AS name",
        "CREATE INDEX source_written FOR (n:SourceWritten) ON (n.name)",
    ],
)
def test_a_query_that_writes_is_refused_and_writes_nothing(
    source: Neo4jSource, query: LiteralString
):
    with pytest.raises(UsageError, match=r"^QUERY: bolt://.* refuses to write .*; give a query"):
        rows_of(source, query)
    assert rows_of(source, "MATCH (n:SourceWritten) RETURN n") == []
    indexes = rows_of(source, "SHOW INDEXES YIELD name")
    assert "source_written" not in {row["name"] for row in indexes}


def test_a_mistake_in_a_query_is_told(source: Neo4jSource):
    with pytest.raises(UsageError, match=r"^QUERY: .* refuses it .*; correct it"):
        rows_of(source, "MATCH (n RETURN n")


def test_a_query_that_fails_after_some_rows_is_an_error(source: Neo4jSource):
    with pytest.raises(UsageError, match=r"by zero"):
        rows_of(source, "UNWIND range(1, 5000) AS n RETURN 1 / (4500 - n) AS name")


def test_a_server_that_does_not_answer_is_told():
    source = Neo4jSource(f"bolt://127.0.0.1:{free_port(0)}", "neo4j", WRONG)
    with pytest.raises(StoreError, match=r"^bolt://127.0.0.1:.* no answer") as raised:
        rows_of(source, "RETURN 1 AS name")
    assert WRONG not in str(raised.value)


def test_a_wrong_password_is_told_without_the_password(neo4j_address: Neo4jAddress):
    # A user of this test's own: a server locks the user of too many wrong passwords out.
    source = Neo4jSource(neo4j_address.uri, "nobody", WRONG)
    with pytest.raises(StoreAuthError, match=r"^cypher.user, cypher.password: ") as raised:
        rows_of(source, "RETURN 1 AS name")
    assert WRONG not in str(raised.value)
    assert WRONG not in repr(source)


def test_a_database_that_does_not_exist_is_told(source: Neo4jSource):
    missing = Neo4jSource(source.uri, source.user, source.password, "nosuchdatabase")
    with pytest.raises(StoreError, match="nosuchdatabase"):
        rows_of(missing, "RETURN 1 AS name")


def test_an_address_with_a_password_is_refused_without_showing_it():
    with pytest.raises(UsageError) as raised:
        rows_of(Neo4jSource(f"bolt://me:{WRONG}@localhost", "", ""), "RETURN 1 AS name")
    assert WRONG not in str(raised.value)


def test_many_rows_are_read_with_bounded_memory(source: Neo4jSource):
    rows_before = rows_of(source, "RETURN 1 AS name")
    assert rows_before
    text = "x" * 500
    query: Any = f"UNWIND range(1, 60000) AS n RETURN '{text}' + n AS name"
    count = 0
    tracemalloc.start()
    try:
        with source.rows(query) as (names, rows):
            assert names == ["name"]
            for _ in rows:
                count += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # All rows at one time have more than 30 MB.
    assert count == 60_000
    assert peak < 10e6
