"""The page in this machine's browser: ``graphmill ui``."""

import os
import socket
import sys
import threading
import webbrowser

from pipeline.errors import UsageError
from pipeline.project import Project
from pipeline.serve.app import api_of
from pipeline.serve.server import listen, serve_by_one

HERE = "127.0.0.1"


def show(project: Project, port: int | None = None, browser: bool = True) -> int:
    """Serve this machine alone, and open the page in its browser; the exit code. Without a ``port`` it is that of the
    settings or, where another has it, a free one. Of requests nothing is said: the terminal is a person's."""
    with _listening(project, port) as listening:
        return serve_by_one(api_of, project, listening, "the page of ", _open if browser else None, requests=False)


def _listening(project: Project, port: int | None) -> socket.socket:
    if port is not None:
        return listen(HERE, port, "ui", "--port")
    try:
        return listen(HERE, project.settings.serve.port)
    except UsageError:
        return listen(HERE, 0)


def _open(address: str) -> None:
    """Nothing where there is no screen: a browser in the terminal would take it over."""
    if sys.platform != "linux" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))):
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
