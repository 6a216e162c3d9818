"""Open the page in this machine's browser, for ``graphmill ui``."""

import html
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

from pipeline.errors import UsageError
from pipeline.project import Project
from pipeline.serve.app import api_of
from pipeline.serve.server import listen, say
from pipeline.serve.sessions import OneTimeToken
from pipeline.serve.start import serve_by_one

HERE = "127.0.0.1"
LEADS_ON = (
    '<!DOCTYPE html><meta charset="utf-8"><title>graphmill</title>'
    '<meta http-equiv="refresh" content="0; url={address}"><a href="{address}">graphmill</a>\n'
)


def show(project: Project, port: int | None = None, browser: bool = True) -> int:
    """Serve the person at this machine alone, and open the page in their browser.

    Without a ``port`` it is the port of the settings or, if that is taken, a free one. The terminal
    shows no requests. It shows the address that signs in, and a new one each time it was used.
    Returns the exit code.
    """
    with _listening(project, port) as listening, _file_to_open(project.root / "data") as file:
        address = ""

        def tell(token: str) -> None:
            say(f"sign in at {_signing_in(address, token)} (this address works once)")

        token = OneTimeToken(tell)

        def begin(served_at: str) -> None:
            nonlocal address
            address = served_at
            tell(token.value)
            if browser:
                _open(_signing_in(address, token.value), file)

        made = partial(api_of, token=token)
        return serve_by_one(made, project, listening, "the page of ", begin, requests=False)


def _listening(project: Project, port: int | None) -> socket.socket:
    if port is not None:
        return listen(HERE, port, "ui", "--port")
    try:
        return listen(HERE, project.settings.serve.port)
    except UsageError:
        return listen(HERE, 0)


def _signing_in(address: str, token: str) -> str:
    return f"{address}/login?token={token}"


@contextmanager
def _file_to_open(folder: Path) -> Iterator[Path | None]:
    """Yield a file that only this account can read, or None if none can be written.

    The file is removed at the end.
    """
    file = None
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(
            "w", dir=folder, prefix="open-", suffix=".html", delete=False
        ) as made:
            file = Path(made.name)
    try:
        yield file
    finally:
        if file:
            file.unlink(missing_ok=True)


def _open(address: str, file: Path | None) -> None:
    """Open the address in a browser, by way of a file.

    Other accounts can read a browser's command line, and the address signs in. Nothing is opened
    without a screen, because a browser in the terminal would take the terminal over.
    """
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    has_screen = sys.platform != "linux" or any(os.environ.get(name) for name in variables)
    if not has_screen or file is None:
        return
    file.write_text(LEADS_ON.format(address=html.escape(address)), encoding="utf-8")
    threading.Thread(target=webbrowser.open, args=[file.as_uri()], daemon=True).start()
