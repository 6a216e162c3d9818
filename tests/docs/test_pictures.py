"""The script that draws the pictures of the documentation, over a part of the sample."""

import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from pipeline.settings.init import SAMPLE_QUESTIONS, init_project
from tests.projects import ProjectFolder, workspace_of

SCRIPT = Path(__file__).parents[2] / ".ci" / "pictures.py"
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
KEPT = ("skarrow-light.txt", "treaty-of-quill-ferry.txt")


def new_small_sample(root: Path, postgres_url: str) -> None:
    """Make a sample project of two documents and one question about them."""
    init_project(root, sample=True)
    for path in (root / "data/input").rglob("*"):
        if path.is_file() and path.name not in KEPT:
            path.unlink()
    questions = root / SAMPLE_QUESTIONS
    first = questions.read_text(encoding="utf-8").splitlines()[0]
    questions.write_text(f"{first}\n", encoding="utf-8")
    postgres = {"postgres": {"url": postgres_url}}
    ProjectFolder(root).edit_settings(stores=postgres, workspace=workspace_of(root))


def test_the_script_draws_every_picture_of_its_own(tmp_path: Path, postgres_url: str):
    spec = importlib.util.spec_from_file_location("pictures_of_docs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    root = tmp_path / "my-project"
    new_small_sample(root, postgres_url)
    script.write_pictures(root, tmp_path / "pictures")
    texts: dict[str, str] = {}
    for path in (tmp_path / "pictures").iterdir():
        assert (PICTURES / path.name).is_file()
        texts[path.name] = "".join(ElementTree.parse(path).getroot().itertext())
    shown = {name: " ".join(text.replace("\xa0", " ").split()) for name, text in texts.items()}
    assert "fast: completed" in shown["terminal.svg"]
    assert "[1] The Skarrow Light" in shown["terminal.svg"]
    assert "extract_graph" in shown["plan.svg"]
    assert "1 questions" in shown["modes.svg"]
    assert "hybrid" in shown["modes.svg"]
    # Which names have room for a label depends on where the layout puts them.
    assert shown["graph.svg"] != ""
    assert "LightRAG" in shown["recall.svg"]
