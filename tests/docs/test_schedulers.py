"""The code of docs/schedulers.md runs, with stand-ins for the schedulers and a real project."""

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from pipeline.settings.schedules import COMMAND, PROJECT, find_command
from tests.projects import ProjectFolder, new_project

PAGE = Path(__file__).parents[2] / "docs" / "schedulers.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    return new_project(tmp_path_factory.mktemp("schedulers") / "p", postgres_url, workflow="fast")


def code_of(heading: str, folder: ProjectFolder) -> str:
    """Return the code below a heading, with the real paths."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found
    return found[1].replace(COMMAND, find_command()).replace(PROJECT, str(folder.root))


def run_code(
    code: str, modules: Mapping[str, Mapping[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    namespace: dict[str, Any] = {"__name__": "dags"}
    exec(compile(code, str(PAGE), "exec"), namespace)
    return namespace


def undecorated(*given: Any, **options: Any) -> Any:
    """Stand for a decorator that changes nothing, with or without options."""
    if given and callable(given[0]):
        return given[0]
    return undecorated


def outcomes(folder: ProjectFolder) -> list[str]:
    return [entry["outcome"] for entry in folder.invoke("runs", "--json").json]


def test_the_commands_of_airflow(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch):
    operators: dict[str, dict[str, Any]] = {}

    def operator(task_id: str, **options: Any) -> MagicMock:
        operators[task_id] = options
        return MagicMock()

    modules: dict[str, dict[str, Any]] = {
        "airflow": {},
        "airflow.providers": {},
        "airflow.providers.standard": {},
        "airflow.providers.standard.operators": {},
        "airflow.providers.standard.operators.bash": {"BashOperator": operator},
        "airflow.sdk": {"DAG": MagicMock()},
    }
    run_code(code_of("Airflow", folder), modules, monkeypatch)
    before = len(outcomes(folder))
    for name in ("run", "gc"):
        line = ["/bin/sh", "-c", operators[name]["bash_command"]]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert outcomes(folder)[: len(outcomes(folder)) - before] == ["completed"]
    assert operators["run"]["skip_on_exit_code"] == 4


@pytest.fixture
def dagster(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    content = {
        "asset": undecorated,
        "op": undecorated,
        "job": undecorated,
        "Failure": RuntimeError,
        "MaterializeResult": dict,
        "AssetExecutionContext": MagicMock,
        "Definitions": MagicMock(),
        "ScheduleDefinition": MagicMock(),
    }
    return run_code(code_of("Dagster", folder), {"dagster": content}, monkeypatch)


def test_the_commands_of_dagster(folder: ProjectFolder, dagster: dict[str, Any]):
    result = dagster["knowledge_graph"](MagicMock())
    assert result["metadata"] == {"outcome": "completed", "calls": 0, "rejects": 0}
    dagster["weekly_gc"]()


def test_prefect_tells_a_failure_that_needs_somebody(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    content = {"flow": undecorated, "task": undecorated}
    modules = {"prefect": content, "prefect.states": {"Completed": MagicMock()}}
    code = code_of("Prefect", folder)
    nightly: Callable[[], None] = run_code(code, modules, monkeypatch)["nightly"]
    assert nightly() is None
    wrong = run_code(code.replace('"run",', '"run", "nonsense",'), modules, monkeypatch)
    with pytest.raises(wrong["NeedsSomebody"], match="no such workflow"):
        wrong["nightly"]()
