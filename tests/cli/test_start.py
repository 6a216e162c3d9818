"""What --help and status import: nothing that takes time."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from pipeline.cli import COMMANDS
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


def test_help_says_all_that_a_command_says_of_itself():
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "--help"], capture_output=True, text=True, cwd=ROOT, check=True,
        env={**os.environ, "COLUMNS": "40"},
    )  # fmt: skip
    words = " ".join(done.stdout.split())
    assert "..." not in words.replace("[ARGS]...", "")
    for command in COMMANDS:
        assert " ".join((command.__doc__ or "").split()) in words


def test_the_version():
    done = subprocess.run([sys.executable, "-m", "pipeline", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"graphmill {version('graphmill')}\n"


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("status",), ("status", "--json")])
def test_nothing_heavy_is_imported(project: Path, arguments: tuple[str, ...]):
    command = [sys.executable, "-c", MAIN, "-C", str(project), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    imported = done.stderr.split()
    assert "pipeline.cli" in imported
    assert done.stdout
    assert not HEAVY & set(imported)
