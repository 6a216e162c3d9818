"""What --help and status import: nothing that takes time."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer.main

from pipeline.cli import COMMANDS, app
from pipeline.runs.reports import Runs
from pipeline.settings.init import init_project
from tests.runs.test_runs import report

ROOT = Path(__file__).parents[2]
HEAVY = {
    "filelock", "neo4j", "networkx", "numpy", "openai", "pandas", "pipeline.project", "pipeline.settings.schema",
    "psycopg", "pyarrow", "pydantic", "rich", "sqlalchemy", "yaml",
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


def test_one_option_has_one_meaning():
    """By whatever command it is taken."""
    said: dict[str, set[tuple[str | None, str | None]]] = {}
    commands = list(_commands(typer.main.get_command(app)))
    for command in commands:
        for parameter in command.params:
            for name in parameter.opts:
                if name in ("-C", "--set", "--json", "--yes", "--log", "--take-over", "--max-cost", "--allow-deletes"):
                    said.setdefault(name, set()).add((parameter.help, parameter.metavar))
        asks = {name for parameter in command.params for name in parameter.opts} & {"--take-over", "--yes"}
        assert asks in (set(), {"--yes"}, {"--take-over", "--yes"})
    assert {name: len(helps) for name, helps in said.items()} == dict.fromkeys(said, 1)
    assert len(said) == 8
    workflows = {
        parameter.help
        for command in commands
        for parameter in command.params
        if parameter.metavar == "WORKFLOW" or "--workflow" in parameter.opts
    }
    assert len(workflows) == 4  # what makes takes that of settings, what looks that of the workspace; init and import


def _commands(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        yield from _commands(command) if hasattr(command, "commands") else [command]


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
