"""Serve a project's tools to assistants: over stdio, as a child of theirs, or over HTTP."""

import asyncio
import signal

from pipeline.errors import Terminated
from pipeline.project import Project
from pipeline.serve.address import is_loopback, listen, refuse_without_key
from pipeline.serve.guard import Guard
from pipeline.serve.queries import Queries
from pipeline.serve.request_log import RequestLog
from pipeline.serve.server import Server, make_ready, run
from pipeline.serve.tools import mcp_of

EVERYWHERE = "0.0.0.0"  # noqa: S104 - for the SDK's own check of hosts, which Guard does here


def serve_stdio(project: Project) -> int:
    """Until stdin ends, or a signal; the exit code, as of ``run``."""
    make_ready(project)
    queries = Queries(project.settings.serve)
    try:
        asyncio.run(mcp_of(project, queries).run_stdio_async())
    except Terminated:
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def serve_http(project: Project, host: str | None = None, port: int | None = None, no_key: bool = False) -> int:
    """At /mcp, with the key and the limits of ``serve``; raises and returns as that does."""
    settings = project.settings.serve
    with listen(host or settings.host, settings.port if port is None else port) as listening:
        key = settings.api_key.get_secret_value()
        refuse_without_key(listening, key, no_key)
        make_ready(project)
        queries = Queries(settings)
        app = mcp_of(project, queries).streamable_http_app(stateless_http=True, json_response=True, host=EVERYWHERE)
        guarded = Guard(app, key, 1024 * settings.max_body_kb, any_host=not is_loopback(listening))
        server = Server(RequestLog(guarded), settings.grace, queries.end)
        return run(server, listening, f"tools for assistants, /mcp, of workspace '{project.settings.workspace}'")
