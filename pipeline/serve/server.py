"""Serve an ASGI application on an address until a signal ends it."""

import asyncio
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from pipeline.errors import INTERRUPTED, StoreError, Terminated, UsageError
from pipeline.project import Project
from pipeline.serve.connections import impatient
from pipeline.serve.queries import Api
from pipeline.settings.schema import ServeSettings


def listen(
    host: str, port: int, command: str = "serve", options: str = "--host, --port"
) -> socket.socket:
    """Return a socket that listens on a host and a port; port 0 stands for a free one.

    Raises UsageError if that fails, which names the command and its options for another address.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else 0
        reason = os.strerror(number) if number > 0 else "no such host"
        raise UsageError(
            f"{command}: cannot listen on {host}, port {port} ({reason}); choose another with"
            f" {options}"
        ) from None
    # Accepted connections inherit it. Otherwise the body of an answer waits up to 40 ms for the
    # client's acknowledgement of the headers: asyncio sets the option for sockets of its own only.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listening: socket.socket) -> bool:
    """Return whether only this machine can reach the socket."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def refuse_without_key(listening: socket.socket, key: bool, no_key: bool) -> None:
    """Raise UsageError if other machines can reach a server without a key, unless ``no_key`` says
    that this is meant."""
    if key or no_key or is_loopback(listening):
        return
    raise UsageError(
        f"serve: others can reach {address_of(listening)}, and no key is set; set GRAPHMILL_API_KEY"
        " (in .env or the environment), or pass --no-key where something in front asks for one"
    )


LAST_SECONDS = 2.0
"""The seconds in which connections have to close once no query runs any more."""


class Server(uvicorn.Server):
    """A server that ends its queries ``limits.grace`` seconds after it was told to stop.

    It is told by a signal, or by ``should_exit`` from any thread. ``end_queries`` ends the queries.
    """

    def __init__(self, app: ASGIApp, limits: ServeSettings, end_queries: Callable[[], None]):
        # uvicorn takes whole seconds: rounded up, so that it does not cut off a query's end.
        shutdown_seconds = round(limits.grace + LAST_SECONDS + 0.5)
        config = uvicorn.Config(
            app,
            http=impatient(limits.request_timeout),
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=shutdown_seconds,
            ws="none",
        )
        super().__init__(config)
        self.grace, self.end_queries = limits.grace, end_queries

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal. After a second Ctrl-C no errors are logged, as the person caused
        them."""
        super().handle_exit(sig, frame)
        if self.force_exit:
            logging.getLogger("uvicorn.error").disabled = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(self.grace, self.end_queries)
        await super().shutdown(sockets)


Made = Callable[..., Api]
"""A function that makes the API of a project; the second argument is ``any_host`` of Guard. Where
/metrics is on, it gets ``counts`` too."""


def ready_server(made: Made, project: Project, any_host: bool) -> Server:
    """Return the server of one process, with everything made that queries share."""
    make_ready(project)
    api = made(project, any_host)
    return Server(api.app, project.settings.serve, api.queries.end)


def make_ready(project: Project) -> None:
    """Make the objects that queries share, so that the first query does not wait for them.

    A store that does not answer is ignored here; queries and /health report it.
    """
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
    """Log warnings on stderr, and a line for each request if ``requests``."""
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING, stream=sys.stderr
    )
    logging.getLogger("graphmill.serve").setLevel(logging.INFO if requests else logging.WARNING)


def run(serving: Callable[[], None], about: str, requests: bool = True) -> int:
    """Serve until a signal; return 0 after SIGTERM, 130 after Ctrl-C."""
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
