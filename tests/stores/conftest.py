from collections.abc import Callable, Iterator
from secrets import token_hex

import pytest
from neo4j import GraphDatabase

from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.hnsw import Hnsw
from pipeline.stores.postgres.store import PostgresStore
from tests.servers.neo4j_server import Neo4jAddress
from tests.stores.graphs import LoadableGraph


@pytest.fixture
def workspace() -> str:
    return f"test-{token_hex(6)}"


@pytest.fixture
def postgres(postgres_url: str, workspace: str) -> Iterator[Callable[..., PostgresStore]]:
    """Opens empty workspaces in a real PostgreSQL; ``suffix`` tells those of one test apart."""
    opened = []

    def open_store(suffix: str = "", exact_below: int = 5000, **hnsw: int) -> PostgresStore:
        opened.append(
            PostgresStore(
                postgres_url, workspace + suffix, hnsw=Hnsw(exact_below=exact_below, **hnsw)
            )
        )
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def neo4j(neo4j_address: Neo4jAddress, workspace: str) -> Iterator[Callable[..., Neo4jStore]]:
    """Opens empty workspaces in a real Neo4j, which may be somebody's: it is left as it was
    found."""
    address = neo4j_address
    opened = []

    def open_store(
        suffix: str = "", batch_rows: int = 7, atomic_rows: int = 40, max_source_ids: int = 5000
    ) -> Neo4jStore:
        opened.append(
            Neo4jStore(
                address.uri,
                address.user,
                address.password,
                address.database,
                workspace + suffix,
                batch_rows,
                atomic_rows,
                max_source_ids,
            )
        )
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()
    with GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver:
        driver.execute_query(
            "MATCH (n) WHERE n.workspace STARTS WITH $workspace DETACH DELETE n",
            {"workspace": workspace},
            database_=address.database,
        )


@pytest.fixture(params=["postgres", "neo4j"])
def open_graph(request: pytest.FixtureRequest) -> Callable[..., LoadableGraph]:
    """Opens an empty graph of either kind."""
    open_store = request.getfixturevalue(request.param)

    def open_graph(suffix: str = "") -> LoadableGraph:
        store = open_store(suffix)
        return LoadableGraph(store, PostgresGraph(store) if request.param == "postgres" else store)

    return open_graph
