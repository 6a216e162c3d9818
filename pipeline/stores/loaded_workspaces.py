"""Where a project has ever loaded: which workspaces of which databases, kept in the project,
without user and password.

    data/workspaces.json    {"workspaces": a list of {kind, address, name}}

Written before a load's first write, so that ``purge`` knows of all that may hold a document.
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
    """``kind``: "embedded", "postgres" or "neo4j"; ``address``: host:port/database, empty for the
    embedded one."""

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
    """``root``: the project's."""

    root: Path

    def all(self) -> list[Workspace]:
        """Raises DataError for a file that is damaged."""
        try:
            return sorted(Workspace(**entry) for entry in read_json(self._path)["workspaces"])
        except FileNotFoundError:
            return []
        except (DamagedError, KeyError, TypeError) as error:
            fact = error.fact if isinstance(error, DamagedError) else "not what was written"
            raise DataError(
                f"{self._path}: {fact}; restore it from a backup, or delete it: then only"
                " workspaces of the databases that the settings name are known"
            ) from error

    @property
    def damaged(self) -> Path | None:
        """What a load found here and could not read."""
        path = self.root / DAMAGED
        return path if path.exists() else None

    def note(self, workspaces: Collection[Workspace]) -> None:
        """Add them. What cannot be read is put aside, for a load goes on without it. To be done by
        who holds the workspaces, as ``forget``: else what a drop forgets is what a load that has
        waited for it has noted."""
        with alone_in(self._path.parent):
            try:
                known = self.all()
            except DataError as error:
                known = []
                tell(str(error))
                self._path.replace(self.root / DAMAGED)
            if not set(workspaces) <= set(known):
                self._write({*known, *workspaces})

    def forget(self, workspaces: Collection[Workspace]) -> None:
        """They are gone."""
        with alone_in(self._path.parent):
            known = self.all()
            if set(workspaces) & set(known):
                self._write(set(known) - set(workspaces))

    def _write(self, workspaces: Collection[Workspace]) -> None:
        write_json(
            self._path, {"workspaces": [asdict(workspace) for workspace in sorted(workspaces)]}
        )

    @property
    def _path(self) -> Path:
        return self.root / FILE


def postgres_address(url: str) -> str:
    """host:port/database of a URL that a PostgresStore takes; the folder of the socket where there
    is no host."""
    from sqlalchemy.engine import make_url

    found = make_url(url)
    query: Mapping[str, object] = found.query
    host = found.host or str(query.get("host") or "localhost")
    port = found.port or query.get("port") or 5432
    database = found.database or query.get("dbname") or found.username or ""
    return f"{_host(host)}:{port}/{database}"


def neo4j_address(uri: str, database: str) -> str:
    parts = urlsplit(uri)
    return f"{_host(parts.hostname or '')}:{parts.port or 7687}/{database}"


def _host(host: str) -> str:
    return (
        "localhost"
        if host.lower() in LOOPBACK
        else host.lower()
        if not host.startswith("/")
        else host
    )
