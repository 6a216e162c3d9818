"""The main job on a Dask cluster of this machine, once: ``make demo-dask``. A scheduler and two workers on loopback,
snapshots in the object store that the environment names, the cache of replies in a PostgreSQL. The corpus is small:
its steps are worked on in buckets of fewer rows than usual, so that workers have something to do."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pipeline.runs.worker import SNAPSHOTS
from pipeline.stores.postgres.embedded import start_embedded
from tests.servers.dask_cluster import dask_cluster
from tests.servers.postgres_server import server_folder

PLACE = "s3://bucket/demo"
QUESTION = "Where did Idra Vasterling study, and who taught there?"
COMMANDS = (["run", "fast"], ["query", QUESTION, "--mode", "hybrid", "--top-k", "10", "--chunk-top-k", "3"])


def main() -> int:
    with (
        TemporaryDirectory(prefix="graphmill-") as folder,
        server_folder() as postgres,
        dask_cluster(Path(folder), environment={SNAPSHOTS: PLACE}) as cluster,
    ):
        cache = start_embedded(postgres).replace("postgresql://", "postgresql+psycopg://", 1)
        settings = [
            f"engine={{kind: dask, address: '{cluster.address}', workers: 2, task_rows: 100}}",
            f"snapshots={PLACE}",
            f"cache={cache}",
            "workspace=demo-dask",
        ]
        given = [part for setting in settings for part in ("--set", setting)]
        codes = (subprocess.run([sys.executable, "-m", "pipeline", *one, *given], check=False) for one in COMMANDS)
        return next((done.returncode for done in codes if done.returncode), 0)


if __name__ == "__main__":
    sys.exit(main())
