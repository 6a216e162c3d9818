"""What commands import: --help and status nothing that takes time, the others what they use."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from pipeline.cli import COMMANDS, app
from pipeline.project import Project
from pipeline.settings.init import init_project
from tests.projects import DOCUMENTS, new_project

ROOT = Path(__file__).parents[2]
NEVER = {"neo4j", "networkx", "openai", "requests", "rich", "scipy", "wordllama"}
GRAPH = NEVER | {
    "pandas",
    "pipeline.engine.workflow",
    "pipeline.load.projection",
    "pipeline.verbs",
    "pyarrow",
}
QUERY = GRAPH | {
    "json_repair", "pipeline.phrases.latin", "pipeline.query.reports.drift",
    "pipeline.query.search.walk",
    "rapidfuzz",
}  # fmt: skip
PLAN = NEVER | {
    "json_repair", "pipeline.doctor", "pipeline.engine.runner", "pipeline.evaluation",
    "pipeline.phrases.latin",
    "pipeline.query", "pipeline.stores.postgres", "psutil", "psycopg", "sqlalchemy", "tokenizers",
}  # fmt: skip
RUN = NEVER | {"pipeline.doctor", "pipeline.evaluation", "pipeline.query", "psycopg"}
LOOK = NEVER | {
    "filelock", "numpy", "pandas", "pipeline.project", "pipeline.settings.schema", "psycopg",
    "pyarrow", "pydantic",
    "sqlalchemy", "yaml",
}  # fmt: skip
IMPORTED = {
    ("--help",): (LOOK, 230),
    ("run", "--help"): (LOOK, 230),
    ("status",): (LOOK, 230),
    ("status", "--json"): (LOOK, 230),
    ("plan",): (PLAN, 1_170),
    ("index", "fast"): (RUN, 1_400),
    ("query", "Who built the Harrow Light?", "--mode", "naive"): (QUERY, 1_230),
    ("query", "Who built the Harrow Light?", "--mode", "mix"): (QUERY, 1_230),
    ("query", "Who built the Harrow Light?", "--mode", "graph"): (GRAPH, 1_230),
}
"""The modules that a command must not import, and how many it may import in all: the number on
Python 3.11, and room for a few new files."""
MAIN = """
import sys
from pipeline.cli import main

sys.argv = ["graphmill", *sys.argv[1:]]
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> dict[str, Path]:
    """Command -> a project that it makes sense in. Only a question has a server of its own: an
    address is read by a library that others do without."""
    looked_at, loaded = tmp_path_factory.mktemp("looked-at"), tmp_path_factory.mktemp("loaded")
    init_project(looked_at)
    for name, text in DOCUMENTS.items():
        (looked_at / "data" / "input" / name).write_text(text, encoding="utf-8")
    with Project.open(looked_at) as project:
        project.index("fast")
    with new_project(loaded / "p", postgres_url, DOCUMENTS).open() as project:
        project.run("fast")
    return {"query": loaded / "p", "": looked_at}


def test_help_says_all_that_a_command_says_of_itself():
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "--help"], capture_output=True, text=True, cwd=ROOT,
        check=True,
        env={**os.environ, "COLUMNS": "40"},
    )  # fmt: skip
    words = " ".join(done.stdout.split())
    assert "..." not in words.replace("[ARGS]...", "")
    for command in COMMANDS:
        assert " ".join((command.__doc__ or "").split()) in words


def test_help_of_a_group_says_all_that_its_commands_say_of_themselves():
    words = " ".join(CliRunner().invoke(app, ["corrections", "--help"]).stdout.split())
    assert "no source is read anew, and no model is asked." in words


def test_help_names_values_in_words():
    for command in ("tune", "query"):
        said = CliRunner().invoke(app, [command, "--help"]).stdout
        assert re.findall(r"<(?:str|int|float)[ \w]*>", said) == []
        assert "--model TEXT" in said


def test_one_option_has_one_meaning():
    """By whatever command it is taken."""
    said: dict[str, set[tuple[str | None, str | None]]] = {}
    commands = list(_commands(typer.main.get_command(app)))
    for command in commands:
        for parameter in command.params:
            for name in parameter.opts:
                if name in (
                    "-C",
                    "--set",
                    "--json",
                    "--yes",
                    "--log",
                    "--take-over",
                    "--max-cost",
                    "--allow-deletes",
                ):
                    said.setdefault(name, set()).add((parameter.help, parameter.metavar))
        asks = {name for parameter in command.params for name in parameter.opts} & {
            "--take-over",
            "--yes",
        }
        assert asks in (set(), {"--yes"}, {"--take-over", "--yes"})
    assert {name: len(helps) for name, helps in said.items()} == dict.fromkeys(said, 1)
    assert len(said) == 8
    workflows = {
        parameter.help
        for command in commands
        for parameter in command.params
        if parameter.metavar == "WORKFLOW" or "--workflow" in parameter.opts
    }
    # A run takes that of the settings, a look that of the workspace; init and two imports have
    # their own.
    assert len(workflows) == 5


def _commands(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        yield from _commands(command) if hasattr(command, "commands") else [command]


def test_the_version():
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"graphmill {version('graphmill')}\n"


@pytest.mark.parametrize("arguments", IMPORTED)
def test_a_command_imports_what_it_uses(projects: dict[str, Path], arguments: tuple[str, ...]):
    root = projects.get(arguments[0], projects[""])
    command = [sys.executable, "-c", MAIN, "-C", str(root), *arguments]
    unmeasured = {
        name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")
    }
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=True, env=unmeasured
    )
    imported = done.stderr.splitlines()[-1].split()
    kept_away, most = IMPORTED[arguments]
    assert done.stdout
    assert "pipeline.cli" in imported
    assert kept_away & set(imported) == set()
    assert len(imported) <= most
