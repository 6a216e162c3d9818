"""The commands serve, ui and mcp: a server of questions, its page, and tools for assistants."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Annotated

import typer

from pipeline.cli.options import Folder, Overrides, open_project
from pipeline.errors import UsageError, install_extra

NOT_SERVED = "stopped serving"
"""The message after Ctrl-C of a server, also of one that is still starting."""

Host = Annotated[
    str | None, typer.Option(help="The address to listen on; by default settings', 127.0.0.1.")
]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="By default settings', 8020; 0: a free one.")
]
NoKey = Annotated[bool, typer.Option("--no-key", help="Let others ask without a key.")]
Workers = Annotated[
    int,
    typer.Option(min=1, max=64, help="Processes that answer; they share settings' concurrency."),
]


def serve(
    context: typer.Context, host: Host = None, port: Port = None, no_key: NoKey = False,
    workers: Workers = 1,
    folder: Folder = None, overrides: Overrides = None,
) -> None:  # fmt: skip
    """Answer questions over HTTP: /query, /query/stream, /query/data, /health, /docs; and a page at
    /."""
    with open_project(context, folder, overrides, stopped=NOT_SERVED) as project:
        with extra("serve", "fastapi", "itsdangerous", "uvicorn"):
            from pipeline.serve.start import serve as serve_project
        code = serve_project(project, host, port, no_key, workers)
    raise typer.Exit(code)


def ui(
    context: typer.Context,
    browser: Annotated[bool, typer.Option("--browser/--no-browser",
        help="Open it in a browser.")] = True,
    port: Port = None,
    folder: Folder = None, overrides: Overrides = None,
) -> None:  # fmt: skip
    """Open a page in this machine's browser: ask, look at the graph, at documents and at runs."""
    with_page = [*(overrides or []), "serve.page=true"]
    with open_project(context, folder, with_page, stopped=NOT_SERVED) as project:
        with extra("serve", "fastapi", "itsdangerous", "uvicorn"):
            from pipeline.serve.browser import show
        code = show(project, port, browser)
    raise typer.Exit(code)


def mcp(
    context: typer.Context, http: Annotated[bool, typer.Option("--http",
        help="Over HTTP, not stdio.")] = False,
    host: Host = None, port: Port = None, no_key: NoKey = False, workers: Workers = 1,
    folder: Folder = None,
    overrides: Overrides = None,
) -> None:  # fmt: skip
    """Offer tools for assistants by the Model Context Protocol: query_data, and query if there is a
    chat model."""
    with open_project(context, folder, overrides, stopped=NOT_SERVED) as project:
        with extra("mcp", "mcp", "uvicorn"):
            from pipeline.serve.mcp import serve_http, serve_stdio
        if workers > 1 and not http:
            raise UsageError("mcp: --workers is of a server; add --http")
        code = serve_http(project, host, port, no_key, workers) if http else serve_stdio(project)
    raise typer.Exit(code)


@contextmanager
def extra(name: str, *packages: str) -> Iterator[None]:
    """Import inside what needs an extra and its packages.

    Raises UsageError if one of the packages is not installed.
    """
    missing = [package for package in packages if not find_spec(package)]
    if missing:
        raise UsageError(f"{name}: {missing[0]} is not installed; {install_extra(name)}")
    yield
