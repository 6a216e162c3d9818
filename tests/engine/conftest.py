from pathlib import Path

import pytest

import pipeline.verbs  # noqa: F401  (registers the verbs)
from pipeline.contract.registry import REGISTRY
from tests.engine import small_verbs
from tests.engine.small_project import SmallProject


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallProject:
    """Return a project of the small verbs alone, in a registry of its own."""
    monkeypatch.setattr(REGISTRY, "verbs", {})
    small_verbs.register_small_verbs()
    small_verbs.CALLS.clear()
    project = SmallProject(tmp_path)
    project.numbers("1", "2", "3", "4")
    return project
