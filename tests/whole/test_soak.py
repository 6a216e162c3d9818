"""Two projects on one PostgreSQL and one Neo4j, for a while: nights, loads, purges and questions,
while clients and servers are killed. Then each project's stores equal its snapshots, nobody holds a
lock, and of what was purged nothing is left."""

import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.corpora import voyage
from tests.projects import ProjectFolder, new_project
from tests.servers import postgres_server
from tests.servers.neo4j_server import Neo4jAddress, temporary_folder, why_no_maven
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.sizes import only_whole
from tests.states import models, neo4j_rows, postgres_rows
from tests.stores.neo4j import test_restart as neo4j_restart
from tests.whole.oddities import PEOPLE, PLACES
from tests.whole.traces import in_files, in_neo4j, in_postgres

SEED = 11
SECONDS = 1020
"""How long the chaos lasts; what it left is put right and looked at after that."""
PATIENCE = 300
CONTROL = "Controlquill"


@dataclass
class Servers:
    """Both databases, which keep their data over a kill."""

    postgres: postgres_server.OwnServer
    neo4j: neo4j_restart.OwnServer
    url: str
    address: Neo4jAddress

    def kill_postgres(self) -> None:
        self.postgres.kill()
        self.postgres.start()

    def kill_neo4j(self) -> None:
        self.neo4j.kill()
        self.neo4j.start()

    def kill_a_backend(self, draw: random.Random) -> None:
        """The server then ends all its sessions, and recovers."""
        with suppress(psycopg.Error), psycopg.connect(self.url) as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'graphmill%'"
            found = [pid for (pid,) in connection.execute(query)]
            if found:
                psutil.Process(draw.choice(found)).kill()


@dataclass
class Owner:
    """One project, and what its owner does to it, by a draw of its own."""

    folder: ProjectFolder
    workflow: str
    draw: random.Random
    purged: set[str] = field(default_factory=set)
    under_way: str = ""
    secrets: int = 0
    said: list[str] = field(default_factory=list)

    def act(self) -> None:
        """One thing, mostly one that a night does."""
        if self.under_way:
            self.purge(self.under_way)
            return
        self.draw.choices(
            [self.night, self.night_of_a_purge, self.load_full, self.ask], [6, 3, 1, 2]
        )[0]()

    def night(self) -> None:
        self._edit()
        self.command("run", self.workflow, "--allow-deletes")

    def night_of_a_purge(self, may_be_killed: bool = True) -> None:
        """What is purged was in the stores before."""
        self.secrets += 1
        name = f"secret-{self.secrets}.txt"
        self.folder.write(name, f"{_canary(self.folder, name)} Stone\n\nMira Vale hid the {_canary(self.folder, name)} "  # noqa: E501
                          f"Stone at {self.draw.choice(PLACES)}. {self._sentence()}")  # fmt: skip
        self.command("run", self.workflow, "--allow-deletes", may_be_killed=may_be_killed)
        self.purge(name, may_be_killed)

    def load_full(self) -> None:
        self.command("load", self.workflow, "--full")

    def ask(self) -> None:
        self.command("query", f"Who wrote to {self.draw.choice(PEOPLE)}?", "--mode", "local")

    def purge(self, name: str, may_be_killed: bool = True) -> None:
        """Again and again, until it is said to be done. One that was killed between its end and its
        exit code has left nothing to go on with: then there is no such document."""
        killed = self.under_way == name and f"'{name}', '--yes'): -9" in self.said[-1]
        self.under_way = name
        code = self.command("purge", "--document", name, "--yes", may_be_killed=may_be_killed)
        if code == 0 or (killed and code == 2 and "nothing was touched" in self.said[-1]):
            self.under_way = ""
            self.purged.add(name)

    def command(self, *arguments: str, may_be_killed: bool = True) -> int:
        """Its exit code; at times it is killed instead."""
        seconds = (
            self.draw.uniform(0.5, 12) if may_be_killed and self.draw.random() < 0.4 else PATIENCE
        )
        process = subprocess.Popen(
            self.folder.command_line(*arguments), env=self.folder.environment, text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            said, _ = process.communicate()
            assert seconds < PATIENCE, f"{arguments}: hangs\n{said}"
        self.said.append(f"{arguments}: {process.returncode}\n{said}")
        assert "Traceback" not in said, said
        return process.returncode

    def settle(self) -> None:
        """The morning after: whatever was cut off is finished, and one more document is purged."""
        if not self.under_way:
            self.night_of_a_purge(may_be_killed=False)
        else:
            self.purge(self.under_way, may_be_killed=False)
        assert not self.under_way, self.said[-1]
        assert self.command("run", self.workflow, "--allow-deletes", may_be_killed=False) == 0, (
            self.said[-1]
        )

    def _edit(self) -> None:
        number = self.draw.randrange(12)
        name = f"voyage-{number}.txt"
        if (
            (self.folder.root / "data" / "input" / name).exists()
            and self.draw.random() < 0.25
            and number
        ):
            self.folder.delete(name)
        else:
            self.folder.write(name, f"{voyage(number)}\n\n{self._sentence()}\n")

    def _sentence(self) -> str:
        return (
            f"{self.draw.choice(PEOPLE)} wrote to {self.draw.choice(PEOPLE)} from"
            f" {self.draw.choice(PLACES)}."
        )


def _canary(folder: ProjectFolder, name: str) -> str:
    number = int(name.removeprefix("secret-").removesuffix(".txt"))
    letters = "".join("abcdefghij"[int(digit)] for digit in f"{number:03}")
    return f"Zyx{folder.root.name}{letters}drel"


@pytest.fixture
def servers() -> Iterator[Servers]:
    if reason := why_no_maven():
        pytest.skip(f"no Neo4j that could be killed: {reason}")
    with ExitStack() as stack:
        postgres = postgres_server.OwnServer(stack.enter_context(postgres_server.server_folder()))
        neo4j = neo4j_restart.OwnServer(stack.enter_context(temporary_folder()))
        stack.callback(neo4j.running.close)
        yield Servers(postgres, neo4j, postgres.start(), neo4j.start())


def new_owner(
    root: Path, servers: Servers, endpoint: OpenAIServer, workflow: str, seed: int
) -> Owner:
    folder = new_project(
        root, servers.url,
        {"control.txt": f"{CONTROL} Stone\n\nMira Vale hid the {CONTROL} Stone at Quill Point."},
        models=models(endpoint), stores={"graph": "neo4j", "neo4j": vars(servers.address)},
    )  # fmt: skip
    return Owner(folder, workflow, random.Random(seed))


@contextmanager
def in_threads(*owners: Owner) -> Iterator[None]:
    """Both owners act until the block ends; what one of them asserts fails the test."""
    over, failures = threading.Event(), []

    def act(owner: Owner) -> None:
        try:
            while not over.is_set():
                owner.act()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=act, args=[owner]) for owner in owners]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


