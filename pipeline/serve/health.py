"""Check whether queries can be answered, by asking the stores now."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.errors import GraphmillError
from pipeline.project import Project
from pipeline.runs.adapters import open_stores
from pipeline.runs.services import DEFAULT
from pipeline.serve.failures import failure_of
from pipeline.serve.queries import DaemonThreads
from pipeline.stores.base import Live, Store, refuse_earlier
from pipeline.stores.connection import Start

PATIENCE = 5.0
"""The seconds in which a store has to answer."""
SLOW = (
    f"does not answer within {PATIENCE:g} s; look whether its machine is overloaded or out of reach"
)
EMPTY = "nothing is loaded; run 'graphmill run'"


@dataclass(frozen=True)
class StoreState:
    """The state of a store. ``status`` is ok, empty or unavailable; ``problem`` reads "where: fact;
    next action"."""

    status: str
    problem: str = ""
    live: Live | None = None


@dataclass(frozen=True)
class ServiceState:
    """The state of all stores; ``problem`` is the first problem found, or ""."""

    stores: Mapping[str, StoreState]
    problem: str
    workflow: str

    @property
    def well(self) -> bool:
        return not self.problem


class Health:
    """Checks the stores over connections of its own.

    Many queries at a time thus do not look like a database that is down. Callers who ask at the
    same time share one check.
    """

    def __init__(self, project: Project):
        self.project = project
        self._stores = open_stores(project.settings, project.root)
        self._watches = [_Watch(store, self._stores.start) for store in self._stores.all]
        self._look: asyncio.Task[ServiceState] | None = None

    async def look(self) -> ServiceState:
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._examine())
        return await asyncio.shield(self._look)

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
        self._stores.close()

    async def _examine(self) -> ServiceState:
        asked = {watch.store.name: watch.ask() for watch in self._watches}
        await asyncio.wait(asked.values(), timeout=PATIENCE)
        states = {}
        for name, step in asked.items():
            slow = StoreState("unavailable", f"{name}: {SLOW}")
            states[name] = step.result() if step.done() else slow
        problems = [state.problem for state in states.values() if state.problem]
        live = states[self._stores.all[0].name].live
        if not problems and live is not None:
            problems = self._problems_of(live)
        return ServiceState(states, problems[0] if problems else "", live.workflow if live else "")

    def _problems_of(self, live: Live) -> list[str]:
        """Return why queries would refuse the loaded workspace; at most one reason.

        It may have been loaded by an earlier version, or belong to another owner whom the settings
        do not name. Or no model of the settings makes its vectors.
        """
        vectors = self._stores.all[0]
        try:
            refuse_earlier(live, f"workspace '{vectors.workspace}', {vectors.name}")
            self.project.notes_on_owner(live)
            self.project.embedding_like(live.embedding)
        except GraphmillError as error:
            return [str(error)]
        return []


class _Watch:
    """Asks one store in a thread of its own, so that one that hangs does not hold up the others. A
    store is not asked again before it has answered."""

    def __init__(self, store: Store, start: Start | None):
        self.store, self.start = store, start
        self._thread = DaemonThreads(1, f"health-{store.name}")
        self._asked: asyncio.Future[StoreState] | None = None

    def ask(self) -> asyncio.Future[StoreState]:
        if self._asked is None or self._asked.done():
            self._asked = asyncio.get_running_loop().run_in_executor(
                self._thread, _check_store, self.store, self.start
            )
        return self._asked

    def close(self) -> None:
        self._thread.shutdown()


def _check_store(store: Store, start: Start | None) -> StoreState:
    try:
        if start is not None:  # An embedded server is started first.
            start()
        live = store.live()
    except Exception as error:  # noqa: BLE001 - whatever it is, the store cannot be used
        return StoreState("unavailable", failure_of(error, sees_internals=True).message)
    if live is None:
        return StoreState("empty", f"workspace '{store.workspace}', {store.name}: {EMPTY}")
    return StoreState("ok", live=live)


def health_json(state: ServiceState, project: Project, open_to_caller: bool) -> dict[str, Any]:
    """Return the body of /health. With ``open_to_caller`` it describes the problems, which may name
    hosts and folders."""
    chat = project.settings.models.chat.get(DEFAULT)
    return {
        "status": "ok" if state.well else "unavailable",
        "problem": state.problem if open_to_caller else "",
        "workspace": project.settings.workspace,
        "workflow": state.workflow,
        "chat": bool(chat and chat.configured),
        "stores": {
            name: {"status": store.status, "problem": store.problem if open_to_caller else ""}
            for name, store in state.stores.items()
        },
    }
