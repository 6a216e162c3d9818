"""Whether queries can be answered: the stores are asked, now."""

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
"""Seconds a store gets to answer."""
SLOW = (
    f"does not answer within {PATIENCE:g} s; look whether its machine is overloaded or out of reach"
)
EMPTY = "nothing is loaded; run 'graphmill run'"


@dataclass(frozen=True)
class StoreState:
    """``status``: ok, empty or unavailable. ``problem``: "where: fact; next action"."""

    status: str
    problem: str = ""
    live: Live | None = None


@dataclass(frozen=True)
class ServiceState:
    """``problem``: the first of them."""

    stores: Mapping[str, StoreState]
    problem: str
    workflow: str

    @property
    def well(self) -> bool:
        return not self.problem


class Health:
    """Asks over connections of its own, so that many queries do not look like a database that is
    down. Those who ask at the same time are told the same."""

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
        states = {
            name: step.result() if step.done() else StoreState("unavailable", f"{name}: {SLOW}")
            for name, step in asked.items()
        }
        problems = [state.problem for state in states.values() if state.problem]
        live = states[self._stores.all[0].name].live
        if not problems and live is not None:
            problems = self._problems_of(live)
        return ServiceState(states, problems[0] if problems else "", live.workflow if live else "")

    def _problems_of(self, live: Live) -> list[str]:
        """What no query is answered from: what an earlier version has loaded, another owner's rows,
        unless they were named, and vectors that no model of the settings makes."""
        vectors = self._stores.all[0]
        try:
            refuse_earlier(live, f"workspace '{vectors.workspace}', {vectors.name}")
            self.project.notes_on_owner(live)
            self.project.embedding_like(live.embedding)
        except GraphmillError as error:
            return [str(error)]
        return []


class _Watch:
    """One store, asked in a thread of its own: while it hangs, the others are not kept from
    answering. It is not asked again before it has answered."""

    def __init__(self, store: Store, start: Start | None):
        self.store, self.start = store, start
        self._thread = DaemonThreads(1, f"health-{store.name}")
        self._asked: asyncio.Future[StoreState] | None = None

    def ask(self) -> asyncio.Future[StoreState]:
        if self._asked is None or self._asked.done():
            self._asked = asyncio.get_running_loop().run_in_executor(
                self._thread, _state, self.store, self.start
            )
        return self._asked

    def close(self) -> None:
        self._thread.shutdown()


def _state(store: Store, start: Start | None) -> StoreState:
    try:
        if start is not None:  # what has never answered is not taken for lost
            start()
        live = store.live()
    except Exception as error:  # noqa: BLE001 - whatever it is, the store cannot be used
        return StoreState("unavailable", failure_of(error, all_told=True).message)
    if live is None:
        return StoreState("empty", f"workspace '{store.workspace}', {store.name}: {EMPTY}")
    return StoreState("ok", live=live)


def health_json(state: ServiceState, project: Project, open_to_asker: bool) -> dict[str, Any]:
    """``open_to_asker``: with what the problems are, which may name hosts and folders."""
    chat = project.settings.models.chat.get(DEFAULT)
    return {
        "status": "ok" if state.well else "unavailable",
        "problem": state.problem if open_to_asker else "",
        "workspace": project.settings.workspace,
        "workflow": state.workflow,
        "chat": bool(chat and chat.configured),
        "stores": {
            name: {"status": store.status, "problem": store.problem if open_to_asker else ""}
            for name, store in state.stores.items()
        },
    }
