"""What the stores were loaded with: of each version the snapshots that its rows are made of, kept
beside these.

    <snapshots>/loaded/<version>.json

A load finds by them what differs from the one before, and reads no more. All of it may be deleted
at any time: then the rows of the stores are compared.
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
"""Versions, the newest; the stores of several workspaces may show different ones."""


@dataclass(frozen=True)
class LoadedVersion:
    """``tables``: the snapshots; ``code``: fingerprints of what makes rows and hashes of them;
    ``types``: how many relationships ask for each type, of which ``max_types`` are types."""

    tables: Mapping[str, Snapshot]
    code: Sequence[str]
    max_types: int
    types: Mapping[str, int]


@dataclass(frozen=True)
class LoadedVersions:
    """``snapshots``: whose folder they are in."""

    snapshots: SnapshotStore

    def keep(self, version: str, loaded: LoadedVersion) -> None:
        """Where there is space; what is old is forgotten."""
        with suppress(DiskFullError):
            self.snapshots.folder.write(_name(version), asdict(loaded))
        self._forget_old(_name(version))

    def find(self, version: str, now: Manifest) -> LoadedVersion | None:
        """None where it is not known, or a file is gone or damaged that its snapshots do not share
        with those of now."""
        with suppress(
            OSError, DamagedError, DataError, KeyError, TypeError, AttributeError, ValueError
        ):
            found = _read(self.snapshots.folder.read(_name(version)))
            shared = {path for snapshot in now.tables.values() for path in snapshot.paths}
            self.snapshots.require_files(
                path
                for snapshot in found.tables.values()
                for path in snapshot.paths
                if path not in shared
            )
            return found
        return None

    def forget(self) -> None:
        """All of it."""
        self.snapshots.folder.clear(FOLDER)

    def _forget_old(self, newest: str) -> None:
        """Also what an earlier version of the software has kept here. ``newest``: whatever the
        clocks of the machines say that have kept others."""
        others = [kept for kept in self.snapshots.folder.listed(FOLDER) if kept.name != newest]
        others.sort(key=lambda kept: kept.changed, reverse=True)
        stay = [kept for kept in others if kept.name.endswith(".json")][: KEPT - 1]
        self.snapshots.folder.delete([kept.name for kept in others if kept not in stay])


def _name(version: str) -> str:
    return f"{FOLDER}/{version}.json"


def _read(content: Mapping[str, Any]) -> LoadedVersion:
    tables = {name: snapshot_of(snapshot) for name, snapshot in content["tables"].items()}
    return LoadedVersion(tables, content["code"], content["max_types"], content["types"])
