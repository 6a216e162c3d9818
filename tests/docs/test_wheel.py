"""The wheel is enough without the clone."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing of the project but its wheel; third-party packages come from this one."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
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
    (Path(site) / "third_party.pth").write_text(here + "\n", encoding="utf-8")
    return python


def _graphmill(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTHON"))}
    return subprocess.run(
        [str(python), "-m", "pipeline", *arguments], capture_output=True, text=True, env=environment,
        cwd=python.parent, timeout=180, check=False,
    )  # fmt: skip


def test_init_run_and_query_from_the_wheel(python: Path, tmp_path: Path) -> None:
    where = subprocess.check_output(
        [str(python), "-c", "import pipeline; print(pipeline.__file__)"], text=True, cwd=python.parent
    )
    assert where.startswith(str(python.parent.parent))

    project = tmp_path / "mine"
    assert _graphmill(python, "init", str(project)).returncode == 0
    (project / "data/input/one.txt").write_text(
        "The Harrow Light\n\nMira Vale built the Harrow Light at Quill Point.", encoding="utf-8"
    )
    done = _graphmill(python, "-C", str(project), "run", "fast")
    assert done.returncode == 0, done.stderr
    asked = _graphmill(python, "-C", str(project), "query", "Who built the Harrow Light?")
    assert asked.returncode == 0, asked.stderr
    assert "Mira Vale" in asked.stdout
    assert "one.txt" in asked.stdout

    questions, page = project / "questions.jsonl", project / "eval.html"
    questions.write_text('{"question": "Who built the Harrow Light?", "documents": ["one.txt"]}\n', encoding="utf-8")
    told = _graphmill(python, "-C", str(project), "eval", str(questions), "--modes", "naive", "--html", str(page))
    assert told.returncode == 0, told.stderr
    assert "The Harrow Light (one.txt)" in page.read_text(encoding="utf-8")
