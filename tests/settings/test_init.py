from pathlib import Path

import pytest
import yaml

from pipeline.settings.file import read_settings
from pipeline.settings.init import init_project
from pipeline.settings.schema import Settings


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_empty_folder_becomes_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "NEO4J_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    written, kept = init_project(tmp_path / "new" / "project")
    made = files(tmp_path / "new" / "project")
    assert kept == []
    assert written == sorted(made)
    assert {
        "settings.yaml",
        "workflows/index.yaml",
        "workflows/fast.yaml",
        "prompts/extract_graph.md",
    } <= set(made)
    assert {".env.example", ".gitignore"} <= set(made)
    assert (tmp_path / "new" / "project" / "data" / "input").is_dir()
    assert isinstance(read_settings(tmp_path / "new" / "project"), Settings)
    assert ".env" in made[".gitignore"].splitlines()


def test_what_was_there_is_never_overwritten(tmp_path: Path):
    written, _ = init_project(tmp_path)
    for name in written:
        (tmp_path / name).write_text(f"mine: {name}", encoding="utf-8")
    (tmp_path / "settings.yaml").unlink()
    again, kept = init_project(tmp_path)
    assert again == ["settings.yaml"]
    assert kept == sorted(set(written) - {"settings.yaml"})
    assert all(files(tmp_path)[name] == f"mine: {name}" for name in kept)
    assert yaml.safe_load(files(tmp_path)["settings.yaml"])
