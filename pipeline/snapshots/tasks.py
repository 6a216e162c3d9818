"""Notes on finished tasks of an unfinished step, and the files that its processes share.

A step whose rows are divided into tasks (engine/tasks.py) may be done by several processes. Each
task that is finished leaves a note of the files that it wrote. When the step has its record, the
notes are deleted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

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
        self.folder.keep(file.path for some in files.values() for file in some)
        tables = {name: [asdict(file) for file in some] for name, some in files.items()}
        content = with_version({"task": task, "files": tables})
        self.folder.note(_path_of(f"{task}.json"), content)

    def read_notes(self, tasks: Collection[str]) -> dict[str, FilesByOutput]:
        """Return the files of those of these tasks that are finished, by the names of the tasks.

        A task counts as finished if all its files are there and undamaged.
        """
        there = {PurePosixPath(kept.name).stem for kept in self.folder.listed(UNFINISHED)}
        noted: dict[str, FilesByOutput] = {}
        paths: dict[str, set[str]] = {}
        for task in tasks:
            files = self._read_note(task) if task in there else None
            if files is not None:
                noted[task] = files
                paths[task] = {file.path for some in files.values() for file in some}
        every_path = [path for some in paths.values() for path in some]
        lacking = self.folder.lacking(every_path)
        return {task: files for task, files in noted.items() if not paths[task] & lacking}

    def _read_note(self, task: str) -> FilesByOutput | None:
        try:
            content = read_versioned(self.folder, _path_of(f"{task}.json"), dict)
        except (FileNotFoundError, DataError):
            return None
        files: FilesByOutput = {}
        for name, some in content["files"].items():
            files[name] = [TableFile(**file) for file in some]
        return files

    def share(self, files: Mapping[str, Path]) -> None:
        """Move these files to where every process finds them by these names.

        They stay there until they are withdrawn or their step has its record. After a crash nobody
        needs them.
        """
        self.folder.share({_path_of(name): file for name, file in files.items()})

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
