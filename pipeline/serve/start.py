"""Start the server: in this process, or by several workers at one address."""

import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pipeline.errors import StoreError
from pipeline.project import Project
from pipeline.serve.access import access_list_of
from pipeline.serve.server import (
    Made,
    address_of,
    is_loopback,
    listen,
    ready_server,
    refuse_without_key,
    run,
    say,
)
from pipeline.serve.workers import Workers, share_of
from pipeline.settings.keys import key_warnings, unknown_models

if TYPE_CHECKING:
    from pipeline.serve.metrics import Counts


def serve(
    project: Project,
    host: str | None = None,
    port: int | None = None,
    no_key: bool = False,
    workers: int = 1,
) -> int:
    """Serve the HTTP API until Ctrl-C or SIGTERM, and return the exit code.

    The host and the port come from the settings if they are left out. Raises UsageError if it
    cannot listen, or if others could ask without a key and ``no_key`` is not given. Also raises it
    for more ``workers`` (processes) than can share the limits of the settings.
    """
    # It needs FastAPI, which the extra for assistants' tools does not install.
    from pipeline.serve.app import api_of
    from pipeline.serve.metrics import Counts, MetricsPage, metrics_at_port, shared_counts

    settings = project.settings.serve
    if not settings.metrics_key.get_secret_value() and settings.metrics_port is None:
        return serve_as(api_of, project, "", host, port, no_key, workers)
    counts = shared_counts(workers) if workers > 1 else Counts()
    with ExitStack() as stack:
        if settings.metrics_port is not None:
            page = MetricsPage(project, counts)
            at = host or settings.host
            number = stack.enter_context(metrics_at_port(page, at, settings.metrics_port, no_key))
            say(f"metrics on http://{at}:{number}/metrics")
        return serve_as(api_of, project, "", host, port, no_key, workers, counts)


def serve_as(
    made: Made,
    project: Project,
    what: str,
    host: str | None,
    port: int | None,
    no_key: bool,
    workers: int,
    counts: "Counts | None" = None,
) -> int:
    """Serve the API that ``made`` makes of the project, as ``serve`` does.

    ``what`` is its name in messages. ``counts`` are those of /metrics, if it is on.
    """
    settings = project.settings.serve
    with listen(host or settings.host, settings.port if port is None else port) as listening:
        refuse_without_key(listening, access_list_of(project).open is None, no_key)
        for warning in (*key_warnings(settings), *unknown_models(project.settings)):
            say(f"warning: {warning}")
        if workers > 1:
            return _serve_by_workers(made, project, listening, what, workers, counts)
        one = made if counts is None else partial(made, counts=counts)
        return serve_by_one(one, project, listening, what)


def serve_by_one(
    made: Made, project: Project, listening: socket.socket, what: str,
    then: Callable[[str], None] | None = None,
    requests: bool = True,
) -> int:  # fmt: skip
    """Serve in this process, and return the exit code.

    ``then`` is called with the address when the server is ready. ``requests`` says whether each
    request has a line on stderr.
    """
    server = ready_server(made, project, not is_loopback(listening))

    def serving() -> None:
        if then:
            then(address_of(listening))
        server.run(sockets=[listening])

    return run(serving, _about(project, listening, what), requests)


def _about(project: Project, listening: socket.socket, what: str, by: str = "") -> str:
    return f"serving {what}workspace '{project.settings.workspace}'{by} on {address_of(listening)}"


def _serve_by_workers(
    made: Made, project: Project, listening: socket.socket, what: str, workers: int,
    counts: "Counts | None",
) -> int:  # fmt: skip
    own = replace(project, settings=share_of(project.settings, workers))
    # This process keeps an embedded PostgreSQL running while a worker is replaced.
    with suppress(StoreError):
        project.stores.live()
    with Workers(made, own, listening, not is_loopback(listening), workers, counts) as serving:
        return run(serving.run, _about(project, listening, what, f" by {workers} workers"))
