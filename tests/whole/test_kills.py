"""Killed at any moment (moments.py), a run is simply started again: no finished step or bucket is
made again, no reply is asked again, and it ends as if nothing had been. Those who read meanwhile
see one whole state or the other."""

import json
import random
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pipeline.engine.run_options import RunOptions
from pipeline.engine.tasks import Task, Workplace
from pipeline.errors import NothingLoadedError
from pipeline.snapshots.folder import UNFINISHED
from tests.projects import ProjectFolder, new_project, workspace_of
from tests.servers.neo4j_server import Neo4jAddress
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.servers.postgres_server import database_of, make_database
from tests.sizes import size
from tests.states import in_cache, models, neo4j_rows, postgres_rows, table_hashes
from tests.whole.histories import History
from tests.whole.moments import INDEX, LOAD, STATEMENT, Moment, merging, run_apart
from tests.whole.test_earlier_project import restore

EARLIER = Path(__file__).parent / "earlier_loaded.zip"
EDITS = 3
CALLS_AT_ONCE, TEXTS_A_CALL = 4, 16
"""In states.models."""
CELLS = "jsonb_strip_nulls(to_jsonb(t)) - ARRAY['workspace', 'owner', 'place']"
"""Of a row, in a layout that has more columns or fewer."""
QUESTION = "Who built the Skarrow Lamp?"
KINDS: dict[str, Callable[[Moment], bool]] = {
    "index": lambda moment: moment.stage == INDEX,
    "merge": lambda moment: moment.stage == INDEX and moment.is_of_a_table,
    "load": lambda moment: moment.stage == LOAD and moment.act == STATEMENT,
    "conversion": lambda moment: True,
    "neo4j": lambda moment: moment.stage == LOAD and moment.act == STATEMENT,
}
"""What is killed, and at which of its moments."""
COUNTS = {
    "index": size(1, 6),
    "merge": size(1, 4),
    "load": size(1, 4),
    "conversion": size(1, 4),
    "neo4j": size(0, 2),
}
KILLS = [(kind, number) for kind, count in COUNTS.items() for number in range(count)]


@dataclass(frozen=True)
class Eve:
    """A project before the run that is killed. ``url``: of the database that it has loaded."""

    folder: ProjectFolder
    workflow: str
    url: str
    neo4j: Neo4jAddress | None = None

    def copy(self, root: Path) -> "Eve":
        """With a database of its own; in Neo4j, with a workspace of its own."""
        database = workspace_of(root).replace("-", "_")
        url = make_database(self.url, database, database_of(self.url))
        one = Eve(self.folder.copy(root), self.workflow, url, self.neo4j)
        neo4j = {"graph": "neo4j", "neo4j": asdict(self.neo4j)} if self.neo4j else {}
        one.folder.edit_settings(stores={"postgres": {"url": url}, **neo4j})
        if self.neo4j:
            one.folder.edit_settings(workspace=workspace_of(root))
            with one.folder.open() as project:
                project.load(self.workflow)
        return one

    def state(self) -> "State":
        with self.folder.open() as project:
            workspace = project.settings.workspace
            tables = table_hashes(project, self.workflow)
            try:
                found = project.query_data(QUESTION, mode="naive")["chunks"]
            except NothingLoadedError:  # that this version could read
                found = None
        graph = neo4j_rows(self.neo4j, workspace) if self.neo4j else {}
        rows = {
            name: rows for name, rows in postgres_rows(self.url, workspace, CELLS).items() if rows
        }
        return State(tables, (rows, graph), found)

    def records(self) -> dict[str, str]:
        """Fingerprint -> step, of all that has ended."""
        there = (self.folder.root / "data" / "snapshots" / "steps").glob("*.json")
        return {path.stem: json.loads(path.read_text())["step"] for path in there}

    def stored(self) -> tuple[int, int]:
        """Replies of chat models, and vectors."""
        return in_cache(self.folder, "completions"), in_cache(self.folder, "embeddings")


