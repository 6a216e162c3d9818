"""The purges that are under way, noted before the first deletion, so that an interrupted one
continues.

    data/purge.json    {"purges": document -> how far its purge has come}

The note is deleted with the end of the purge, because the name of a purged document is a trace of
it.
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
    """The contents of a workspace of the embedded PostgreSQL, to be loaded again after it was
    recreated.

    ``graph`` is the kind of store that has its graph, ``rows`` counts rows by table.
    """

    workspace: str
    workflow: str
    graph: str
    rows: Mapping[str, int]


@dataclass(frozen=True)
class PurgeIntent:
    """The state of a purge.

    - ``rows`` counts the document's rows by workflow and table, as a survey does.
    - ``embedded`` is what must be loaded again into the embedded PostgreSQL; None if there is none.
    - ``remade`` is true after that was done.
    - ``done_here`` is true if nothing of the document is left in the project and in the stores that
      could be reached.
    - ``cleaned`` has the workspaces that are finished.
    """

    document: str
    rows: Mapping[str, Mapping[str, int | None]]
    embedded: tuple[WorkspaceContents, ...] | None = None
    remade: bool = False
    done_here: bool = False
    cleaned: tuple[Workspace, ...] = ()


@dataclass(frozen=True)
class PurgeIntents:
    """The noted purges of the project in the folder ``root``."""

    root: Path

    def all(self) -> dict[str, PurgeIntent]:
        """Return the purges by document. Raises DataError if the file is damaged."""
        try:
            purges = read_json(self._path)["purges"]
            return {document: _read_intent(document, entry) for document, entry in purges.items()}
        except FileNotFoundError:
            return {}
        except (DamagedError, AttributeError, KeyError, TypeError) as error:
            fact = error.fact if isinstance(error, DamagedError) else "not what was written"
            raise DataError(
                f"{self._path}: {fact}; a purge was broken off: move the file away, then purge its"
                " document again"
            ) from error

    def save(self, intention: PurgeIntent) -> PurgeIntent:
        self._save_all({**self.all(), intention.document: intention})
        return intention

    def end(self, document: str) -> None:
        left = {name: intention for name, intention in self.all().items() if name != document}
        if left:
            self._save_all(left)
        else:
            self._path.unlink(missing_ok=True)

    def refuse_broken_off(self, but: str | None = None) -> None:
        """Raise LockedError if a purge was interrupted, other than that of the document ``but``.

        Otherwise a run could bring back what the purge has begun to remove.
        """
        for document, intention in self.all().items():
            if not intention.done_here and document != but:
                raise LockedError(
                    f"{self._path}: the purge of {document} was broken off; 'graphmill purge"
                    f" --document {document}' goes on with it"
                )

    def _save_all(self, intentions: Mapping[str, PurgeIntent]) -> None:
        content = {document: asdict(intention) for document, intention in intentions.items()}
        write_json(self._path, {"purges": content})

    @property
    def _path(self) -> Path:
        return self.root / FILE


def _read_intent(document: str, entry: Mapping[str, Any]) -> PurgeIntent:
    rows = {str(workflow): dict(tables) for workflow, tables in entry["rows"].items()}
    embedded: tuple[WorkspaceContents, ...] | None = None
    if entry["embedded"] is not None:
        embedded = tuple(WorkspaceContents(**fields) for fields in entry["embedded"])
    return PurgeIntent(
        document=document,
        rows=rows,
        embedded=embedded,
        remade=bool(entry["remade"]),
        done_here=bool(entry["done_here"]),
        cleaned=tuple(Workspace(**fields) for fields in entry["cleaned"]),
    )
