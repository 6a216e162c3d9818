"""Check that the usage files of earlier versions are read, and that nobody is told to delete
one."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine.usage.journal import read_usage
from tests.projects import NO_STORE, new_project
from tests.servers.openai_server import OpenAIServer

EARLIER = Path(__file__).parent / "earlier"
"""Two files as commit 227318d named and wrote them: the run id alone, without a digest of the
content."""
CALLS = {"20261124T054629.968639-1ea945": 3, "20261124T054644.365856-36d80a": 1}


def calls_by_run(folder: Path) -> dict[str, int]:
    return read_usage(folder).groupby("run_id").size().to_dict()


def test_usage_files_that_have_only_the_run_id_in_their_name_are_read(
    capsys: pytest.CaptureFixture[str],
):
    assert sorted(path.stem for path in EARLIER.iterdir()) == sorted(CALLS)
    assert calls_by_run(EARLIER) == CALLS
    assert "damaged" not in capsys.readouterr().err


def test_the_command_usage_sums_the_runs_of_an_earlier_version(
    tmp_path: Path, openai: OpenAIServer
):
    folder = new_project(tmp_path / "p", NO_STORE, endpoint=openai)
    shutil.copytree(EARLIER, folder.root / "data/usage")
    done = folder.invoke("usage", "--by", "run", "--json")
    assert {row["run_id"]: row["calls"] for row in done.json} == CALLS
    assert sum(row["cost"] for row in done.json) == pytest.approx(0.0005901 + 0.00019185)
    assert "damaged" not in done.stderr


def test_a_usage_file_that_is_damaged_is_named_and_nobody_is_told_to_delete_it(
    tmp_path: Path, openai: OpenAIServer
):
    folder = new_project(tmp_path / "p", NO_STORE, endpoint=openai)
    folder.report("index", "index")
    (path,) = (folder.root / "data/usage").glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = folder.invoke("usage", "--by", "run")
    assert f"{path}: damaged" in done.stderr
    assert "delete" not in done.stderr


def test_a_usage_file_without_a_column_is_named_as_damaged_and_the_others_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "usage"
    shutil.copytree(EARLIER, folder)
    lacking, later = sorted(folder.glob("*.parquet"))
    pq.write_table(pq.read_table(lacking).drop_columns(["at"]), lacking)
    of_a_later_version = pq.read_table(later)
    pq.write_table(
        of_a_later_version.append_column("more", pa.array([1] * len(of_a_later_version))), later
    )
    assert calls_by_run(folder) == {later.stem: CALLS[later.stem]}
    assert f"{lacking}: damaged (it has no column 'at')" in capsys.readouterr().err
