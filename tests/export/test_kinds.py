"""Where an export may write, and what it says where it may not or there is nothing."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import DataError, UsageError
from pipeline.export.kinds import KINDS, export
from pipeline.export.source import ExportSource
from pipeline.snapshots.store import Manifest
from tests.export.hostile import hostile_tables, source_of

every_kind = pytest.mark.parametrize("kind", sorted(KINDS))


@pytest.fixture
def source(tmp_path: Path) -> ExportSource:
    return source_of(hostile_tables(), tmp_path)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@every_kind
def test_the_same_tables_give_the_same_files(kind: str, source: ExportSource, tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / 'a folder\'s näme\nwith, `all` "of" $(it)'
    exported = export(kind, source, one)
    assert set(exported.files) == {path.name for path in one.iterdir()}
    export(kind, source, two)
    assert contents(one) == contents(two)


@every_kind
def test_a_folder_with_files_is_refused_unless_forced(
    kind: str, source: ExportSource, tmp_path: Path
):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"out is not empty; .*--force"):
        export(kind, source, folder)
    assert contents(folder) == {"mine.txt": b"mine"}
    first = contents(export(kind, source, folder, force=True).folder)
    assert first["mine.txt"] == b"mine"
    export(kind, source, folder, force=True)
    assert contents(folder) == first


def test_a_file_instead_of_a_folder_is_refused(source: ExportSource, tmp_path: Path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UsageError, match="out is a file; name a folder"):
        export("csv", source, tmp_path / "out", force=True)
    with pytest.raises(UsageError, match="Not a directory; name a folder you may write to"):
        export("csv", source, tmp_path / "out" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_a_usage_error(source: ExportSource, tmp_path: Path):
    (tmp_path / "out").mkdir(mode=0o500)
    with pytest.raises(UsageError, match="Permission denied; name a folder you may write to"):
        export("csv", source, tmp_path / "out")


def test_an_unknown_kind_is_a_usage_error(source: ExportSource, tmp_path: Path):
    with pytest.raises(
        UsageError, match="no kind 'xlsx'; have: graphml, csv, neo4j-admin, parquet"
    ):
        export("xlsx", source, tmp_path / "out")


@every_kind
def test_a_workflow_without_tables_is_a_usage_error(
    kind: str, source: ExportSource, tmp_path: Path
):
    with pytest.raises(
        UsageError, match="workflow 'fast': nothing to export; run 'graphmill index fast' first"
    ):
        export(kind, replace(source, manifest=Manifest("fast")), tmp_path / "out")
    tables = {name: source.manifest.tables[name] for name in ("documents", "text_units")}
    with pytest.raises(UsageError, match="it writes no entities, relationships; export another"):
        export(kind, replace(source, manifest=Manifest("fast", tables)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@every_kind
def test_a_damaged_snapshot_is_a_data_error(kind: str, source: ExportSource, tmp_path: Path):
    path = source.snapshots.root / source.manifest.tables["relationships"].files[0].path
    path.write_bytes(path.read_bytes()[:-9] + b"\x00" * 9)
    with pytest.raises(DataError, match="damaged"):
        export(
            kind,
            replace(source, snapshots=type(source.snapshots)(source.snapshots.root)),
            tmp_path / "out",
        )
