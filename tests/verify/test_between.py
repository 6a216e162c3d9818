"""Check that the counts between communities depend on the rows alone, and are verified and repaired
as all else is."""

from operator import itemgetter
from pathlib import Path
from random import Random

import psycopg
from neo4j import GraphDatabase
from sqlalchemy.engine import make_url

from tests.projects import ProjectFolder, new_project
from tests.servers.neo4j_server import Neo4jAddress
from tests.servers.openai_server import OpenAIServer
from tests.sizes import size
from tests.states import postgres_rows, set_args

DOCUMENTS = {
    f"{place.lower()}.txt": (
        f"{place} Hall was built by Anselm Torr. {place} Bridge met {place} Gate. Mira Vale sold"
        f" {place} Mill to Governor Pell. Idra Senn saw {place} Quay and {place} Hall."
    )
    for place in ("Asken", "Brack", "Harrow", "Quill", "Tollen")
}


def communities(
    root: Path, postgres_url: str, openai: OpenAIServer, **settings: object
) -> ProjectFolder:
    folder = new_project(root, postgres_url, DOCUMENTS, openai, **settings)
    set_args(folder, "communities", detect_communities={"max_cluster_size": 4})
    return folder


CHANGES = {
    "wrong": "UPDATE graphmill_between SET relationships = 999, weight = 1 WHERE workspace = %s",
    "gone": "DELETE FROM graphmill_between WHERE workspace = %s",
    "too many": (
        "INSERT INTO graphmill_between SELECT workspace, one_id, 'com-none', 1, 1 FROM"
        " graphmill_between WHERE workspace = %s LIMIT 1"
    ),
}
IN_EVERY_RUN = ("wrong", "too many")
"""The changes of the reduced form. `test_every_table.py` deletes a row of this table, too."""


def test_postgres_counts_that_were_changed_by_hand_are_seen_and_repaired(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    """A load that finds nothing new does not count: that would join all relationships, every
    night. One change is enough to see that."""
    folder = communities(tmp_path / "p", postgres_url, openai)
    folder.report("run", "communities")
    with folder.open(*folder.endpoint_overrides) as project:
        workspace = project.settings.workspace
    whole = postgres_rows(postgres_url, workspace)["graphmill_between"]
    assert len(whole) > 1
    for name in size(IN_EVERY_RUN, tuple(CHANGES)):
        with psycopg.connect(postgres_url) as connection:
            connection.execute(CHANGES[name].encode(), [workspace])
        found = folder.report("verify", "communities")
        assert "between communities" in str(found["problems"])
        assert found["repair"] == "graphmill load communities --full"
        if name == "wrong":
            assert folder.invoke("load", "communities").exit_code == 0
            assert folder.report("verify", "communities") == found
        assert folder.invoke(*found["repair"].split()[1:]).exit_code == 0
        assert folder.report("verify", "communities")["agrees"]
        assert postgres_rows(postgres_url, workspace)["graphmill_between"] == whole


def test_sums_in_postgres_do_not_depend_on_the_order_of_rows(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    """Weights whose float sum depends on their order, written in two orders."""
    # An index gives the rows in the order of their ids, whatever their order in the table is.
    in_table_order = make_url(postgres_url).update_query_dict({"options": "-cenable_indexscan=off"})
    url = in_table_order.render_as_string(hide_password=False)
    folder = communities(tmp_path / "p", url, openai)
    folder.report("run", "communities")
    with folder.open(*folder.endpoint_overrides) as project:
        workspace = project.settings.workspace

        def counted(seed: int, reverse: bool) -> list[object]:
            draw = Random(seed)
            with psycopg.connect(postgres_url) as connection:
                cursor = connection.execute(
                    "DELETE FROM graphmill_edges WHERE workspace = %s RETURNING *", [workspace]
                )
                columns = [column.name for column in cursor.description or ()]
                rows = [dict(zip(columns, row, strict=True)) for row in cursor]
                rows.sort(key=itemgetter("id"))
                weighted = [row | {"weight": draw.random()} for row in rows]
                cells = ", ".join(["%s"] * len(columns))
                for row in reversed(weighted) if reverse else weighted:
                    connection.execute(
                        f"INSERT INTO graphmill_edges VALUES ({cells})".encode(), list(row.values())
                    )
                connection.execute(
                    "DELETE FROM graphmill_between WHERE workspace = %s", [workspace]
                )
                # A load of another version counts, and leaves the weights, whose hashes are as they
                # were.
                connection.execute(
                    "UPDATE graphmill_live SET version = 'other' WHERE workspace = %s", [workspace]
                )
            project.load("communities")
            return postgres_rows(postgres_url, workspace)["graphmill_between"]

        # One draw may have the same float sum in both orders: joins and sorts move few of these
        # rows.
        for seed in range(size(3, 5)):
            assert counted(seed, reverse=False) == counted(seed, reverse=True)


def test_neo4j_counts_that_were_changed_by_hand_are_seen_and_repaired(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, neo4j_address: Neo4jAddress
):
    neo4j = {
        "uri": neo4j_address.uri,
        "user": neo4j_address.user,
        "password": neo4j_address.password,
    }
    stores = {"graph": "neo4j", "neo4j": {**neo4j, "database": neo4j_address.database}}
    folder = communities(tmp_path / "p", postgres_url, openai, stores=stores)
    folder.report("run", "communities")
    with folder.open(*folder.endpoint_overrides) as project:
        workspace = project.settings.workspace
    read = (
        "MATCH (a:Community {workspace: $w})-[r:BETWEEN]->(b) RETURN a.id, b.id, r.relationships,"
        " r.weight"
    )
    changes = [
        "MATCH (:Community {workspace: $w})-[r:BETWEEN]->() SET r.relationships = 999",
        "MATCH (:Community {workspace: $w})-[r:BETWEEN]->() DELETE r",
        (
            "MATCH (a:Community {workspace: $w})-[:BETWEEN]->(b) WITH a, b LIMIT 1 "
            "CREATE (b)-[:BETWEEN {relationships: 1, weight: 1.0}]->(a)"
        ),
    ]
    auth = (neo4j_address.user, neo4j_address.password)
    with GraphDatabase.driver(neo4j_address.uri, auth=auth) as driver:

        def run(query: str) -> list[str]:
            found = driver.execute_query(query, {"w": workspace}, database_=neo4j_address.database)
            return sorted(str(record.values()) for record in found.records)

        whole = run(read)
        assert len(whole) > 1
        for change in changes:
            run(change)
            found = folder.report("verify", "communities")
            assert "between communities" in str(found["problems"])
            if change == changes[0]:
                # An ordinary load that finds nothing new does not count.
                assert folder.invoke("load", "communities").exit_code == 0
                assert folder.report("verify", "communities") == found
            assert folder.invoke(*found["repair"].split()[1:]).exit_code == 0
            assert folder.report("verify", "communities")["agrees"]
            assert run(read) == whole
