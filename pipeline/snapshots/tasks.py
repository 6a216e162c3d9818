"""Notes on finished tasks of an unfinished step, and the files that its processes share.

A step whose rows are divided into tasks (engine/tasks.py) may be done by several processes. Each
task that is finished leaves a note of the files that it wrote. When the step has its record, the
notes are deleted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.errors import DataError
from pipeline.snapshots.folder import UNFINISHED, Folder
from pipeline.snapshots.tables import TableFile
from pipeline.snapshots.versioned_json import read_versioned, with_version

FilesByOutput = dict[str, list[TableFile]]
"""The files that a task wrote, by the names of its outputs."""


@dataclass(frozen=True)
class TaskNotes:
    """The notes and shared files of the tasks in one folder of snapshots."""

    folder: Folder

    def note(self, task: str, files: Mapping[str, Sequence[TableFile]]) -> None:
        """Remember the files of a finished task, by the names of its outputs."""
        # A note points at the files, so they must be kept before it is written.
        self.folder.keep(_paths_of_files(files))
        records: dict[str, list[dict[str, Any]]] = {}
        for output, files_of_output in files.items():
            records[output] = [asdict(file) for file in files_of_output]
        content = with_version({"task": task, "files": records})
        self.folder.note(_path_of(f"{task}.json"), content)

    def read_notes(self, tasks: Collection[str]) -> dict[str, FilesByOutput]:
        """Return the files of those of these tasks that are finished, by the names of the tasks.

        A task counts as finished if all its files are there and undamaged.
        """
        listed_files = self.folder.listed(UNFINISHED)
        names_of_files = {PurePosixPath(listed.name).stem for listed in listed_files}
        files_of_tasks: dict[str, FilesByOutput] = {}
        paths_of_tasks: dict[str, set[str]] = {}
        every_path: set[str] = set()
        for task in tasks:
            files = self._read_note(task) if task in names_of_files else None
            if files is None:
                continue
            files_of_tasks[task] = files
            paths_of_tasks[task] = _paths_of_files(files)
            every_path |= paths_of_tasks[task]
        # One call for the files of all tasks: in an object store each call is a request.
        lacking = self.folder.lacking(every_path)
        finished: dict[str, FilesByOutput] = {}
        for task, paths in paths_of_tasks.items():
            if paths.isdisjoint(lacking):
                finished[task] = files_of_tasks[task]
        return finished

    def _read_note(self, task: str) -> FilesByOutput | None:
        try:
            content = read_versioned(self.folder, _path_of(f"{task}.json"), dict)
        except (FileNotFoundError, DataError):
            return None
        files: FilesByOutput = {}
        for output, records in content["files"].items():
            files[output] = [TableFile(**record) for record in records]
        return files

    def share(self, files: Mapping[str, Path]) -> None:
        """Move these files to where every process finds them by these names.

        They stay there until they are withdrawn or their step has its record. After a crash nobody
        needs them.
        """
        files_by_path = {_path_of(name): file for name, file in files.items()}
        self.folder.share(files_by_path)

    def find_shared(self, name: str) -> Path:
        """Return the path of a shared file. Raises FileNotFoundError, or its first reader does."""
        return self.folder.find_shared(_path_of(name))

    def withdraw(self, names: Collection[str]) -> None:
        """Delete shared files. Only the process that shared them may do so."""
        self.folder.delete([_path_of(name) for name in names])

    def withdraw_own(self, names: Collection[str]) -> None:
        """Delete files that this process shared under names which no other process uses.

        Unlike `withdraw` this is allowed to a process that does not hold the folder alone.
        """
        self.folder.withdraw([_path_of(name) for name in names])

    def clear(self) -> None:
        """Delete all notes and shared files. The caller must hold the folder alone."""
        self.folder.clear(UNFINISHED)


def _path_of(name: str) -> str:
    return f"{UNFINISHED}/{name}"


def _paths_of_files(files: Mapping[str, Sequence[TableFile]]) -> set[str]:
    """Return the paths of the files of all outputs."""
    paths: set[str] = set()
    for files_of_output in files.values():
        paths.update(file.path for file in files_of_output)
    return paths
