"""Each file, function and class that the tour of the code names is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("tour.md", "tour-question.md")
QUOTED = re.compile(r"^### (\S+)$|`([^`\n]+)`", re.MULTILINE)
CODE_FILE = re.compile(r"[\w/]+(\.py|/)")
FUNCTION = re.compile(r"([\w.]+)\(\)")
CLASS = re.compile(r"[A-Z]\w+")


def names_of(file: Path) -> set[str]:
    """Return the functions, classes and constants of a file, and methods as ``Class.method``."""
    names: set[str] = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


def missing_in(page: str) -> list[str]:
    """Return what the page names and the code lacks. A name is looked for in the file that the
    heading above it names."""
    missing: list[str] = []
    names: set[str] = set()
    for heading, quoted in QUOTED.findall(page):
        file = ROOT / "pipeline" / (heading or quoted)
        if heading:
            names = names_of(file) if file.is_file() else set()
        if heading or CODE_FILE.fullmatch(quoted):
            if not file.exists():
                missing.append(heading or quoted)
            continue
        function = FUNCTION.fullmatch(quoted)
        name = function[1] if function else quoted
        if (function or CLASS.fullmatch(name)) and name not in names:
            missing.append(quoted)
    return missing


@pytest.mark.parametrize("page", PAGES)
def test_all_that_the_tour_names_is_in_the_code(page: str):
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert missing_in(text) == []


@pytest.mark.parametrize(
    "page",
    [
        "### engine/planner.py\n",
        "See `stores/oracle/`.",
        "### engine/plan.py\n\n`plans()` is one.",
        "### engine/plan.py\n\n`Planner.think()` is one.",
        "### engine/plan.py\n\nA `Plan` is one.",
    ],
)
def test_a_name_that_the_code_lacks_is_found(page: str):
    assert len(missing_in(page)) == 1
