"""The main job on a Dask cluster of this machine, once: ``make demo-dask``. A scheduler and two
workers on loopback, snapshots in the object store that the environment names, the cache of replies
in a PostgreSQL. The corpus is small: its steps are worked on in buckets of fewer rows than usual,
so that workers have something to do."""

import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pipeline.errors import INTERRUPTED
from pipeline.runs.worker import SNAPSHOTS
from pipeline.stores.postgres.embedded import start_embedded
from tests.servers.dask_cluster import dask_cluster
from tests.servers.neo4j_server import to_its_end
from tests.servers.postgres_server import server_folder

PLACE = "s3://bucket/demo"
QUESTION = "Where did Idra Vasterling study, and who taught there?"
COMMANDS = (
    ["run", "fast"],
    ["query", QUESTION, "--mode", "hybrid", "--top-k", "10", "--chunk-top-k", "3"],
)


def settings(address: str, cache: str) -> list[str]:
    """Of the project for this once."""
    return [
        f"engine={{kind: dask, address: '{address}', workers: 2, task_rows: 100}}",
        f"snapshots={PLACE}",
        f"cache={cache.replace('postgresql://', 'postgresql+psycopg://', 1)}",
        "workspace=demo-dask",
    ]


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does
    where = f"{PLACE} of {os.environ['AWS_ENDPOINT_URL']}"
    print(
        "Starting a scheduler, two workers and a PostgreSQL for the cache; snapshots are in"
        f" {where} ...",
        flush=True,
    )
    with (
        TemporaryDirectory(prefix="graphmill-") as folder,
        server_folder() as postgres,
        dask_cluster(Path(folder), environment={SNAPSHOTS: PLACE}) as cluster,
    ):
        given = [
            part
            for one in settings(cluster.address, start_embedded(postgres))
            for part in ("--set", one)
        ]
        codes = (
            to_its_end([sys.executable, "-m", "pipeline", *command, *given]) for command in COMMANDS
        )
        return next((code for code in codes if code), 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