@only_whole("a soak takes its time: restarts, kills, purges and loads have tests of their own")
def test_two_projects_while_clients_and_servers_are_killed(tmp_path: Path, servers: Servers):
    draw = random.Random(SEED)
    with openai_server() as endpoint:
        owners = [
            new_owner(tmp_path / name, servers, endpoint, workflow, SEED + number)
            for number, (name, workflow) in enumerate([("one", "index"), ("two", "fast")])
        ]
        for owner in owners:
            owner.folder.edit_settings(workspace=f"soak-{owner.folder.root.name}")
        ends = time.monotonic() + SECONDS
        with in_threads(*owners):
            while time.monotonic() < ends:
                time.sleep(draw.uniform(5, 20))
                draw.choice(
                    [
                        servers.kill_postgres,
                        servers.kill_neo4j,
                        lambda: servers.kill_a_backend(draw),
                    ]
                )()
        for owner in owners:
            owner.settle()
        for owner in owners:
            assert owner.purged
            check_stores(owner, servers, endpoint, tmp_path)
        check_nothing_held(servers)
        for owner in owners:
            check_traces(owner, servers)


def check_stores(owner: Owner, servers: Servers, endpoint: OpenAIServer, tmp_path: Path) -> None:
    """They are what the snapshots say, and what a fresh project makes of the same documents."""
    assert owner.command("verify", owner.workflow, may_be_killed=False) == 0, owner.said[-1]
    fresh = new_owner(
        tmp_path / f"fresh-{owner.folder.root.name}", servers, endpoint, owner.workflow, 0
    )
    for path in (owner.folder.root / "data" / "input").iterdir():
        fresh.folder.write(path.name, path.read_text(encoding="utf-8"))
    assert fresh.command("run", fresh.workflow, may_be_killed=False) == 0, fresh.said[-1]
    assert rows(owner.folder, servers) == rows(fresh.folder, servers)


def rows(folder: ProjectFolder, servers: Servers) -> dict[str, object]:
    with folder.open() as project:
        workspace = project.settings.workspace
    stored = {**postgres_rows(servers.url, workspace), **neo4j_rows(servers.address, workspace)}
    return {name: found for name, found in stored.items() if "live" not in name}


def check_nothing_held(servers: Servers) -> None:
    with psycopg.connect(servers.url, autocommit=True) as connection:
        backends = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'graphmill%'"
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        ends = time.monotonic() + 20
        while connection.execute(backends).fetchone() != (0,) and time.monotonic() < ends:
            time.sleep(0.2)
        assert connection.execute(backends).fetchone() == (0,)
        assert connection.execute(locks).fetchone() == (0,)


def check_traces(owner: Owner, servers: Servers) -> None:
    """The search is shown to find what is there before it says that something is not."""
    root = owner.folder.root
    assert {"data/snapshots", "data/input"} <= in_files(root, CONTROL)
    assert "data/cache.sqlite" in in_files(root, CONTROL) or owner.workflow == "fast"
    assert {"lightrag_chunks", "lightrag_entities"} <= in_postgres(servers.url, CONTROL)
    assert in_neo4j(servers.address, CONTROL) == {"nodes", "edges"}
    for name in sorted(owner.purged):
        canary = _canary(owner.folder, name)
        assert in_files(root, canary) == set()
        assert in_postgres(servers.url, canary) == set()
        assert in_neo4j(servers.address, canary) == set()
