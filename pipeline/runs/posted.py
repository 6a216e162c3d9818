"""The documents that the project itself has written, each with its state: whether a run has read
it, and what has become of it."""

import bisect
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.conversion import own_converters
from pipeline.documents.file_hashes import hashed
from pipeline.documents.owned import Kept, OwnFolder
from pipeline.engine.documents.row_deletions import PLACE, file_of
from pipeline.engine.workflow import LOADER
from pipeline.errors import GraphmillError, UsageError
from pipeline.runs.reports import ID_TIME, Runs
from pipeline.snapshots.store import Manifest
from pipeline.snapshots.tables import TableStore

if TYPE_CHECKING:
    from pipeline.runs.services import Services

# Type checkers do not see the functions of pyarrow.compute: they are created at import.
pc: Any = pyarrow.compute
UNMATCHED = "file_pattern"
"""The reason of a document whose name the pattern of the files to read does not match."""
WAITING, IN, LEFT_OUT = "waiting", "in", "left_out"


@dataclass(frozen=True)
class PostedDocument:
    """A document with its state.

    ``state`` is "waiting" until a run has read this content and its tables are loaded; then it is
    "in", or "left_out" if nothing of the document is in the tables. It is "left_out" at once if no
    run will read it, since its name does not match the pattern of the files to read. ``since`` is
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
    from pipeline.documents.pictures import PICTURES

    own = own_converters(project.settings.input.converter)
    readable = WHOLE | RECORDS | CONVERTED | (own.keys() - {""})
    if project.settings.input.pictures.model:
        readable |= PICTURES
    given = project.settings.input
    was_mounted = given.owned in _mounts_of(project)
    return OwnFolder(
        project.input_folder,
        given.owned,
        frozenset(readable),
        given.encoding,
        was_mounted,
        partial(_pattern_of, project),
    )


def _pattern_of(project: "Services") -> str:
    """Return the pattern of the files that the next run reads: that of the workflow, if it has one
    of its own, or of settings."""
    from pipeline.documents.load_params import LoadParams

    with suppress(GraphmillError):
        for step in project.workflow(project.shown_workflow()).steps:
            if isinstance(step.params, LoadParams):
                return step.params.file_pattern
    return project.settings.input.file_pattern


def _mounts_of(project: "Services") -> list[str]:
    """Return the folders of the input that the last run found to be mount points."""
    from pipeline.documents.load_params import MOUNTS

    found: list[str] = []
    for record in project.snapshots.manifest(project.shown_workflow()).steps.values():
        found += json.loads(record.components.get("inputs", {}).get(MOUNTS, "[]"))
    return found


def rows_of(
    texts: "str | Sequence[str] | Mapping[str, str] | pd.DataFrame", folder: OwnFolder
) -> list[dict[str, Any]]:
    """Return the arguments of ``OwnFolder.text`` for each text, as ``Project.add`` takes them.

    ``folder`` has the documents of which some may be replaced. Raises UsageError for a DataFrame
    without a column ``text`` or with two columns of one name, and for a text or an id of another
    type.
    """
    if isinstance(texts, str):
        return [{"text": texts}]
    if isinstance(texts, Mapping):
        return [{"id": _given(id, "an id"), "text": _given(text, "a text")}
                for id, text in texts.items()]  # fmt: skip
    if not isinstance(texts, Iterable):
        raise UsageError(f"add: {type(texts).__name__} holds no texts; give a text or a list")
    if not isinstance(texts, pd.DataFrame):
        return [{"text": _given(text, "a text")} for text in texts]
    if "text" not in texts.columns:
        raise UsageError("add: no column 'text' in the DataFrame; name the column of the texts so")
    if not texts.columns.is_unique:
        raise UsageError("add: two columns of the DataFrame have one name; give each its own")
    rows: list[dict[str, Any]] = []
    for record in texts.to_dict("records"):
        # A missing cell is no metadata.
        given = {str(name): value for name, value in record.items() if not _is_missing(value)}
        id = _id_of(given.pop("id", ""), folder)
        own = {name: _in_words(given.pop(name, "")) for name in ("text", "title")}
        # What is left are columns of the caller's own.
        metadata = {name: _plain(value) for name, value in given.items()}
        rows.append({**own, "id": id, "metadata": metadata})
    return rows


def _given(value: Any, what: str) -> str:
    """Return a text or an id. Raises UsageError if it is of another type."""
    if not isinstance(value, str):
        raise UsageError(f"add: {what} is a {type(value).__name__}; give it as str")
    return value


def _id_of(cell: Any, folder: OwnFolder) -> str:
    """Return the id that a cell gives: of a whole number the one with which a document is there.

    Earlier versions wrote ``7.0`` where a missing cell had made the column one of floats. Such a
    document is replaced under that id, and no second one of the number begins.
    """
    id, value = _in_words(cell), _plain(cell)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return id
    if isinstance(value, float) and not value.is_integer():
        return id
    try:
        as_float = float(value)
    except OverflowError:
        return id
    # A large number may have no float of its own.
    earlier = str(as_float) if int(as_float) == value else id
    has_only_earlier = folder.find(id) is None and folder.find(earlier) is not None
    return earlier if has_only_earlier else id


def _in_words(cell: Any) -> str:
    """Return a cell as a text, a whole number without a fraction.

    A column of whole numbers in which cells are missing holds floats.
    """
    value = _plain(cell)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_missing(value: Any) -> bool:
    """Return whether a cell is missing; lists and dicts never are."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _plain(value: Any) -> Any:
    """Return a cell as a value of JSON: a number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def states_of(project: "Services", folder: OwnFolder, kept: Sequence[Kept]) -> list[PostedDocument]:
    """Return these documents of the folder with their states, by the runs of the workflow that the
    workspace shows."""
    workflow = project.shown_workflow()
    manifest = project.snapshots.manifest(workflow)
    runs = _Runs(project.runs, workflow, manifest)
    sources = [folder.source_of(one.id) for one in kept]
    tables = _Tables(project.snapshots.tables, manifest, sources)
    found = []
    for one, source in zip(kept, sources, strict=True):
        is_read = tables.was_read(folder.path / one.id, source)
        # Without a list of files, the time alone tells whether a run has read it.
        report = runs.first_after(one.changed) if is_read is not False else None
        if is_read and report is None:
            report = runs.loaded
        if report is None:
            found.append(_unread(one, source, folder))
            continue
        ids = tables.ids.get(source, ())
        document = PostedDocument(
            id=one.id,
            source=source,
            size=one.size,
            written=one.since,
            state=IN if ids else LEFT_OUT,
            since=report["ended"],
            run=report["run_id"],
            document_ids=ids,
            left_out=tables.left_out.get(source, ()),
        )
        found.append(document)
    return found


def _unread(one: Kept, source: str, folder: OwnFolder) -> PostedDocument:
    """Return a document that no run has read: it waits for the next one, or no run will read it."""
    fact = folder.unread(one.id)
    if not fact:
        return PostedDocument(one.id, source, one.size, one.since, WAITING)
    left_out = [{"step": LOADER, "reason": UNMATCHED, "message": fact}]
    return PostedDocument(one.id, source, one.size, one.since, LEFT_OUT, left_out=left_out)


class _Runs:
    """The runs of the shown workflow that have loaded tables."""

    def __init__(self, runs: Runs, workflow: str, manifest: Manifest):
        self.runs, self.workflow = runs, workflow
        self.ids = runs.reported_ids()
        steps = manifest.steps.values()
        self.sources = {record.step for record in steps if "documents" in record.outputs}
        self._by_place: dict[int, dict[str, Any] | None] = {}

    def first_after(self, moment: float) -> dict[str, Any] | None:
        """Return the report of the first run that began after the moment, in seconds since 1970;
        None if there is none."""
        stamp = f"{datetime.fromtimestamp(moment, UTC):{ID_TIME}}"
        place = bisect.bisect_right(self.ids, stamp)
        if place not in self._by_place:
            self._by_place[place] = self._first_from(place)
        return self._by_place[place]

    def _first_from(self, place: int) -> dict[str, Any] | None:
        for run_id in self.ids[place:]:
            report = self.runs.report(run_id)
            if report and self._is_of_documents(report) and report["load"]:
                return report
        return None

    @cached_property
    def loaded(self) -> dict[str, Any] | None:
        """The report of the newest run that loaded; None if documents were read since."""
        for run_id in reversed(self.ids):
            report = self.runs.report(run_id)
            if report and report["workflow"] == self.workflow and report["load"]:
                return report
            if report and self._is_of_documents(report):
                return None
        return None

    def _is_of_documents(self, report: Mapping[str, Any]) -> bool:
        """Return whether a run of the workflow has read documents, which a load alone does not."""
        is_ours = report["workflow"] == self.workflow
        return is_ours and any(step["step"] in self.sources for step in report["steps"])


class _Tables:
    """The rows of the last run's tables about these files of the folder, by their source."""

    def __init__(self, tables: TableStore, manifest: Manifest, sources: Sequence[str]):
        self.tables, self.manifest = tables, manifest
        self.wanted = pa.array(sources, pa.string())

    def was_read(self, path: Path, source: str) -> bool | None:
        """Return whether the last run has read the present content of a file; None if that is not
        known."""
        if self._contents is None:
            return None
        listed = self._contents.get(source, "")
        try:
            return listed == hashed(path)[1]
        except OSError:
            # The list has a reason in place of a hash.
            return None if listed else False

    @cached_property
    def _contents(self) -> Mapping[str, str] | None:
        """The hashes of the files as the last run read them; None if its verb keeps no list."""
        for record in self.manifest.steps.values():
            listed = record.outputs.get("files")
            if listed is not None and "documents" in record.outputs:
                columns = ["name", "content"]
                rows = self.tables.read_arrow(listed, columns)
                found = rows.filter(pc.is_in(rows["name"], self.wanted)).to_pydict()
                return dict(zip(found["name"], found["content"], strict=True))
        return None

    @cached_property
    def ids(self) -> Mapping[str, list[str]]:
        """The ids of documents."""
        found: dict[str, list[str]] = {}
        for id, source in self._rows("documents", ["id", "source"]):
            found.setdefault(file_of(source), []).append(id)
        return found

    @cached_property
    def left_out(self) -> Mapping[str, list[dict[str, str]]]:
        """The rejects whose rows are files, or parts of files."""
        found: dict[str, list[dict[str, str]]] = {}
        rejects = self._rows("rejects", ["row_id", "step", "reason", "message"])
        for row_id, step, reason, message in rejects:
            reject = {"step": step, "reason": reason, "message": message}
            found.setdefault(file_of(row_id), []).append(reject)
        return found

    def _rows(self, table: str, columns: list[str]) -> list[tuple[str, ...]]:
        """Return the rows whose first or second column names one of the files."""
        if table not in self.manifest.tables:
            return []
        found = self.tables.read_arrow(self.manifest.tables[table], columns)
        key = found["source" if "source" in columns else "row_id"]
        files = pc.replace_substring_regex(key, PLACE, "")
        own = found.filter(pc.is_in(files, self.wanted)).select(columns).to_pandas()
        return list(own.itertuples(index=False, name=None))
