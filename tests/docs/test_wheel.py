"""The wheel is enough without the clone."""

import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing of the project but its wheel; third-party packages come from this
    one."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder),
            str(ROOT)],
        check=True, capture_output=True,
    )  # fmt: skip
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    site = subprocess.check_output(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    ).strip()
    (wheel,) = folder.glob("graphmill-*.whl")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), site], check=True)
    here = next(path for path in sys.path if path.endswith("site-packages"))
    command = python.parent / "graphmill"  # as pip writes it
    command.write_text(f"#!{python}\nfrom pipeline.__main__ import main\n\nmain()\n", "utf-8")
    command.chmod(0o755)
    (Path(site) / "third_party.pth").write_text(here + "\n", encoding="utf-8")
    return python


def _graphmill(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENAI_", "PYTHON"))
    }
    return subprocess.run(
        [str(python), "-m", "pipeline", *arguments], capture_output=True, text=True,
        env=environment,
        cwd=python.parent, timeout=180, check=False,
    )  # fmt: skip


def test_what_init_says_comes_next_works_from_the_wheel(python: Path, tmp_path: Path) -> None:
    where = subprocess.check_output(
        [str(python), "-c", "import pipeline; print(pipeline.__file__)"],
        text=True,
        cwd=python.parent,
    )
    assert where.startswith(str(python.parent.parent))

    made = _graphmill(python, "init", str(tmp_path / "mine"), "--sample")
    commands = [shlex.split(command) for command in re.findall(r"graphmill (-C .*)", made.stdout)]
    assert [command[2] for command in commands] == ["run", "query", "eval"]
    run, query = (_graphmill(python, *command) for command in commands[:2])
    assert run.returncode == 0, run.stderr
    assert query.returncode == 0, query.stderr
    assert "skarrow-light.txt" in query.stdout
    [question] = re.findall(r"^graphmill -C my-project (query .*)$", README, re.MULTILINE)
    [answer] = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    asked = _graphmill(python, "-C", str(tmp_path / "mine"), *shlex.split(question))
    assert asked.stdout.startswith(answer)
    assert "Idra Vasterling" in answer
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert makefile.partition("$(GRAPHMILL) query")[2].startswith(question.removeprefix("query"))
    page = tmp_path / "eval.html"
    evaluated = _graphmill(python, *commands[2], "--modes", "naive", "--html", str(page))
    assert evaluated.stdout.startswith("50 questions"), evaluated.stderr
    assert "skarrow-light.txt" in page.read_text(encoding="utf-8")


def test_the_wheel_has_the_module_graphmill_and_the_marks_of_its_types(python: Path) -> None:
    code = (
        "import graphmill, pipeline, pathlib\n"
        "folder = pathlib.Path(pipeline.__file__).parent\n"
        "assert graphmill is pipeline and not (folder / 'own_name').exists()\n"
        "print(*sorted(str(p.relative_to(folder.parent)) for p in folder.parent.glob('*/py.typed')"
        " if p.parent.name in ('graphmill', 'pipeline')))"
    )
    shown = subprocess.check_output([str(python), "-c", code], text=True, cwd=python.parent)
    assert shown.split() == ["graphmill/py.typed", "pipeline/py.typed"]


def test_the_page_in_a_browser_is_in_the_wheel(python: Path) -> None:
    look = (
        "from pipeline.pages.environment import environment, texts\nfrom pipeline.serve.ui.assets"
        " import read_assets\nfrom pipeline.serve.ui.view import Ui\nprint(read_assets().version,"
        " sorted(texts()), *sorted(Ui(None, read_assets()).templates.list_templates()))"
    )
    there = subprocess.check_output([str(python), "-c", look], text=True, cwd=python.parent)
    assert there == subprocess.check_output([sys.executable, "-c", look], text=True, cwd=ROOT)
    assert "shell.html.j2" in there


def test_the_pages_and_the_nightly_files_are_in_the_wheel(python: Path, tmp_path: Path) -> None:
    listed = {line.split()[0] for line in _graphmill(python, "docs").stdout.splitlines()}
    assert listed == {path.stem for path in (ROOT / "docs").glob("*.md")} | {"commands", "settings"}
    for name in ("nightly", "commands", "settings"):
        shown = _graphmill(python, "docs", name)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout.startswith("# ")
    assert _graphmill(python, "init", str(tmp_path / "mine"), "--nightly").returncode == 0
    made = tmp_path / "mine" / "nightly"
    names = {path.name for path in (ROOT / "examples" / "nightly").iterdir()}
    assert {path.name for path in made.iterdir()} == names
    script = (made / "nightly.sh").read_text(encoding="utf-8")
    assert f"\ngraphmill={python.parent / 'graphmill'}\n" in script
