"""What --help and status import: nothing that takes time."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.init import init_project
from pipeline.runs import Runs
from tests.test_runs import report

ROOT = Path(__file__).parents[2]
HEAVY = {
    "filelock", "neo4j", "networkx", "numpy", "openai", "pandas", "pipeline.project", "pipeline.settings", "psycopg",
    "pyarrow", "pydantic", "rich", "sqlalchemy", "yaml",
}  # fmt: skip
MAIN = """
import sys
from pipeline.cli import main

sys.argv = ["graphmill", *sys.argv[1:]]
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    init_project(tmp_path)
    runs = Runs.of(tmp_path)
    runs.save(report(runs.new_id()))
    return tmp_path


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("status",), ("status", "--json")])
def test_nothing_heavy_is_imported(project: Path, arguments: tuple[str, ...]):
    command = [sys.executable, "-c", MAIN, "-C", str(project), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    imported = done.stderr.split()
    assert "pipeline.cli" in imported
    assert done.stdout
    assert not HEAVY & set(imported)