@dataclass(frozen=True)
class State:
    """``found``: by a question; None where the rows are not to be read before a load."""

    tables: dict[str, str]
    rows: object
    found: object | None


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody killed: from what to what, by which moments, and how much it asked."""

    before: State
    after: State
    moments: list[Moment]
    chats: int
    texts: int


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture(scope="module")
def night(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, endpoint: OpenAIServer
) -> Eve:
    """After a first night, and some edits."""
    root = tmp_path_factory.mktemp("eve") / "p"
    url = make_database(postgres_url, workspace_of(root).replace("-", "_"))
    folder = new_project(root, url, {}, models=models(endpoint))
    history = History.begun(1)
    history.put(folder, "index")
    with merging(), folder.open() as project:
        project.run("index")
    for name in sorted(history.documents)[:EDITS]:
        history.edit(name)
    history.put(folder, "index")
    return Eve(folder, "index", url)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Eve:
    """What a graphmill of before has made and loaded."""
    root = tmp_path_factory.mktemp("earlier") / "p"
    with zipfile.ZipFile(EARLIER) as archive:
        archive.extractall(root)
    url = make_database(postgres_url, workspace_of(root).replace("-", "_"))
    restore((root / "dump.sql").read_text(encoding="utf-8"), url)
    folder = ProjectFolder(root)
    folder.edit_settings(stores={"postgres": {"url": url}})
    return Eve(folder, "fast", url)


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, endpoint: OpenAIServer
) -> Callable[[Eve], Undisturbed]:
    made: dict[tuple[Path, Neo4jAddress | None], Undisturbed] = {}

    def run(eve: Eve) -> Undisturbed:
        key = eve.folder.root, eve.neo4j
        if key not in made:
            one = eve.copy(tmp_path_factory.mktemp("undisturbed") / "p")
            before = one.state()
            endpoint.forget()
            moments = run_apart(one.folder, one.workflow)
            asked = chats_and_texts(endpoint)
            made[key] = Undisturbed(before, one.state(), moments, *asked)
        return made[key]

    return run


def chats_and_texts(endpoint: OpenAIServer) -> tuple[int, int]:
    """That were asked, and embedded."""
    return endpoint.count("chat"), sum(len(request.inputs) for request in endpoint.requests)


@pytest.fixture
def eve(request: pytest.FixtureRequest, kind: str) -> Eve:
    if kind == "conversion":
        return request.getfixturevalue("earlier")
    night: Eve = request.getfixturevalue("night")
    return (
        replace(night, neo4j=request.getfixturevalue("neo4j_address")) if kind == "neo4j" else night
    )


@pytest.mark.parametrize(("kind", "number"), KILLS)
def test_killed_it_goes_on(
    tmp_path: Path,
    endpoint: OpenAIServer,
    eve: Eve,
    undisturbed: Callable[[Eve], Undisturbed],
    kind: str,
    number: int,
):
    whole, one = undisturbed(eve), eve.copy(tmp_path / "killed")
    chosen = [place for place, moment in enumerate(whole.moments) if KINDS[kind](moment)]
    end = random.Random(f"{kind} {number}").choice(chosen)
    began, stored, here = one.records(), one.stored(), endpoint.connected
    endpoint.forget()
    run_apart(one.folder, one.workflow, end)
    endpoint.await_silence(here)
    asked = chats_and_texts(endpoint)
    buckets = {
        path.stem for path in (one.folder.root / "data" / "snapshots" / UNFINISHED).glob("*.json")
    }
    finished = {step for fingerprint, step in one.records().items() if fingerprint not in began}
    chats, texts = (after - before for after, before in zip(one.stored(), stored, strict=True))
    assert asked[0] - chats <= CALLS_AT_ONCE
    assert asked[1] - texts <= CALLS_AT_ONCE * TEXTS_A_CALL
    see_a_whole_state(one, whole)
    if number % 2:
        show_the_night_before(one, whole)
    endpoint.forget()
    again: list[str] = []
    with merging(), noted(again), one.folder.open() as project:
        steps = project.run(one.workflow).steps
    assert not buckets & set(again)
    assert finished <= {step.step for step in steps if step.action == "reused"}, whole.moments[end]
    assert chats_and_texts(endpoint) == (whole.chats - chats, whole.texts - texts), whole.moments[
        end
    ]
    assert one.state() == whole.after, whole.moments[end]
    with one.folder.open() as project:
        assert project.verify(one.workflow).agrees


def noted(again: list[str]) -> AbstractContextManager[Any]:
    """Names of the buckets that are made."""
    do = Workplace.do

    def made(place: Workplace, task: Task) -> Any:
        again.append(task.name)
        return do(place, task)

    return patch.object(Workplace, "do", made)


def see_a_whole_state(one: Eve, whole: Undisturbed) -> None:
    state = one.state()
    assert state.tables in (whole.before.tables, whole.after.tables)
    with one.folder.open() as project:
        assert project.status() is not None
        plain, quick = project.verify(one.workflow), project.verify(one.workflow, quick=True)
    if one.neo4j:  # it has no transaction for a whole load
        return
    assert (state.rows, state.found) in (
        (before.rows, before.found) for before in (whole.before, whole.after)
    )
    agree = state in (whole.before, whole.after) and state.found is not None
    assert (plain.agrees, quick.agrees) == (agree, agree)


def show_the_night_before(one: Eve, whole: Undisturbed) -> None:
    """It can be loaded, and is then shown."""
    with one.folder.open() as project:
        project.load(
            one.workflow, options=RunOptions(manifest=project.snapshots.history(one.workflow)[0])
        )
    if whole.before.found is not None:
        assert one.state().rows == whole.before.rows


def test_a_run_has_moments_of_each_kind(night: Eve, undisturbed: Callable[[Eve], Undisturbed]):
    """Else the kills would not be where they are meant to be."""
    moments = undisturbed(night).moments
    for kind in ("index", "merge", "load"):
        assert sum(map(KINDS[kind], moments)) > 20
