"""An incremental run is a fresh run whose expensive rows are already known: after any history
(histories.py) every table is that of one full build, whatever files it lies in, and so is what is
emitted, exported and loaded; nothing is asked that was asked before."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.export.kinds import KINDS
from pipeline.project import Project
from tests.clusters import RemoteCluster
from tests.projects import NO_STORE, ProjectFolder, new_project, read_yaml, workspace_of, write_yaml
from tests.servers.dask_cluster import DaskCluster
from tests.servers.openai_faults import canonical
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.sizes import size
from tests.states import models, neo4j_rows, postgres_rows
from tests.whole.histories import History, in_small_files

NIGHTS = 2
BEGINNINGS = size(1, 10)
"""First nights of each workflow that its histories go on from."""
EMIT = {
    "documents": ["csv"],
    "entities": ["csv", "json", "parquet"],
    "text_unit_embeddings": ["parquet"],
}
COUNTS = {
    "tables": {
        "fast": size(0, 200),
        "index": size(0, 60),
        # The reduced form has claims in PostgreSQL, whose workflow has all steps of this one.
        "communities": size(0, 40),
        "claims": size(0, 60),
    },
    "postgres": {
        "fast": size(1, 30),
        # The reduced form has this workflow with its graph in Neo4j.
        "index": size(0, 60),
        "communities": size(0, 15),
        "claims": size(1, 30),
    },
    "neo4j": {"index": size(1, 10), "claims": size(0, 5)},
}
HISTORIES = [
    (workflow, place, seed)
    for place, workflows in COUNTS.items()
    for workflow, count in workflows.items()
    for seed in range(count)
]
IN_PROCESSES = size([], HISTORIES[::3])
"""Histories of nights with two workers; a full build has none."""
IN_CLUSTER = size([], HISTORIES[1::3])
"""Those of nights with two workers of a cluster."""
ENGINES = ("one process", "two processes", "cluster")
Table = tuple[str, pa.Table]
"""What names it, and its rows as they stand."""


@dataclass
class Beginning:
    """A project after its first night, which many go on from; ``asked``: how often what was."""

    history: History
    folder: ProjectFolder
    asked: Counter[bytes | str]

    def gone_on(self, root: Path, seed: int) -> "Beginning":
        return Beginning(self.history.gone_on(seed), self.folder.copy(root), self.asked.copy())


Begin = Callable[[str, int], Beginning]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory, endpoint: OpenAIServer) -> Begin:
    made: dict[tuple[str, int], Beginning] = {}

    def beginning(workflow: str, seed: int) -> Beginning:
        key = workflow, seed % BEGINNINGS
        if key not in made:
            root = tmp_path_factory.mktemp("beginning") / "p"
            found = Beginning(
                History.begun(key[1]), new_folder(root, workflow, endpoint), Counter()
            )
            with in_small_files():
                night(found, workflow, endpoint, Project.index)
            made[key] = found
        return made[key]

    return beginning


def new_folder(root: Path, workflow: str, endpoint: OpenAIServer) -> ProjectFolder:
    # A few rows that cannot be used are a large part of a small table, and would keep it back.
    folder = new_project(root, NO_STORE, {}, models=models(endpoint), max_reject_ratio=1)
    path = folder.root / "workflows" / f"{workflow}.yaml"
    write_yaml(path, {**read_yaml(path), "emit": EMIT})
    return folder


def night(
    one: Beginning, workflow: str, endpoint: OpenAIServer, stages: Callable[..., Any]
) -> Counter[bytes | str]:
    """What was asked of it; nothing is asked twice in a project's whole life."""
    one.history.put(one.folder, workflow)
    endpoint.forget()
    with one.folder.open() as project:
        report = stages(project, workflow)
    assert report.outcome in ("completed", "completed_with_rejects"), report
    chats = [canonical(request.body) for request in endpoint.requests if request.kind == "chat"]
    asked = Counter([*chats, *(text for request in endpoint.requests for text in request.inputs)])
    one.asked += asked
    assert max(one.asked.values(), default=0) <= 1
    return asked


def tables_of(folder: ProjectFolder, workflow: str) -> dict[str, Table]:
    with folder.open() as project:
        made = project.snapshots.manifest(workflow).tables
        return {
            name: (snapshot.sha256, project.snapshots.tables.read_arrow(snapshot))
            for name, snapshot in made.items()
        }


def files_of(folder: ProjectFolder, workflow: str) -> dict[str, object]:
    """What was emitted, and what every export gives: of Parquet the rows, of others the bytes.
    Exports name the workspace."""
    with folder.open("workspace=exported") as project:
        for kind in KINDS:
            project.export(kind, folder.root / "exported" / kind, workflow)
        there = [project.output_folder / workflow, folder.root / "exported"]
    paths = [(root, path) for root in there for path in root.rglob("[!.]*") if path.is_file()]
    return {
        path.relative_to(root).as_posix(): pq.read_table(path)
        if path.suffix == ".parquet"
        else path.read_bytes()
        for root, path in paths
    }


def hold(nightly: Mapping[str, Any], whole: Mapping[str, Any], told: str) -> None:
    assert set(nightly) == set(whole)
    differing = [name for name in whole if nightly[name] != whole[name]]
    assert not differing, f"{differing} differ\n{told}"


