"""Serve an ASGI application until a signal ends it, where it may be reached."""

import asyncio
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from pipeline.errors import INTERRUPTED, StoreError, Terminated, UsageError
from pipeline.project import Project
from pipeline.serve.connections import impatient
from pipeline.serve.doors import doors_of
from pipeline.serve.queries import Api
from pipeline.settings.keys import key_warnings
from pipeline.settings.schema import ServeSettings


def listen(
    host: str, port: int, command: str = "serve", options: str = "--host, --port"
) -> socket.socket:
    """Raises UsageError where that cannot be; port 0: a free one. ``options``: those of the command
    that choose."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else 0
        reason = os.strerror(number) if number > 0 else "no such host"
        raise UsageError(
            f"{command}: cannot listen on {host}, port {port} ({reason}); choose another with"
            f" {options}"
        ) from None


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine reaches it."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def refuse_without_key(listening: socket.socket, key: bool, no_key: bool) -> None:
    """Raises UsageError where others reach the server and need no key for it, unless that is
    meant."""
    if key or no_key or is_loopback(listening):
        return
    raise UsageError(
        f"serve: others can reach {address_of(listening)}, and no key is set; set GRAPHMILL_API_KEY"
        " (in .env or the environment), or pass --no-key where something in front asks for one"
    )


LAST_SECONDS = 2.0
"""That connections get to close once no query runs any more."""


class Server(uvicorn.Server):
    """``end_queries`` is called ``limits.grace`` seconds after the server was asked to end; it may
    be asked from any thread by ``should_exit``."""

    def __init__(self, app: ASGIApp, limits: ServeSettings, end_queries: Callable[[], None]):
        last = limits.grace + LAST_SECONDS
        config = uvicorn.Config(
            app, http=impatient(limits.request_timeout), log_config=None, log_level="warning",
            access_log=False,
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=round(last + 0.5),
            ws="none",
        )  # fmt: skip
        super().__init__(config)
        self.grace, self.end_queries = limits.grace, end_queries

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """What a second Ctrl-C breaks off is no error that anyone has to look into."""
        super().handle_exit(sig, frame)
        if self.force_exit:
            logging.getLogger("uvicorn.error").disabled = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(self.grace, self.end_queries)
        await super().shutdown(sockets)


Made = Callable[[Project, bool], Api]
"""An API of a project, and whether others than this machine may ask."""


def serve(
    project: Project,
    host: str | None = None,
    port: int | None = None,
    no_key: bool = False,
    workers: int = 1,
) -> int:
    """Serve the HTTP API until Ctrl-C or SIGTERM; the exit code. What is left out is as settings
    have it.

    Raises UsageError where it cannot listen, where others could ask without a key and ``no_key``
    does not say that they may, and for more ``workers`` (processes) than can share what settings
    allow.
    """
    from pipeline.serve.app import api_of  # by FastAPI, which tools for assistants need not

    return serve_as(api_of, project, "", host, port, no_key, workers)


def serve_as(
    made: Made,
    project: Project,
    what: str,
    host: str | None,
    port: int | None,
    no_key: bool,
    workers: int,
) -> int:
    """As ``serve``, whatever is ``made`` of the project; ``what``: its name for people."""
    settings = project.settings.serve
    with listen(host or settings.host, settings.port if port is None else port) as listening:
        refuse_without_key(listening, doors_of(project).open is None, no_key)
        for warning in key_warnings(settings):
            say(f"warning: {warning}")
        if workers > 1:
            return _serve_by_workers(made, project, listening, what, workers)
        return serve_by_one(made, project, listening, what)


def serve_by_one(
    made: Made, project: Project, listening: socket.socket, what: str,
    then: Callable[[str], None] | None = None,
    requests: bool = True,
) -> int:  # fmt: skip
    """In this process; ``then`` is called with the address once what it shows can be asked for;
    ``requests``: each has a line on stderr."""
    server = ready_server(made, project, not is_loopback(listening))

    def serving() -> None:
        if then:
            then(address_of(listening))
        server.run(sockets=[listening])

    return run(serving, _about(project, listening, what), requests)


def _about(project: Project, listening: socket.socket, what: str, by: str = "") -> str:
    return f"serving {what}workspace '{project.settings.workspace}'{by} on {address_of(listening)}"


def _serve_by_workers(
    made: Made, project: Project, listening: socket.socket, what: str, workers: int
) -> int:
    from pipeline.serve.workers import Workers, share_of

    own = replace(project, settings=share_of(project.settings, workers))
    with suppress(StoreError):
        project.stores.live()  # an embedded PostgreSQL stays up while one of them is replaced
    with Workers(made, own, listening, not is_loopback(listening), workers) as serving:
        return run(serving.run, _about(project, listening, what, f" by {workers} workers"))


def ready_server(made: Made, project: Project, any_host: bool) -> Server:
    """Of one process."""
    make_ready(project)
    api = made(project, any_host)
    return Server(api.app, project.settings.serve, api.queries.end)


def make_ready(project: Project) -> None:
    """Make what queries share, before the first has to wait for it. A store that is down is waited
    for by nobody: queries and /health tell of it."""
    with suppress(StoreError):
        project.stores.live()
        project.stores.graph.shown()
    project.tokenizer.count("")
    project.reranker  # noqa: B018
    for name in project.settings.models.chat:
        project.query_chat(name)
    for name in project.settings.models.embedding:
        project.query_embedding(name)


def log(requests: bool = True) -> None:
    """On stderr: warnings, and the lines of requests."""
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr
    )
    logging.getLogger("graphmill.serve").setLevel(logging.INFO if requests else logging.WARNING)


def run(serving: Callable[[], None], about: str, requests: bool = True) -> int:
    """0 after SIGTERM, 130 after Ctrl-C."""
    log(requests)
    say(f"{about}; Ctrl-C ends it")
    code = 0
    try:
        serving()
    except Terminated:
        pass
    except KeyboardInterrupt:
        code = INTERRUPTED
    say("stopped serving")
    return code


def say(message: str) -> None:
    print(f"graphmill: {message}", file=sys.stderr, flush=True)  # noqa: T201 - the command's own word
