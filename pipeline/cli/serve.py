"""serve and mcp: queries for other programs."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Annotated

import typer

from pipeline.cli.options import Folder, Overrides, open_project
from pipeline.errors import UsageError

Host = Annotated[str | None, typer.Option(help="The address to listen on; by default settings', 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="By default settings', 8020; 0: a free one.")]
NoKey = Annotated[bool, typer.Option("--no-key", help="Let others ask without a key.")]


def serve(
    context: typer.Context, host: Host = None, port: Port = None, no_key: NoKey = False, folder: Folder = None,
    overrides: Overrides = None,
) -> None:  # fmt: skip
    """Answer questions over HTTP: /query, /query/stream, /query/data, /health, /docs."""
    with open_project(context, folder, overrides) as project:
        with extra("serve", "fastapi", "uvicorn"):
            from pipeline.serve.server import serve as serve_project
        code = serve_project(project, host, port, no_key)
    raise typer.Exit(code)


def mcp(
    context: typer.Context, http: Annotated[bool, typer.Option("--http", help="Over HTTP, not stdio.")] = False,
    host: Host = None, port: Port = None, no_key: NoKey = False, folder: Folder = None, overrides: Overrides = None,
) -> None:  # fmt: skip
    """Tools for assistants, by the Model Context Protocol: query_data, and query where there is a chat model."""
    with open_project(context, folder, overrides) as project:
        with extra("mcp", "mcp", "uvicorn"):
            from pipeline.serve.mcp_server import serve_http, serve_stdio
        code = serve_http(project, host, port, no_key) if http else serve_stdio(project)
    raise typer.Exit(code)


@contextmanager
def extra(name: str, *packages: str) -> Iterator[None]:
    """Imports that need it. Raises UsageError where it is not installed."""
    if not all(map(find_spec, packages)):
        raise UsageError(f"{name}: the extra is not installed; pip install 'graphmill[{name}]'")
    yield
