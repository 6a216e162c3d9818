"""Compare what the stores hold with what a manifest says, row by row."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pandas as pd

from pipeline.errors import UsageError
from pipeline.load.contents import Expected, altered_ids
from pipeline.load.loader import Target, target_of
from pipeline.load.naming import Named, first_named, row_names
from pipeline.load.one_store import reported_name
from pipeline.load.projection import TABLE_SOURCES, require_sources
from pipeline.load.references import IN_STORES, Dangling, References, dangling_in_snapshots
from pipeline.load.wanted import Wanted
from pipeline.schema_version import SCHEMA_VERSION
from pipeline.snapshots import Manifest, SnapshotStore
from pipeline.stores.base import Live, Store

Kind = Literal["missing", "extra", "differing", "altered"]
"""Not in the store; only there; there with another row_hash; with the right row_hash beside another content."""

Hashes = Mapping[str, Mapping[str, str]]
"""Table -> id -> row_hash."""


@dataclass(frozen=True)
class Difference:
    """``rows`` of one kind, and the first of them by name."""

    kind: Kind
    rows: int
    examples: tuple[Named, ...]


@dataclass(frozen=True)
class TableCheck:
    """A table of a store: rows it should have, rows it has, and how they differ."""

    store: str
    table: str
    expected: int
    stored: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Verification:
    """``problems``: what is wrong with what is loaded as a whole. ``quick``: the hashes beside the rows were
    compared, and not the rows."""

    workflow: str
    version: str
    quick: bool
    problems: tuple[str, ...]
    tables: tuple[TableCheck, ...]
    dangling: tuple[Dangling, ...]

    @property
    def agrees(self) -> bool:
        return not (self.problems or self.dangling or any(check.differences for check in self.tables))

    @property
    def repair(self) -> str:
        """The command that makes the stores agree; "" where there is nothing for it to do."""
        kinds = {difference.kind for check in self.tables for difference in check.differences}
        if "altered" in kinds:
            return f"graphmill load {self.workflow} --full"
        return f"graphmill load {self.workflow}" if kinds or self.problems else ""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "agrees": self.agrees, "repair": self.repair}


def verify(
    manifest: Manifest, snapshots: SnapshotStore, stores: Sequence[Store], max_types: int, quick: bool = False
) -> Verification:
    """Compare the stores with the manifest's snapshots; nothing is written.

    ``quick``: compare the row_hash beside each row; else every row is read and hashed anew.
    Raises UsageError when the manifest is empty or lacks a table, StoreError when a store cannot be read, DataError
    when a snapshot is gone or damaged or a store was loaded by a newer version.
    """
    if not manifest.tables:
        raise UsageError(f"workflow '{manifest.workflow}': no tables yet; run 'graphmill index {manifest.workflow}'")
    require_sources(manifest.tables)
    wanted = Wanted(manifest, snapshots, max_types)
    target = target_of(wanted)
    dangling = dangling_in_snapshots(manifest, snapshots)
    rows = {table: wanted.rows(table) for table in TABLE_SOURCES}
    before = {store.name: store.live() for store in stores}
    readable = [store for store in stores if _is_readable(before[store.name])]
    hashes = {store.name: {table: store.hashes(table) for table in store.tables} for store in readable}
    checks = []
    for store in stores:
        ids = _ids(hashes, store)
        for table in store.tables:
            references = References(store.name, reported_name(table, store), IN_STORES.get(table, {}), ids)
            parts = store.rows(table) if store in readable and not quick else ()
            checks.append(_check(store, table, rows[table], ids.get(table, {}), parts, references))
            dangling += references.dangling()
    problems = [*_problems(before, target), *_changes(before, stores)]
    return Verification(target.workflow, target.version, quick, tuple(problems), tuple(checks), tuple(dangling))


def _is_readable(live: Live | None) -> bool:
    """Another version's tables may lack columns."""
    return live is not None and live.schema_version == SCHEMA_VERSION


def _ids(hashes: Mapping[str, Hashes], store: Store) -> Hashes:
    """What the store holds of each table, and what other stores hold of the tables it does not have."""
    others = {table: rows for held in hashes.values() for table, rows in held.items() if table not in store.tables}
    return {**others, **hashes.get(store.name, {})}


def _check(
    store: Store,
    table: str,
    rows: pd.DataFrame,
    stored: Mapping[str, str],
    parts: Iterable[pd.DataFrame],
    references: References,
) -> TableCheck:
    """``rows`` as they should be, ``parts`` as they are, where these are read."""
    expected = Expected.of(store, rows)
    hashes = expected.row_hashes
    extra = stored.keys() - hashes.keys()
    names: dict[str, str] = {}
    altered = altered_ids(_seen(parts, extra, names, references), expected)
    ids: dict[Kind, Collection[str]] = {
        "missing": hashes.keys() - stored.keys(),
        "extra": extra,
        "differing": [id for id, row_hash in stored.items() if id in hashes and hashes[id] != row_hash],
        "altered": altered,
    }
    named = rows[rows["id"].isin([id for found in ids.values() for id in found])]
    names.update(zip(named["id"], row_names(named), strict=True))
    differences = tuple(
        Difference(kind, len(found), first_named(Named(names.get(id, ""), id) for id in found))
        for kind, found in ids.items()
        if found
    )
    return TableCheck(store.name, reported_name(table, store), len(rows), len(stored), differences)


def _seen(
    parts: Iterable[pd.DataFrame], extra: Collection[str], names: dict[str, str], references: References
) -> Iterator[pd.DataFrame]:
    """The parts as they pass; their dangling ids are noted, and the names of their extra rows."""
    for part in parts:
        references.look(part)
        strange = part[part["id"].isin(extra)]
        names.update(zip(strange["id"], row_names(strange), strict=True))
        yield part


def _problems(lives: Mapping[str, Live | None], target: Target) -> Iterator[str]:
    load = f"run 'graphmill load {target.workflow}'"
    for store, live in lives.items():
        if live is None:
            yield f"{store}: nothing is loaded; {load}"
        elif live.schema_version != SCHEMA_VERSION:
            yield f"{store}: loaded by an earlier graphmill (schema {live.schema_version}), not compared; {load}"
        elif live.workflow != target.workflow:
            yield (
                f"{store}: workflow '{live.workflow}' is loaded, not '{target.workflow}'; "
                f"run 'graphmill verify {live.workflow}', or load this one"
            )
        elif live.version != target.version:
            yield f"{store}: version {short(live.version)} is loaded, not {short(target.version)}; {load}"
        elif live.embedding != target.embedding:
            yield f"{store}: vectors of {dict(live.embedding)} are loaded, not of {dict(target.embedding)}; {load}"
    versions = {store: short(live.version) if live else "nothing" for store, live in lives.items()}
    if len(set(versions.values())) > 1:
        shown = ", ".join(f"{store} {version}" for store, version in versions.items())
        yield f"stores: they show different versions ({shown}); {load}"


def _changes(before: Mapping[str, Live | None], stores: Sequence[Store]) -> Iterator[str]:
    for store in stores:
        if _state(store.live()) != _state(before[store.name]):
            yield f"{store.name}: loaded while it was read; run 'graphmill verify' again"


def _state(live: Live | None) -> Any:
    return live and (live, live.tables)


def short(version: str) -> str:
    """Enough of a version to tell it from another."""
    return version[:12]
