"""Records of loads: for each loaded version, the snapshots that its rows were made of.

    <snapshots>/loaded/<version>.json

With the record of the last load, the next one compares snapshots and reads only the rows that
differ. The records may be deleted at any time: then all rows are compared with those in the stores.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.errors import DamagedError, DataError, DiskFullError
from pipeline.snapshots.manifests import Manifest, snapshot_of
from pipeline.snapshots.store import SnapshotStore
from pipeline.snapshots.tables import Snapshot

FOLDER = "loaded"
KEPT = 16
"""The number of records that are kept, the newest ones. The stores of several workspaces may show
different versions."""


@dataclass(frozen=True)
class LoadedVersion:
    """The record of one load.

    ``tables``: the snapshot of each snapshot table. ``code``: fingerprints of the code that
    projects rows and hashes them. ``types``: how many relationships ask for each type; the most
    frequent ``max_types`` of them are types in a store.
    """

    tables: Mapping[str, Snapshot]
    code: Sequence[str]
    max_types: int
    types: Mapping[str, int]


@dataclass(frozen=True)
class LoadedVersions:
    """The records of loads in the folder of a snapshot store."""

    snapshots: SnapshotStore

    def keep(self, version: str, loaded: LoadedVersion) -> None:
        """Write the record of a version, and delete old records.

        If the disk is full, nothing is written: the load goes on without its record.
        """
        with suppress(DiskFullError):
            self.snapshots.folder.write(_record_name(version), asdict(loaded))
        self._forget_old(_record_name(version))

    def find(self, version: str, now: Manifest) -> LoadedVersion | None:
        """Return the record of a version, or None if it is unknown or unusable.

        It is unusable if one of its snapshot files is missing or damaged. Files that the manifest
        ``now`` shares are not checked here: they are checked when they are read.
        """
        with suppress(
            OSError, DamagedError, DataError, KeyError, TypeError, AttributeError, ValueError
        ):
            found = _parse_record(self.snapshots.folder.read(_record_name(version)))
            shared = {path for snapshot in now.tables.values() for path in snapshot.paths}
            own: list[str] = []
            for snapshot in found.tables.values():
                own += [path for path in snapshot.paths if path not in shared]
            self.snapshots.tables.require_files(own)
            return found
        return None

    def forget(self) -> None:
        """Delete all records."""
        self.snapshots.folder.clear(FOLDER)

    def _forget_old(self, newest: str) -> None:
        """Delete all but the newest KEPT records, and all files that are no records.

        ``newest``: the record just written. It stays whatever the clocks of other machines say.
        """
        others = [file for file in self.snapshots.folder.listed(FOLDER) if file.name != newest]
        others.sort(key=lambda file: file.changed, reverse=True)
        # Earlier versions of the software wrote files of other names here.
        records = [file.name for file in others if file.name.endswith(".json")]
        # The newest record is one of those that stay.
        stay = records[: KEPT - 1]
        self.snapshots.folder.delete([file.name for file in others if file.name not in stay])


def _record_name(version: str) -> str:
    return f"{FOLDER}/{version}.json"


def _parse_record(content: Mapping[str, Any]) -> LoadedVersion:
    tables = {name: snapshot_of(snapshot) for name, snapshot in content["tables"].items()}
    return LoadedVersion(tables, content["code"], content["max_types"], content["types"])
