"""The documents that the project itself has written, each with its state: whether a run has read
it, and what has become of it."""

import bisect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipeline.contract.conversion import own_converters
from pipeline.documents.owned import Kept, OwnFolder
from pipeline.errors import UsageError
from pipeline.runs.reports import STAMP

if TYPE_CHECKING:
    from pipeline.runs.services import Services

WAITING, IN, LEFT_OUT = "waiting", "in", "left_out"
PARTS = ("#", ":")
"""The characters that separate the name of a file from a record, a page or a line of it."""


@dataclass(frozen=True)
class PostedDocument:
    """A document with its state.

    ``state`` is "waiting" until a run that began after the document was written has loaded its
    tables; then it is "in", or "left_out" if nothing of the document is in the tables. ``since`` is
    when that run ended. ``document_ids``: those of the tables; a file of records has several.
    ``left_out``: step, reason and message of each part that is not in the tables.
    """

    id: str
    source: str
    size: int
    written: str
    state: str
    since: str = ""
    run: str = ""
    document_ids: Sequence[str] = ()
    left_out: Sequence[Mapping[str, str]] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id, "source": self.source, "bytes": self.size, "written": self.written,
            "state": self.state, "since": self.since, "run": self.run,
            "document_ids": list(self.document_ids),
            "left_out": [dict(one) for one in self.left_out],
        }  # fmt: skip


def own_folder(project: "Services") -> OwnFolder:
    """Return the folder of the project's own documents."""
    from pipeline.documents.conversion import CONVERTED
    from pipeline.documents.file_documents import RECORDS, WHOLE

    own = own_converters(project.settings.input.converter)
    readable = WHOLE | RECORDS | CONVERTED | (own.keys() - {""})
    given, name = project.settings.input, project.settings.input.owned
    was_mounted = name in _mounts_of(project)
    return OwnFolder(project.input_folder, name, frozenset(readable), given.encoding, was_mounted)


def _mounts_of(project: "Services") -> list[str]:
    """Return the folders of the input that the last run found to be mount points."""
    from pipeline.documents.load_params import MOUNTS

    found: list[str] = []
    for record in project.snapshots.manifest(project.shown_workflow()).steps.values():
        found += json.loads(record.components["inputs"].get(MOUNTS, "[]"))
    return found


def rows_of(
    texts: "str | Sequence[str] | Mapping[str, str] | pd.DataFrame",
) -> list[dict[str, Any]]:
    """Return the arguments of ``OwnFolder.text`` for each text, as ``Project.add`` takes them.

    Raises UsageError for a DataFrame without a column ``text``.
    """
    if isinstance(texts, str):
        return [{"text": texts}]
    if isinstance(texts, Mapping):
        return [{"id": id, "text": text} for id, text in texts.items()]
    if not isinstance(texts, pd.DataFrame):
        return [{"text": text} for text in texts]
    if "text" not in texts.columns:
        raise UsageError("add: no column 'text' in the DataFrame; name the column of the texts so")
    rows: list[dict[str, Any]] = []
    for record in texts.to_dict("records"):
        # A missing cell is no metadata; lists and dicts are never missing.
        given = {str(name): value for name, value in record.items() if not _is_missing(value)}
        own = {name: str(given.pop(name, "")) for name in ("text", "id", "title")}
        rows.append({**own, "metadata": {name: _plain(value) for name, value in given.items()}})
    return rows


def _is_missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _plain(value: Any) -> Any:
    """Return a cell as a value of JSON: a number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def states_of(project: "Services", kept: Sequence[Kept]) -> list[PostedDocument]:
    """Return these documents with their states, by the runs of the workflow that the workspace
    shows."""
    folder, runs = own_folder(project), _Runs(project)
    tables = _Tables(project, runs.workflow, folder)
    found = []
    for one in kept:
        source, report = folder.source_of(one.id), runs.first_after(one.changed)
        if report is None:
            found.append(PostedDocument(one.id, source, one.size, one.since, WAITING))
            continue
        ids, left_out = tables.ids.get(source, ()), tables.left_out.get(source, ())
        state = IN if ids else LEFT_OUT
        found.append(
            PostedDocument(
                one.id, source, one.size, one.since, state, report["ended"], report["run_id"], ids,
                left_out,
            )
        )  # fmt: skip
    return found


class _Runs:
    """The runs of the shown workflow that have loaded tables."""

    def __init__(self, project: "Services"):
        self.runs, self.workflow = project.runs, project.shown_workflow()
        self.ids = self.runs.all_ids()
        self._by_place: dict[int, dict[str, Any] | None] = {}

    def first_after(self, moment: float) -> dict[str, Any] | None:
        """Return the report of the first run that began after the moment, in seconds since 1970;
        None if there is none."""
        stamp = f"{datetime.fromtimestamp(moment, UTC):{STAMP}}"
        place = bisect.bisect_right(self.ids, stamp)
        if place not in self._by_place:
            self._by_place[place] = self._first_from(place)
        return self._by_place[place]

    def _first_from(self, place: int) -> dict[str, Any] | None:
        for run_id in self.ids[place:]:
            report = self.runs.report(run_id)
            if report and report["workflow"] == self.workflow and report["load"]:
                return report
        return None


class _Tables:
    """The rows of the last run's tables about documents of the folder, by their source."""

    def __init__(self, project: "Services", workflow: str, folder: OwnFolder):
        self.project, self.folder = project, folder
        self.manifest = project.snapshots.manifest(workflow)

    @cached_property
    def ids(self) -> Mapping[str, list[str]]:
        """The ids of documents."""
        found: dict[str, list[str]] = {}
        for id, source in self._rows("documents", ["id", "source"]):
            found.setdefault(_file_of(source), []).append(id)
        return found

    @cached_property
    def left_out(self) -> Mapping[str, list[dict[str, str]]]:
        """The rejects whose rows are files, or parts of files."""
        found: dict[str, list[dict[str, str]]] = {}
        for row_id, step, reason, message in self._rows(
            "rejects", ["row_id", "step", "reason", "message"]
        ):
            reject = {"step": step, "reason": reason, "message": message}
            found.setdefault(_file_of(row_id), []).append(reject)
        return found

    def _rows(self, table: str, columns: list[str]) -> list[tuple[str, ...]]:
        """Return the rows whose first or second column names a file of the folder."""
        if table not in self.manifest.tables:
            return []
        found = self.project.snapshots.tables.read_arrow(self.manifest.tables[table], columns)
        frame = found.to_pandas()
        key = frame["source" if "source" in columns else "row_id"]
        own = frame[key.str.startswith(f"{self.folder.name}/")]
        return list(own[columns].itertuples(index=False, name=None))


def _file_of(source: str) -> str:
    """Return the name of the file of a record, a page or a line."""
    for separator in PARTS:
        source = source.partition(separator)[0]
    return source
