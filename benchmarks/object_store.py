"""Measure runs whose snapshots are in a bucket.

    python benchmarks/object_store.py --units 5000

The figures are requests and bytes, and the CPU beside that of a folder on disk. The bucket belongs
to a real server on this machine; the traffic to it is counted on the way. The runs are a full
build, one without a change, one after an edit, and the latter again on a machine that has fetched
nothing yet. The edit replaces a random sentence in 1 % of the documents. CPU s are those of whole
commands, start-up included.
"""

import argparse
import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corpus import edit_corpus
from harness import command, endpoint, new_project, print_table

from pipeline.runs.services import MIRROR_FOLDER
from tests.servers.s3_server import BUCKET, Traffic, between, s3_server

SHARE = 0.01


def nights(workflow: str, units: int, stage: str) -> list[dict[str, Any]]:
    """Return a row for each run."""
    with (
        tempfile.TemporaryDirectory(prefix="graphmill-s3-") as home,
        s3_server(Path(home)) as server,
        between(server) as (address, traffic),
        endpoint() as model,
        new_project(units) as on_disk,
        new_project(units) as remote,
    ):
        environment = {**model.env, **server.environment, "AWS_ENDPOINT_URL": address}
        settings = remote / "settings.yaml"
        text = settings.read_text().replace(
            "snapshots: data/snapshots", f"snapshots: s3://{BUCKET}/p"
        )
        settings.write_text(text)

        def night(name: str, change: Callable[[Path], object]) -> dict[str, Any]:
            cpu = []
            for root in (on_disk, remote):
                change(root)
                before = children()
                command(root, stage, workflow, env=environment)
                cpu.append(children() - before)
            return {
                "night": name,
                "CPU s, folder": cpu[0],
                "CPU s, bucket": cpu[1],
                **taken(traffic),
            }

        def edited(root: Path, seed: int) -> None:
            edit_corpus(root / "data" / "input", units, SHARE, seed=seed)

        def elsewhere(root: Path) -> None:
            edited(root, 2)
            shutil.rmtree(root / MIRROR_FOLDER, ignore_errors=True)

        return [
            night("full build", lambda root: None),
            night("nothing changed", lambda root: None),
            night(f"{SHARE:.0%} edited", lambda root: edited(root, 1)),
            night(f"{SHARE:.0%} edited, nothing fetched yet", elsewhere),
        ]


def taken(traffic: Traffic) -> dict[str, Any]:
    """Return the traffic since the last call."""
    kinds = ("PUT", "GET", "LIST", "POST")
    found = {kind: traffic.requests.get(kind, 0) for kind in kinds}
    row = {
        "requests": traffic.all,
        **found,
        "MB up": traffic.up / 2**20,
        "MB down": traffic.down / 2**20,
    }
    traffic.requests.clear()
    traffic.up = traffic.down = 0
    return row


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, nargs="+", default=[5_000])
    parser.add_argument("--workflow", default="fast", choices=["fast", "index"])
    parser.add_argument(
        "--stage", default="index", choices=["run", "index"], help="with the stores or without"
    )
    options = parser.parse_args()
    for units in options.units:
        print(f"\n{options.workflow}, {units:,} text units")
        print_table(nights(options.workflow, units, options.stage))


if __name__ == "__main__":
    main()
