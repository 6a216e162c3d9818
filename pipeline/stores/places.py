"""Where a project has ever loaded: which workspaces of which databases, kept in the project, without user and password.

    data/workspaces.json    a list of {kind, address, workspace}

Written before a load's first write, so that ``purge`` knows of all that may hold a document.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pipeline.errors import DataError
from pipeline.snapshots import publish_file, temporary_file

FILE = "data/workspaces.json"
DAMAGED = f"{FILE}.damaged"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
EMBEDDED, POSTGRES, NEO4J = "embedded", "postgres", "neo4j"


@dataclass(frozen=True, order=True)
class Place:
    """``kind``: "embedded", "postgres" or "neo4j"; ``address``: host:port/database, empty for the embedded one."""

    kind: str
    address: str
    workspace: str

    def __str__(self) -> str:
        return f"workspace {self.workspace} of {self.database}"

    @property
    def database(self) -> str:
        return f"{self.kind} {self.address}" if self.address else "the embedded PostgreSQL"


@dataclass(frozen=True)
class Places:
    """``root``: the project's."""

    root: Path

    def all(self) -> list[Place]:
        """Raises DataError for a file that is damaged."""
        if not self._path.exists():
            return []
        try:
            return sorted(Place(**entry) for entry in json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(
                f"{self._path}: not readable ({type(error).__name__}); restore it from a backup, or delete it: then "
                "only workspaces of the databases that the settings name are known"
            ) from error

    @property
    def damaged(self) -> Path | None:
        """What a load found here and could not read."""
        path = self.root / DAMAGED
        return path if path.exists() else None

    def note(self, places: Collection[Place]) -> None:
        """Add them. What cannot be read is put aside, for a load goes on without it."""
        try:
            known = self.all()
        except DataError:
            known = []
            self._path.replace(self.root / DAMAGED)
        if not set(places) <= set(known):
            self._write({*known, *places})

    def forget(self, places: Collection[Place]) -> None:
        """They are gone."""
        known = self.all()
        if set(places) & set(known):
            self._write(set(known) - set(places))

    def _write(self, places: Collection[Place]) -> None:
        content = [asdict(place) for place in sorted(places)]
        with temporary_file(self._path.parent) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            publish_file(temporary, self._path)

    @property
    def _path(self) -> Path:
        return self.root / FILE


def postgres_address(url: str) -> str:
    """host:port/database of a URL that postgres.py takes; the folder of the socket where there is no host."""
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
    return "localhost" if host.lower() in LOOPBACK else host.lower() if not host.startswith("/") else host
