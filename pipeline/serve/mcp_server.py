"""Serve a project's tools to assistants: over stdio, as a child of theirs, or over HTTP."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from starlette.types import ASGIApp

from pipeline.project import Project
from pipeline.serve.address import is_loopback, listen, refuse_without_key
from pipeline.serve.guard import Guard
from pipeline.serve.queries import Queries
from pipeline.serve.request_log import RequestLog
from pipeline.serve.server import Server, make_ready, run
from pipeline.serve.tools import mcp_of

STDIN = 0
EVERYWHERE = "0.0.0.0"  # noqa: S104 - for the SDK's own check of hosts, which Guard does here


def serve_stdio(project: Project) -> int:
    """Until stdin ends, or a signal; the exit code: 0, 130 after Ctrl-C."""
    make_ready(project)
    code, end_stdin = 0, _stdin_that_can_be_ended()

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal code
        code = 130 if number == signal.SIGINT else 0
        end_stdin()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    queries = Queries(project.settings.serve)
    try:
        asyncio.run(mcp_of(project, queries).run_stdio_async())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code


def _stdin_that_can_be_ended() -> Callable[[], None]:
    """What reads stdin cannot be interrupted: it gets a pipe in its place, which the returned function ends."""
    source = os.dup(STDIN)
    readable, writable = os.pipe()
    os.dup2(readable, STDIN)
    os.close(readable)

    def end() -> None:
        with suppress(OSError):  # it has ended already
            os.close(writable)

    def copy() -> None:
        with suppress(OSError):
            while data := os.read(source, 65_536):
                os.write(writable, data)
        end()

    threading.Thread(target=copy, daemon=True, name="stdin").start()
    return end


def serve_http(project: Project, host: str | None = None, port: int | None = None, no_key: bool = False) -> int:
    """At /mcp, with the key and the limits of ``serve``; raises and returns as that does."""
    settings = project.settings.serve
    with listen(host or settings.host, settings.port if port is None else port) as listening:
        refuse_without_key(listening, settings.api_key.get_secret_value(), no_key)
        make_ready(project)
        queries = Queries(settings)
        app = http_app(project, queries, any_host=not is_loopback(listening))
        server = Server(app, settings.grace, queries.end)
        return run(server, listening, f"tools for assistants, /mcp, of workspace '{project.settings.workspace}'")


def http_app(project: Project, queries: Queries, any_host: bool) -> ASGIApp:
    """``any_host``: see Guard."""
    settings = project.settings.serve
    app = mcp_of(project, queries).streamable_http_app(stateless_http=True, json_response=True, host=EVERYWHERE)
    key = settings.api_key.get_secret_value()
    return RequestLog(Guard(app, key, 1024 * settings.max_body_kb, any_host=any_host))
