"""The list of all workspaces that a project has ever loaded, without users and passwords.

    data/workspaces.json    {"workspaces": a list of {kind, address, name}}

A load adds its workspaces before its first write. So ``purge`` knows every place that may hold a
document.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.errors import DamagedError, DataError
from pipeline.files import alone_in, read_json, tell, write_json

FILE = "data/workspaces.json"
DAMAGED = f"{FILE}.damaged"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
EMBEDDED, POSTGRES, NEO4J = "embedded", "postgres", "neo4j"


@dataclass(frozen=True, order=True)
class Workspace:
    """A workspace of a database.

    ``kind``: "embedded", "postgres" or "neo4j". ``address``: "host:port/database", "" for the
    embedded PostgreSQL.
    """

    kind: str
    address: str
    name: str

    def __str__(self) -> str:
        return f"workspace {self.name} of {self.database}"

    @property
    def database(self) -> str:
        return f"{self.kind} {self.address}" if self.address else "the embedded PostgreSQL"


@dataclass(frozen=True)
class LoadedWorkspaces:
    """The list of workspaces of the project in the folder ``root``."""

    root: Path

    def all(self) -> list[Workspace]:
        """Return all workspaces, sorted. Raises DataError if the file is damaged."""
        try:
            return sorted(Workspace(**entry) for entry in read_json(self._list_path)["workspaces"])
        except FileNotFoundError:
            return []
        except (DamagedError, KeyError, TypeError) as error:
            fact = error.fact if isinstance(error, DamagedError) else "not what was written"
            raise DataError(
                f"{self._list_path}: {fact}; restore it from a backup, or move it away: then only"
                " workspaces of the databases that the settings name are known"
            ) from error

    @property
    def damaged(self) -> Path | None:
        """The damaged list that a load has put aside; None if there is none."""
        path = self.root / DAMAGED
        return path if path.exists() else None

    def note(self, workspaces: Collection[Workspace]) -> None:
        """Add workspaces to the list. The caller must hold their locks, as for ``forget``.

        Without the locks, a drop could remove an entry that a load, which waited for it, has just
        added. A damaged list is put aside with a message, and the load goes on.
        """
        with alone_in(self._list_path.parent):
            try:
                known = self.all()
            except DataError as error:
                known = []
                tell(str(error))
                self._list_path.replace(self.root / DAMAGED)
            if not set(workspaces) <= set(known):
                self._write_list({*known, *workspaces})

    def forget(self, workspaces: Collection[Workspace]) -> None:
        """Remove workspaces that were dropped from the list."""
        with alone_in(self._list_path.parent):
            known = self.all()
            if set(workspaces) & set(known):
                self._write_list(set(known) - set(workspaces))

    def _write_list(self, workspaces: Collection[Workspace]) -> None:
        entries = [asdict(workspace) for workspace in sorted(workspaces)]
        write_json(self._list_path, {"workspaces": entries})

    @property
    def _list_path(self) -> Path:
        return self.root / FILE


def postgres_address(url: str) -> str:
    """Return "host:port/database" of a URL that a PostgresStore accepts.

    A URL without a host names the folder of a socket, which then stands in its place.
    """
    from sqlalchemy.engine import make_url

    found = make_url(url)
    query: Mapping[str, object] = found.query
    host = found.host or str(query.get("host") or "localhost")
    port = found.port or query.get("port") or 5432
    database = found.database or query.get("dbname") or found.username or ""
    return f"{_normalize_host(host)}:{port}/{database}"


def neo4j_address(uri: str, database: str) -> str:
    """Return "host:port/database" of a URI of Neo4j."""
    parts = urlsplit(uri)
    return f"{_normalize_host(parts.hostname or '')}:{parts.port or 7687}/{database}"


def _normalize_host(host: str) -> str:
    """Return one spelling of a host; the path of a socket is case-sensitive and stays as it is."""
    if host.startswith("/"):
        return host
    return "localhost" if host.lower() in LOOPBACK else host.lower()
