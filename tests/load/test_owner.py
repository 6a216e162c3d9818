"""What may be loaded over what is shown, and who is told to hold a workspace."""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import pytest
from sqlalchemy import text

from pipeline.errors import UsageError
from pipeline.load.overwrite_guard import other_workflow, refuse_other_workflow
from pipeline.load.owners import loaded_elsewhere
from pipeline.stores.base import Live, Store, TableState
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.postgres.workspaces import lock

SPAWN = get_context("spawn")
INDEX = ["documents", "entities", "relationships"]
COMMUNITIES = [*INDEX, "communities", "community_reports"]
CLAIMS = [*COMMUNITIES, "covariates"]


def shown(workflow: str, *extras: str) -> Live:
    rows = {"nodes": 3, "communities": 0, "reports": 0, "claims": 0, **dict.fromkeys(extras, 1)}
    return Live(
        workflow, "1", {}, 4, {table: TableState(count, "") for table, count in rows.items()}
    )


def test_a_load_that_only_adds_kinds_of_tables_needs_no_replace():
    refuse_other_workflow("w", [shown("index")], "communities", COMMUNITIES)
    refuse_other_workflow("w", [shown("communities", "communities", "reports")], "claims", CLAIMS)
    for live, workflow, tables in (
        (shown("communities", "communities", "reports"), "index", INDEX),
        (shown("claims", "communities", "reports", "claims"), "communities", COMMUNITIES),
        (shown("fast"), "index", INDEX),
        (shown("index"), "fast", INDEX),
    ):
        with pytest.raises(UsageError, match=f"add --replace.*set workflow: {live.workflow}$"):
            refuse_other_workflow("w", [live, None], workflow, tables)


def _hold(store: Store, pipe: Connection) -> None:
    with store.alone():
        pipe.send(os.getpid())
        signal.pause()


def _work(store: PostgresStore, pipe: Connection) -> None:
    """As an index over all vectors: a statement that lasts, and that the server alone is at."""
    with store.connection() as connection:
        lock(connection, store.workspace)
        pipe.send(os.getpid())
        connection.execute(text("SELECT pg_sleep(600)"))


@pytest.mark.parametrize("kind", ["postgres", "neo4j"])
def test_a_load_that_waits_says_for_whom_and_goes_on_when_that_is_killed(
    kind: str, request: pytest.FixtureRequest
):
    store: Store = request.getfixturevalue(kind)()
    holder, process = _started(_hold, store)
    heard: list[str] = []
    told = threading.Event()

    def tell(fact: str) -> None:
        heard.append(fact)
        told.set()

    def wait() -> None:
        with store.alone(tell):
            pass

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert told.wait(60)
    assert f"process {holder}' since 20" in heard[0]
    os.kill(holder, signal.SIGKILL)
    process.join(60)
    waiting.join(60)
    assert not waiting.is_alive()


def test_the_server_ends_a_statement_whose_client_was_killed(
    postgres: Callable[..., PostgresStore],
):
    store = postgres()
    worker, process = _started(_work, store)
    while not _is_at_work(store):
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    process.join(60)
    with store.connection() as connection:
        connection.execute(
            text("SET LOCAL lock_timeout = '60s'")
        )  # a tenth of what the statement would take
        lock(connection, store.workspace)


def _is_at_work(store: PostgresStore) -> bool:
    with store.connection() as connection:
        found = (
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT"
            " pg_sleep(600)'"
        )
        return bool(connection.execute(text(found)).scalar())


def _started(work: Callable[..., None], store: Store) -> tuple[int, BaseProcess]:
    """A process that has the lock, and its id."""
    mine, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=work, args=(store, theirs))
    process.start()
    return mine.recv(), process


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("host:/srv/one", True),
        ("host:/srv/mine", False),
        ("last-nights-container:/srv/mine", False),
        ("", False),
    ],
    ids=["another folder", "this one", "a fresh container's", "not known"],
)
def test_a_load_from_another_folder_is_reported(before: str, told: bool):
    live = replace(shown("index"), owner="team", place=before)
    assert (
        f"{before} had loaded it" in loaded_elsewhere("w", [None, live], "host:/srv/mine")
    ) == told


def test_a_load_without_kept_states_does_not_count_as_fewer_tables():
    unknown = Live("communities", "1", {}, 0)
    assert (
        other_workflow([unknown], "claims", ["documents", "community_reports", "covariates"])
        == "communities"
    )
