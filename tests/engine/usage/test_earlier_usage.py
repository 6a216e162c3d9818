"""Check that the usage files of earlier versions are read, and that nobody is told to delete one."""

import shutil
from pathlib import Path

import pytest

from pipeline.engine.usage.journal import read_usage
from tests.projects import NO_STORE, new_project
from tests.servers.openai_server import OpenAIServer

EARLIER = Path(__file__).parent / "earlier"
"""Two files as commit 227318d named and wrote them: the run id alone, without a digest of the content."""
CALLS = {"20261124T054629.968639-1ea945": 3, "20261124T054644.365856-36d80a": 1}


def calls_by_run(folder: Path) -> dict[str, int]:
    return read_usage(folder).groupby("run_id").size().to_dict()


def test_usage_files_that_have_only_the_run_id_in_their_name_are_read(capsys: pytest.CaptureFixture[str]):
    assert sorted(path.stem for path in EARLIER.iterdir()) == sorted(CALLS)
    assert calls_by_run(EARLIER) == CALLS
    assert "damaged" not in capsys.readouterr().err


def test_the_command_usage_sums_the_runs_of_an_earlier_version(tmp_path: Path, openai: OpenAIServer):
    folder = new_project(tmp_path / "p", NO_STORE, endpoint=openai)
    shutil.copytree(EARLIER, folder.root / "data/usage")
    done = folder.invoke("usage", "--by", "run", "--json")
    assert {row["run_id"]: row["calls"] for row in done.json} == CALLS
    assert sum(row["cost"] for row in done.json) == pytest.approx(0.0005901 + 0.00019185)
    assert "damaged" not in done.stderr


def test_a_usage_file_that_is_damaged_is_named_and_nobody_is_told_to_delete_it(tmp_path: Path, openai: OpenAIServer):
    folder = new_project(tmp_path / "p", NO_STORE, endpoint=openai)
    folder.report("index", "index")
    (path,) = (folder.root / "data/usage").glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = folder.invoke("usage", "--by", "run")
    assert f"{path}: damaged" in done.stderr
    assert "delete" not in done.stderr
