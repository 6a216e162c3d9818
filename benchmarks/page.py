"""Measure what the view Graph asks of `graphmill serve` over a large synthetic graph.

    python benchmarks/page.py                     # 100,000 entities, 300,000 relationships
    python benchmarks/page.py --project FOLDER    # made and loaded there if it is not, and kept
    python benchmarks/page.py --without-communities
    python benchmarks/page.py --graph neo4j       # the graph in a Neo4j that is started for it

The requests open the view, find an entity, expand one, open a community, and fetch the assets of a
first visit. ``first ms`` is the first request of its kind after the start of the server, and ``p50
ms`` the median of others like it, all one after another. ``serve ms`` is the CPU of one of these.
``KB`` is the size of the answer as sent, uncompressed, and ``elements`` the nodes and edges in it.
Communities are those of `detect_communities`.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx2
import numpy as np
import pyarrow as pa
from harness import graph_in_neo4j, print_table
from serving import KEY, cpu_of, serving

from benchmarks.graph_tables import FIRST, WORKFLOW, Sizes, write_tables
from benchmarks.load_once import MAX_TYPES
from pipeline.contract.schemas import COMMUNITIES
from pipeline.load.loader import load
from pipeline.project import Project
from pipeline.settings.init import init_project
from pipeline.snapshots.store import Manifest, StepRecord
from pipeline.verbs.detect_communities import CommunityParams, detect_communities

DIMENSIONS = 256
"""The dimensions of the builtin embedding, by which entities are searched."""
LOADED = "loaded"
Call = Callable[[httpx2.Client], httpx2.Response]


def make_project(root: Path, options: argparse.Namespace) -> None:
    """Make a project over synthetic tables and load its stores."""
    if (root / LOADED).exists():
        return
    if not (root / "settings.yaml").exists():
        init_project(root)
    with Project.open(root) as project:
        write_tables(
            project.snapshots,
            Sizes(options.entities, options.relationships, options.units, DIMENSIONS),
        )
        manifest = project.snapshots.manifest(WORKFLOW, FIRST)
        manifest = _as_if_embedded(manifest, project)
        if options.communities:
            manifest = _with_communities(manifest, project)
        project.snapshots.publish(manifest, FIRST)
        load(manifest, project.snapshots, project.stores.all, MAX_TYPES)
    (root / LOADED).touch()


def _as_if_embedded(manifest: Manifest, project: Project) -> Manifest:
    """Return the manifest as if the project's own model had made its vectors, for queries."""
    identity = dict(project.query_embedding("default").identity)
    steps = {
        name: StepRecord(
            step.step, step.fingerprint, {"models": {"embedding": identity}}, step.outputs
        )
        for name, step in manifest.steps.items()
    }
    return replace(manifest, steps=steps)


def _with_communities(manifest: Manifest, project: Project) -> Manifest:
    tables = [
        project.snapshots.tables.read(manifest.tables[name])
        for name in ("entities", "relationships")
    ]
    communities, _ = detect_communities(*tables, CommunityParams(max_cluster_size=1000))
    rows = pa.Table.from_pandas(communities, COMMUNITIES.arrow, preserve_index=False)
    snapshot = project.snapshots.tables.write("communities", rows, COMMUNITIES.order)
    return replace(manifest, tables={**manifest.tables, "communities": snapshot})


def measured(root: Path, tries: int) -> Iterator[dict[str, Any]]:
    with (
        serving(root, ()) as (server, url),
        httpx2.Client(base_url=url, headers={"X-API-Key": KEY}, timeout=120) as client,
    ):
        begun = time.perf_counter()
        opened = client.get("/ui/graph").json()
        first = (time.perf_counter() - begun) * 1000
        community = opened["communities"][0]["id"] if opened["communities"] else ""
        inside = _graph(community=community, entities=True)(client).json() if community else opened
        entities = [entity["id"] for entity in inside["entities"]]
        names = [entity["name"] for entity in inside["entities"]]
        kinds: dict[str, Sequence[Call]] = {
            "the page itself": [
                lambda client: client.get("/graph", headers={"Accept": "text/html"})
            ],
            "opening: what it begins with": [_graph()],
            **(
                {
                    "a community's entities, 250": [
                        _graph(community=community, entities=True, limit=250)
                    ]
                }
                if community
                else {}
            ),
            "expanding an entity of the most relationships": [
                _graph(entity=id, limit=60) for id in entities[:20]
            ],
            "expanding an entity of few": [_graph(entity=id, limit=60) for id in entities[-20:]],
            "finding by name, one word": [_find(name.split()[0], "name") for name in names[:20]],
            "finding by name, whole": [_find(name, "name") for name in names[20:40]],
            "finding by meaning": [_find(name, "meaning") for name in names[40:60]],
            "an entity's panel": [_details(id) for id in entities[20:40]],
        }
        for kind, calls in kinds.items():
            row = {"request": kind, **_measured(client, server, calls, tries)}
            yield {**row, "first ms": first} if kind.startswith("opening") else row


def _measured(
    client: httpx2.Client, server: Any, calls: Sequence[Call], tries: int
) -> dict[str, Any]:
    taken, answers = [], []
    for number in range(tries + 1):
        if number == 1:
            cpu = cpu_of(server)
        begun = time.perf_counter()
        answers.append(calls[number % len(calls)](client).raise_for_status())
        taken.append((time.perf_counter() - begun) * 1000)
    return {
        "first ms": taken[0],
        "p50 ms": float(np.percentile(taken[1:], 50)),
        "serve ms": (cpu_of(server) - cpu) / tries * 1000,
        "KB": float(np.mean([len(answer.content) for answer in answers])) / 1024,
        "elements": float(np.mean([_elements(answer) for answer in answers])),
    }


def _elements(answer: httpx2.Response) -> int:
    if "json" not in answer.headers["content-type"]:
        return 0
    found = answer.json()
    return sum(
        len(found.get(name, ())) for name in ("entities", "relationships", "communities", "between")
    )


def _graph(**named: Any) -> Call:
    return lambda client: client.get("/ui/graph", params=named)


def _find(text: str, by: str) -> Call:
    return lambda client: client.post("/ui/graph/find", json={"text": text, "by": by})


def _details(id: str) -> Call:
    return lambda client: client.get("/ui/graph/entity", params={"id": id})


@contextmanager
def _graph_of(root: Path, graph: str) -> Iterator[None]:
    """Start the store of the graph, for this process and those that it starts."""
    if graph == "postgres":
        yield
        return
    init_project(root)
    with graph_in_neo4j(root) as address:
        os.environ.update(address)
        yield


@contextmanager
def _folder(options: argparse.Namespace) -> Iterator[Path]:
    with (
        nullcontext(str(options.project))
        if options.project
        else tempfile.TemporaryDirectory() as folder
    ):
        yield Path(folder) / "page"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--project", type=Path)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--relationships", type=int, default=300_000)
    parser.add_argument("--units", type=int, default=20_000)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--without-communities", dest="communities", action="store_false")
    parser.add_argument("--graph", choices=["postgres", "neo4j"], default="postgres")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.project and options.graph == "neo4j":
        parser.error("--project is kept, a Neo4j is not; leave it out")
    with _folder(options) as root, _graph_of(root, options.graph):
        make_project(root, options)
        rows = list(measured(root, options.tries))
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
