"""What purges are under way, written down before the first deletion: one that is killed goes on
from there.

    data/purge.json    {"purges": document -> how far its purge has come}

Gone with the purge: the name of a document that is no more is a trace of it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import DamagedError, DataError, LockedError
from pipeline.files import read_json, write_json
from pipeline.stores.loaded_workspaces import Workspace

FILE = "data/purge.json"


@dataclass(frozen=True)
class WorkspaceContents:
    """What a workspace of the embedded PostgreSQL, which is made anew, shows. ``graph``: where its
    graph is; ``rows``: by table."""

    workspace: str
    workflow: str
    graph: str
    rows: Mapping[str, int]


@dataclass(frozen=True)
class PurgeIntent:
    """``rows``: of the document, by workflow and table, as a survey counts them; ``embedded``: what
    is to be loaded again into the embedded PostgreSQL, None where there is none; ``remade``: it has
    been; ``here``: nothing of the document is left in the project and in the stores that could be
    reached; ``cleaned``: workspaces that are done with."""

    document: str
    rows: Mapping[str, Mapping[str, int | None]]
    embedded: tuple[WorkspaceContents, ...] | None = None
    remade: bool = False
    here: bool = False
    cleaned: tuple[Workspace, ...] = ()


@dataclass(frozen=True)
class PurgeIntents:
    """``root``: the project's."""

    root: Path

    def all(self) -> dict[str, PurgeIntent]:
        """By document. Raises DataError for a damaged file."""
        try:
            return {
                document: _read(document, entry)
                for document, entry in read_json(self._path)["purges"].items()
            }
        except FileNotFoundError:
            return {}
        except (DamagedError, AttributeError, KeyError, TypeError) as error:
            fact = error.fact if isinstance(error, DamagedError) else "not what was written"
            raise DataError(
                f"{self._path}: {fact}; a purge was broken off: delete the file, then purge its"
                " document again"
            ) from error

    def save(self, intention: PurgeIntent) -> PurgeIntent:
        self._write({**self.all(), intention.document: intention})
        return intention

    def end(self, document: str) -> None:
        left = {name: intention for name, intention in self.all().items() if name != document}
        if left:
            self._write(left)
        else:
            self._path.unlink(missing_ok=True)

    def refuse_broken_off(self, but: str | None = None) -> None:
        """Raises LockedError where a purge was broken off, but for that of the document ``but``:
        what it has begun to take out must not come back by a run."""
        for document, intention in self.all().items():
            if not intention.here and document != but:
                raise LockedError(
                    f"{self._path}: the purge of {document} was broken off; 'graphmill purge"
                    f" --document {document}' goes on with it"
                )

    def _write(self, intentions: Mapping[str, PurgeIntent]) -> None:
        content = {document: asdict(intention) for document, intention in intentions.items()}
        write_json(self._path, {"purges": content})

    @property
    def _path(self) -> Path:
        return self.root / FILE


def _read(document: str, entry: Mapping[str, Any]) -> PurgeIntent:
    embedded = entry["embedded"]
    return PurgeIntent(
        document,
        {str(workflow): dict(tables) for workflow, tables in entry["rows"].items()},
        None if embedded is None else tuple(WorkspaceContents(**each) for each in embedded),
        bool(entry["remade"]),
        bool(entry["here"]),
        tuple(Workspace(**each) for each in entry["cleaned"]),
    )
