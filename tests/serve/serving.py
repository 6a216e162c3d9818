"""A project's API on a real server in a thread of this process, and how to ask it."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from pipeline.project import Project
from pipeline.serve.app import Api, api_of
from pipeline.serve.server import Server, address_of, is_loopback, listen, make_ready
from pipeline.serve.sessions import OneTimeToken

QUESTION = "Who founded the Brack Institute?"


@dataclass(frozen=True)
class Event:
    name: str
    data: Any


@dataclass(frozen=True)
class Serving:
    """``client`` has the key, if there is one; ``server`` stops when its ``should_exit`` is set."""

    url: str
    api: Api
    server: Server
    client: httpx2.Client

    def ask(self, path: str = "/query", /, **body: Any) -> httpx2.Response:
        return self.client.post(path, json={"query": QUESTION, **body})

    def events(self, **body: Any) -> list[Event]:
        return events_in(self.ask("/query/stream", **body).text)

    def health(self) -> tuple[int, dict[str, Any]]:
        answer = self.client.get("/health")
        return answer.status_code, answer.json()


@contextmanager
def serving(
    project: Project,
    any_host: bool = False,
    ready: bool = True,
    token: OneTimeToken | None = None,
    port: int = 0,
) -> Iterator[Serving]:
    """``ready``: what queries share is made before; a store that hangs would be waited for.
    ``token``: as for ``graphmill ui``."""
    settings = project.settings.serve
    key = settings.api_key.get_secret_value()
    with listen("127.0.0.1", port) as listening:
        if ready:
            make_ready(project)
        api = api_of(project, any_host or not is_loopback(listening), token)
        server = Server(api.app, settings, api.queries.end)
        ask = httpx2.Client(base_url=address_of(listening), headers=bearer(key), timeout=60)
        with in_thread(server, listening), ask as client:
            yield Serving(address_of(listening), api, server, client)


@contextmanager
def in_thread(server: Server, listening: socket.socket) -> Iterator[None]:
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def bearer(key: str) -> Mapping[bytes, bytes]:
    return {b"Authorization": b"Bearer " + key.encode()} if key else {}


def events_in(text: str) -> list[Event]:
    """Comments are left out."""
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            name, data = lines
            found.append(
                Event(name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
            )
    return found


def wait_until(true: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)
