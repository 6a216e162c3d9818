import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings

from pipeline.snapshots.store import SnapshotStore
from pipeline.stores.postgres.embedded import start_embedded
from tests import machine
from tests.buckets import Bucket
from tests.clusters import RemoteCluster
from tests.clusters import remote_cluster as started_remote_cluster
from tests.servers.dask_cluster import DaskCluster
from tests.servers.dask_cluster import dask_cluster as started_cluster
from tests.servers.neo4j_server import Neo4jAddress, Neo4jUnavailable, shared_server
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.servers.postgres_server import server_folder
from tests.servers.s3_server import S3Server, S3Unavailable, s3_server
from tests.sizes import size

machine.in_memory()
machine.read_certificates_once()
machine.collect_garbage_as_the_command()
machine.write_bytecode()

# No deadlines: how long an example takes says more of the machine than of the code.
usual = settings.get_profile(settings.get_current_profile_name())
settings.register_profile(
    "graphmill", usual, deadline=None, max_examples=size(15, usual.max_examples)
)
settings.load_profile("graphmill")


def pytest_collection_finish() -> None:
    machine.keep_from_the_collector()


@pytest.fixture
def openai() -> Iterator[OpenAIServer]:
    """An endpoint that speaks the OpenAI protocol, with an empty ledger and nothing scripted."""
    with openai_server() as server:
        yield server


@pytest.fixture
def snapshots(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path)


@pytest.fixture(scope="session")
def neo4j_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jAddress]:
    """A real Neo4j for the whole session, the same one for all workers; skips where none can be
    had, unless GRAPHMILL_REQUIRE_NEO4J=1."""
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with ExitStack() as stack:
        try:
            address = stack.enter_context(shared_server(folder))
        except Neo4jUnavailable as reason:
            if os.environ.get("GRAPHMILL_REQUIRE_NEO4J") == "1":
                pytest.fail(f"no Neo4j: {reason}")
            pytest.skip(f"no Neo4j: {reason}")
        yield address


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real server that speaks S3 for the whole session; tests keep apart by prefix. It skips
    where none can be had, unless GRAPHMILL_REQUIRE_S3=1."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(s3_server(tmp_path_factory.mktemp("s3")))
        except S3Unavailable as reason:
            if os.environ.get("GRAPHMILL_REQUIRE_S3") == "1":
                pytest.fail(f"no S3: {reason}")
            pytest.skip(f"no S3: {reason}")
        yield server


@pytest.fixture
def bucket(s3: S3Server, tmp_path: Path) -> Bucket:
    """Where nothing is yet."""
    return Bucket(s3, tmp_path.name, dict(s3.environment))


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL with pgvector for the whole session; tests keep apart by workspace. It does
    not wait for the disk: it need not outlive the machine."""
    with server_folder() as folder:
        url = start_embedded(folder)
        with psycopg.connect(url, autocommit=True) as connection:
            for name in ("fsync", "full_page_writes", "synchronous_commit"):
                connection.execute(f"ALTER SYSTEM SET {name} = off")
            connection.execute("SELECT pg_reload_conf()")
        yield url


@pytest.fixture(scope="module")
def cluster_of_the_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Start a cluster for a file of tests. Its four processes have work also while they wait, so it
    does not stay to the end of the session."""
    with started_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.fixture
def dask_cluster(cluster_of_the_file: DaskCluster) -> DaskCluster:
    """A scheduler and two workers, also where another test has killed some; which snapshots they
    see each test says."""
    cluster_of_the_file.await_workers(2)
    return cluster_of_the_file


@pytest.fixture(scope="session")
def remote_cluster(
    s3: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RemoteCluster]:
    """As ``dask_cluster``, with snapshots in a bucket."""
    with started_remote_cluster(s3, tmp_path_factory.mktemp("remote")) as cluster:
        yield cluster
