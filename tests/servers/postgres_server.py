"""Where tests keep an embedded PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import psycopg

from pipeline.stores.postgres.embedded import start_embedded, stop_embedded


@contextmanager
def server_folder() -> Iterator[Path]:
    """Not below pytest's own folder: under root the server is another user, and any other pytest
    that starts meanwhile shuts that folder to others."""
    with TemporaryDirectory(prefix="graphmill-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "new" / "postgres"
        yield path
        stop_embedded(path)


@dataclass(frozen=True)
class OwnServer:
    """It keeps its data and its address over a kill."""

    folder: Path

    def start(self) -> str:
        return start_embedded(self.folder)

    def kill(self) -> None:
        """All of its processes at once, as when a machine loses power."""
        server = psutil.Process(int((self.folder / "postmaster.pid").read_text().split()[0]))
        processes = [server, *server.children(recursive=True)]
        server.suspend()  # else it would bury its children in order
        for process in processes[::-1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=10)


def make_database(url: str, name: str, template: str = "template1") -> str:
    """The address of a database of its own on the server, like the template."""
    there = f"/{database_of(url)}?"
    with psycopg.connect(url.replace(there, "/postgres?"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    return url.replace(there, f"/{name}?")


def database_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]
