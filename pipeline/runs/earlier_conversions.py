"""What earlier versions converted, before conversions were kept: it stands in the tables of
documents that they have left, and is the conversion of each file that has been the same since."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile

from pipeline.contract.conversion import Conversion, FileToConvert
from pipeline.documents.files import list_files
from pipeline.engine.deletions import DOCUMENTS, newest_first
from pipeline.engine.kept_documents import KEPT
from pipeline.engine.plan import STAMP
from pipeline.engine.workflow import LOADER, REJECTS
from pipeline.errors import DataError, SettingsError
from pipeline.snapshots.store import SnapshotStore, StepRecord
from pipeline.text.ids import digest

CONVERTER = "markitdown"
"""Of all of them; its version is not known."""
NOTHING = "{}"
"""The metadata of a file that they have converted: what converts today is named there."""
_CLOCK_STEP = 3.0
"""Seconds. Within them two contents may have the same times."""


@dataclass(frozen=True)
class EarlierConversions:
    """``stamp``: of the input folder, as those versions would have taken it now."""

    snapshots: SnapshotStore
    stamp: Callable[[], str]

    def __call__(self, files: Sequence[FileToConvert]) -> Mapping[str, Conversion]:
        """By name, of those of the files that were written before a run began which found them as
        they are now, and of all where the folder is as it was then."""
        found: dict[str, Conversion] = {}
        for manifest in newest_first(self.snapshots):
            for record in manifest.steps.values():
                if record.components.get("verb") == LOADER:
                    began = _began(self.snapshots, manifest.workflow, record)
                    same = record.components.get("inputs", {}).get(STAMP) == self.stamp()
                    names = {
                        file.name for file in files if same or (began and _is_older(file, began))
                    } - set(found)
                    found |= {
                        name: Conversion(text, CONVERTER)
                        for name, text in self._texts(record, names)
                    }
        return found

    def _texts(self, record: StepRecord, names: set[str]) -> Iterator[tuple[str, str]]:
        """Of documents that were read, not kept because they could not be."""
        if not names:
            return
        with suppress(DataError):
            rejects = self.snapshots.read(record.outputs[REJECTS], ["row_id", "kind"])
            kept = set(rejects.loc[rejects["kind"] == KEPT, "row_id"])
            listed = self.snapshots.read(record.outputs[DOCUMENTS], ["source", "metadata"])
            theirs = listed["source"].isin(names - kept) & (listed["metadata"] == NOTHING)
            if theirs.any():
                texts = self.snapshots.read(record.outputs[DOCUMENTS], ["text"])["text"]
                yield from zip(listed.loc[theirs, "source"], texts[theirs], strict=True)


def stamp_of_then(folder: str, pattern: str) -> str:
    """Over the folder's content and the version of the converter."""
    with suppress(PackageNotFoundError, SettingsError):
        return digest(list_files(folder, pattern).digest, version(CONVERTER))
    return ""


def _began(snapshots: SnapshotStore, workflow: str, record: StepRecord) -> float | None:
    """When, by its id, the run did that has made the record, as far as those since are kept: one of
    them may have left the step as it was, whatever had become of the files."""

    def has_it(run: str) -> bool:
        return any(
            record in manifest.steps.values() for manifest in snapshots.kept(workflow, [run])
        )

    runs = list(takewhile(has_it, reversed(snapshots.history(workflow))))
    with suppress(IndexError, ValueError):
        moment = runs[-1].partition("-")[0]
        return datetime.strptime(moment, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC).timestamp()
    return None


def _is_older(file: FileToConvert, moment: float) -> bool:
    with suppress(OSError):
        state = file.path.stat()
        return max(state.st_ctime, state.st_mtime) + _CLOCK_STEP < moment
    return False