@dataclass(frozen=True)
class Stores:
    """``rows``: of a workspace, all that they show."""

    settings: Mapping[str, Any]
    rows: Callable[[str], object]


@pytest.fixture
def stores(request: pytest.FixtureRequest, place: str) -> Stores | None:
    """None where tables are compared alone."""
    if place == "tables":
        return None
    url = request.getfixturevalue("postgres_url")
    if place == "postgres":
        return Stores({"postgres": {"url": url}}, partial(postgres_rows, url))
    address = request.getfixturevalue("neo4j_address")
    return Stores(
        {"postgres": {"url": url}, "graph": "neo4j", "neo4j": asdict(address)},
        lambda workspace: (postgres_rows(url, workspace), neo4j_rows(address, workspace)),
    )


@pytest.mark.parametrize(("workflow", "place", "seed"), HISTORIES)
def test_any_history_ends_in_a_full_build(
    tmp_path: Path,
    endpoint: OpenAIServer,
    begin: Begin,
    stores: Stores | None,
    request: pytest.FixtureRequest,
    workflow: str,
    place: str,
    seed: int,
):
    nightly = begin(workflow, seed).gone_on(tmp_path / "nightly", seed)
    fresh = new_folder(tmp_path / "fresh", workflow, endpoint)
    stages = Project.run if stores else Project.index
    if (workflow, place, seed) in IN_PROCESSES:
        nightly.folder.edit_settings(engine={"workers": 2})
    if (workflow, place, seed) in IN_CLUSTER:
        cluster: DaskCluster = request.getfixturevalue("dask_cluster")
        cluster.see(nightly.folder)
    if stores:
        for folder in (nightly.folder, fresh):
            folder.edit_settings(workspace=workspace_of(folder.root), stores=stores.settings)
    asked = Counter()
    with in_small_files():
        for _ in range(NIGHTS):
            nightly.history.change()
            asked = night(nightly, workflow, endpoint, stages)
    needed = night(Beginning(nightly.history, fresh, Counter()), workflow, endpoint, stages)
    told = "\n".join(nightly.history.told)
    assert set(asked) <= set(needed), told
    made, whole = tables_of(nightly.folder, workflow), tables_of(fresh, workflow)
    hold(
        {name: rows for name, (_, rows) in made.items()},
        {name: rows for name, (_, rows) in whole.items()},
        told,
    )
    hold(
        {name: named for name, (named, _) in made.items()},
        {name: named for name, (named, _) in whole.items()},
        told,
    )
    if stores:
        hold(files_of(nightly.folder, workflow), files_of(fresh, workflow), told)
        shown = stores.rows(workspace_of(nightly.folder.root))
        assert shown == stores.rows(workspace_of(fresh.root)), told
        assert not night(nightly, workflow, endpoint, stages)
        assert shown == stores.rows(workspace_of(nightly.folder.root)), told


@settings(max_examples=size(1, 30))
@given(
    seed=st.integers(0, 10_000),
    workflow=st.sampled_from(["fast", "index"]),
    engines=st.permutations(ENGINES),
    others=st.lists(st.sampled_from(ENGINES), max_size=size(0, 3)),
)
def test_nights_in_a_bucket_by_whatever_engine_each_end_in_a_full_build_by_one_process(
    tmp_path_factory: pytest.TempPathFactory,
    endpoint: OpenAIServer,
    remote_cluster: RemoteCluster,
    workflow: str,
    engines: list[str],
    others: list[str],
    seed: int,
):
    root = tmp_path_factory.mktemp("engines")
    nightly = Beginning(
        History.begun(seed), new_folder(root / "nightly", workflow, endpoint), Counter()
    )
    remote_cluster.hold(nightly.folder)
    for number, engine in enumerate([*engines, *others]):
        if engine == "cluster":
            remote_cluster.workers.work_with(nightly.folder)
        else:
            nightly.folder.edit_settings(engine={"workers": 1 + (engine == "two processes")})
        with in_small_files():
            asked = night(nightly, workflow, endpoint, Project.index)
        fresh = Beginning(
            nightly.history, new_folder(root / str(number), workflow, endpoint), Counter()
        )
        needed = night(fresh, workflow, endpoint, Project.index)
        nightly.history.told.append(engine)
        told = "\n".join(nightly.history.told)
        assert set(asked) <= set(needed), told
        hold(tables_of(nightly.folder, workflow), tables_of(fresh.folder, workflow), told)
        nightly.history.change()


def test_a_night_after_a_small_edit_adds_a_small_file_and_says_which_rows_are_gone(
    tmp_path: Path, endpoint: OpenAIServer, begin: Begin
):
    """Else the histories would not be of what they are meant for."""
    nightly = begin("fast", 0).gone_on(tmp_path / "p", 0)
    with in_small_files():
        nightly.history.edit(min(nightly.history.documents))
        night(nightly, "fast", endpoint, Project.index)
    with nightly.folder.open() as project:
        made = project.snapshots.manifest("fast").tables
    several = {name for name, snapshot in made.items() if len(snapshot.files) > 1}
    assert {"documents", "text_units", "extractions", "mentions", "text_unit_embeddings"} <= several
    lacking = {
        name for name, snapshot in made.items() if any(file.gone_rows for file in snapshot.files)
    }
    assert {"mentions", "described_entities"} <= lacking
