"""Each file, function and class that the tour of the code names is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("tour.md", "tour-document.md", "tour-question.md", "tour-rooms.md")
QUOTED = re.compile(r"^#+ (.+)$|`([^`\n]+)`", re.MULTILINE)
NAMES_A_FILE = re.compile(r"(\w+/)*\w+\.py|\w[\w-]*/[\w./-]*")
FUNCTION = re.compile(r"([\w.]+)\(\)")
CLASS = re.compile(r"[A-Z]\w+")


def names_of(file: Path) -> set[str]:
    """Return the functions, classes and constants of a file, and methods as ``Class.method``."""
    names: set[str] = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                    names.add(f"{node.name}.{item.name}")
    return names


def find_file(name: str) -> Path | None:
    """Return a file or folder of the package, or else of the repository; None if there is none."""
    places = (ROOT / "pipeline" / name, ROOT / name)
    return next((place for place in places if place.exists()), None)


def missing_in(page: str) -> list[str]:
    """Return what the page names and the code lacks. A name is looked for in the files that are
    named since the last heading, the heading included."""
    missing: list[str] = []
    names: set[str] = set()
    # A name may stand before its file, as in "`graph()` of `text/ids.py`".
    wanted: list[str] = []
    for heading, quoted in [*QUOTED.findall(page), ("End", "")]:
        if heading:
            missing += [name for name in wanted if _plain(name) not in names]
            names, wanted = set(), []
        named = heading or quoted
        if NAMES_A_FILE.fullmatch(named):
            file = find_file(named)
            if file is None:
                missing.append(named)
            elif file.suffix == ".py":
                names |= names_of(file)
        elif not heading and (FUNCTION.fullmatch(named) or CLASS.fullmatch(named)):
            wanted.append(named)
    return missing


def _plain(name: str) -> str:
    return name.removesuffix("()")


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
        "`Planner` stands here.\n\n### engine/plan.py\n",
        "`look()` of `engine/plan.py` is one.",
        "Words are in `pages/texts/words.yaml`.",
    ],
)
def test_a_name_that_the_code_lacks_is_found(page: str):
    assert len(missing_in(page)) == 1


def test_a_name_may_stand_before_its_file():
    assert missing_in("`match_key()` of `text/ids.py`, in `prompts/`.") == []


def test_each_room_is_in_the_tour():
    text = "".join((ROOT / "docs" / page).read_text("utf-8") for page in PAGES)
    folders = [path.parent for path in (ROOT / "pipeline").glob("*/__init__.py")]
    assert [room.name for room in folders if f"{room.name}/" not in text] == []
