"""What may be loaded over what is shown, and who is told to hold a workspace."""

import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pytest

from pipeline.errors import UsageError
from pipeline.load.identity import refuse_other_workflow
from pipeline.stores.base import Live, TableState
from pipeline.stores.postgres import PostgresStore

SPAWN = get_context("spawn")
INDEX = ["documents", "entities", "relationships"]
COMMUNITIES = [*INDEX, "communities", "community_reports"]
CLAIMS = [*COMMUNITIES, "covariates"]


def shown(workflow: str, *extras: str) -> Live:
    rows = {"nodes": 3, "communities": 0, "reports": 0, "claims": 0, **dict.fromkeys(extras, 1)}
    return Live(workflow, "1", {}, 4, {table: TableState(count, "") for table, count in rows.items()})


def test_more_kinds_of_tables_need_no_replace():
    refuse_other_workflow("w", [shown("index")], "communities", COMMUNITIES)
    refuse_other_workflow("w", [shown("communities", "communities", "reports")], "claims", CLAIMS)
    for live, workflow, tables in (
        (shown("communities", "communities", "reports"), "index", INDEX),
        (shown("claims", "communities", "reports", "claims"), "communities", COMMUNITIES),
        (shown("fast"), "index", INDEX),
        (shown("index"), "fast", INDEX),
    ):
        with pytest.raises(UsageError, match="add --replace"):
            refuse_other_workflow("w", [live, None], workflow, tables)


def _hold(url: str, workspace: str, pipe: Connection) -> None:
    with PostgresStore(url, workspace).alone():
        pipe.send(os.getpid())
        pipe.recv()


def test_a_load_that_waits_says_for_whom_and_goes_on_when_that_is_killed(
    postgres: Callable[..., PostgresStore], postgres_url: str
):
    store = postgres()
    mine, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=_hold, args=(postgres_url, store.workspace, theirs))
    process.start()
    holder = mine.recv()
    heard: list[str] = []
    told = threading.Event()

    def wait() -> None:
        with store.alone(lambda fact: (heard.append(fact), told.set())):
            pass

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert told.wait(60)
    assert f"process {holder}' since 20" in heard[0]
    os.kill(holder, signal.SIGKILL)
    process.join(60)
    waiting.join(60)
    assert not waiting.is_alive()
