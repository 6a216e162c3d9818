"""The command import cypher makes a table of the project of a query's rows."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import token_hex

import pytest
from neo4j import Driver, GraphDatabase

from tests.projects import ProjectFolder, new_project
from tests.servers.neo4j_server import Neo4jAddress

WRITE = """
    UNWIND $rows AS row
    CREATE (:ImportedFact {test: $test, id: row[0], source: row[1], target: row[2]})
    """
DELETE = "MATCH (n:ImportedFact {test: $test}) DELETE n"
EXAMPLE = "write one such as MATCH (a)-[r]->(b) RETURN a.name AS source"


class Facts:
    """The facts of one test in a real Neo4j that tests share."""

    def __init__(self, driver: Driver, database: str) -> None:
        self.driver, self.database = driver, database
        self.test = token_hex(6)

    @property
    def query(self) -> str:
        return (
            f"MATCH (n:ImportedFact {{test: '{self.test}'}}) RETURN n.id AS id,"
            " n.source AS source, 'SUPPLIES' AS type, n.target AS target"
        )

    def write(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Replace all facts."""
        given = {"test": self.test, "rows": [list(row) for row in rows]}
        self.driver.execute_query(DELETE, given, database_=self.database)
        self.driver.execute_query(WRITE, given, database_=self.database)


@pytest.fixture
def facts(neo4j_address: Neo4jAddress) -> Iterator[Facts]:
    address = neo4j_address
    with GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver:
        facts = Facts(driver, address.database)
        yield facts
        facts.write([])


@pytest.fixture
def project(tmp_path: Path, postgres_url: str, neo4j_address: Neo4jAddress) -> ProjectFolder:
    project = new_project(tmp_path / "p", postgres_url, {"a.txt": "Mira Vale saw the light."})
    project.env["CYPHER_USER"] = neo4j_address.user
    project.env["CYPHER_PASSWORD"] = neo4j_address.password
    return project


def suppliers(project: ProjectFolder) -> set[str]:
    with project.open() as opened:
        statements = opened.table("statements", "fast")
        relationships = opened.table("relationships", "fast").set_index("id")
    ids = statements.loc[statements["type"] == "SUPPLIES", "relationship_id"]
    ends = relationships.loc[ids, ["source", "target"]].to_numpy().ravel()
    return set(ends) - {"Lamps", "Oil", "Glass"}


def test_the_same_command_refreshes_its_rows_by_difference(
    project: ProjectFolder, facts: Facts, neo4j_address: Neo4jAddress
):
    command = ("import", "cypher", neo4j_address.uri, facts.query)
    facts.write([("1", "Acme Works", "Lamps"), ("2", "Brask & Sons", "Oil")])
    first = project.report(*command)
    assert first["relationships"] == 2
    assert project.invoke("index", "fast").exit_code == 0
    assert suppliers(project) == {"Acme Works", "Brask & Sons"}

    facts.write([("1", "Acme Works", "Lamps"), ("3", "Corvin", "Glass")])
    second = project.report(*command)
    assert second["table"] == first["table"]
    assert project.invoke("index", "fast").exit_code == 0
    assert suppliers(project) == {"Acme Works", "Corvin"}

    tables = sorted(path.name for path in (project.root / "tables").iterdir())
    assert tables == [Path(first["table"]).name, "tables.yaml"]


def test_names_of_columns_are_kept_in_tables_yaml(
    project: ProjectFolder, neo4j_address: Neo4jAddress
):
    query = "RETURN 'Acme Works' AS firm, 'Lamps' AS product"
    command = ("import", "cypher", neo4j_address.uri, query, "--table", "firms")
    names = ("--column", "source=firm", "--column", "target=product", "--value", "type=SUPPLIES")
    assert project.report(*command, *names)["table"] == "tables/firms.jsonl"
    assert "source: firm" in (project.root / "tables" / "tables.yaml").read_text()
    assert project.report(*command)["relationships"] == 1


def test_the_plan_writes_nothing(project: ProjectFolder, neo4j_address: Neo4jAddress):
    query = "RETURN 'Acme Works' AS source, 'Lamps' AS target"
    done = project.invoke("import", "cypher", neo4j_address.uri, query, "fast", "--plan")
    assert done.exit_code == 0, done
    assert "1 relationship" in done.stdout
    assert not (project.root / "tables").exists()


@pytest.mark.parametrize(
    ("query", "fact"),
    [
        ("RETURN 1 AS a, 2 AS b", "its columns are a, b, without 'source' and 'target', or 'name'"),
        ("RETURN 'a' AS source", "its columns are source, without 'source' and 'target'"),
        ("MATCH (n:NoSuchLabel) RETURN n.a AS source, n.b AS target", "it has no rows"),
    ],
)
def test_a_query_that_gives_no_facts_is_refused_with_an_example(
    project: ProjectFolder, neo4j_address: Neo4jAddress, query: str, fact: str
):
    said = project.invoke_refused("import", "cypher", neo4j_address.uri, query)
    assert fact in said
    assert EXAMPLE in said
    assert not (project.root / "tables").exists()


def test_a_query_without_rows_leaves_the_table_as_it_was(
    project: ProjectFolder, facts: Facts, neo4j_address: Neo4jAddress
):
    command = ("import", "cypher", neo4j_address.uri, facts.query, "--table", "firms")
    facts.write([("1", "Acme Works", "Lamps")])
    project.report(*command)
    before = (project.root / "tables" / "firms.jsonl").read_bytes()
    facts.write([])
    assert "it has no rows" in project.invoke_refused(*command)
    assert (project.root / "tables" / "firms.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["../firms", ".firms", "a/b"])
def test_the_name_of_a_table_stays_in_the_folder(
    project: ProjectFolder, neo4j_address: Neo4jAddress, name: str
):
    query = "RETURN 'a' AS name"
    said = project.invoke_refused("import", "cypher", neo4j_address.uri, query, "--table", name)
    assert f"--table {name}: no name of a file" in said


def test_the_password_is_in_no_file_and_in_no_message(
    project: ProjectFolder, neo4j_address: Neo4jAddress
):
    query = "RETURN 'Acme Works' AS source, 'Lamps' AS target, date() AS date"
    done = project.invoke("import", "cypher", neo4j_address.uri, query)
    run = project.invoke("index", "fast", "--log", "json")
    assert (done.exit_code, run.exit_code) == (0, 0), (done, run)
    password = neo4j_address.password
    assert password not in done.stdout + done.stderr + run.stdout + run.stderr
    files = [path for path in project.root.rglob("*") if path.is_file()]
    assert [path for path in files if password.encode() in path.read_bytes()] == []


def test_lists_and_dates_are_properties_of_a_row(
    project: ProjectFolder, neo4j_address: Neo4jAddress
):
    query = (
        "RETURN 'Acme Works' AS source, 'Lamps' AS target, ['a', 'b'] AS kinds,"
        " date('1871-02-03') AS valid_from, {place: point({x: 1, y: 2})} AS properties"
    )
    project.report("import", "cypher", neo4j_address.uri, query)
    assert project.invoke("index", "fast").exit_code == 0
    with project.open() as opened:
        documents = opened.table("documents", "fast")
    (metadata,) = documents.loc[documents["source"].str.startswith("tables/"), "metadata"]
    found = json.loads(metadata)
    assert found["kinds"] == ["a", "b"]
    assert found["place"] == {"x": 1.0, "y": 2.0}
    assert "1871-02-03" in metadata
