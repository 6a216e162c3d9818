"""How far PostgreSQL is with an index that it builds, as it tells other connections."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine, func, select, text

from pipeline.stores.base import Advanced

LOOKS_EVERY = 1.0
"""Seconds."""
PATIENCE = "2s"
BUILDING = text("SELECT blocks_done, blocks_total FROM pg_stat_progress_create_index WHERE pid = :process")


@contextmanager
def watched(connection: Connection, part: str, advanced: Advanced) -> Iterator[None]:
    """While the connection builds an index of the part, ``advanced`` is told how many of the table's pages are in it.
    Best effort: where the server does not show it, nothing is told but the beginning and the end."""
    advanced(part, 0, 1)
    watch = _Watch(connection.engine, connection.execute(select(func.pg_backend_pid())).scalar_one(), part, advanced)
    thread = threading.Thread(target=watch.look, name="index progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watch.over.set()
        thread.join()
    advanced(part, watch.pages, watch.pages)


@dataclass
class _Watch:
    engine: Engine
    process: int
    part: str
    advanced: Advanced
    pages: int = 1
    over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Until it is over, or a look fails. What is quickly built is not looked at, and costs no connection."""
        with suppress(Exception):
            if self.over.wait(LOOKS_EVERY):
                return
            with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(select(func.set_config("statement_timeout", PATIENCE, False)))
                try:
                    self._tell(connection)
                finally:
                    connection.invalidate()  # closed, and not kept with a timeout that is not the others'

    def _tell(self, connection: Connection) -> None:
        while True:
            found = connection.execute(BUILDING, {"process": self.process}).first()
            if found and found.blocks_total:
                self.pages = found.blocks_total
                self.advanced(self.part, min(found.blocks_done, self.pages), self.pages)
            if self.over.wait(LOOKS_EVERY):
                return
