from collections.abc import Iterator

import pytest

from pipeline.project import Project
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import Serving, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """A project whose graph is loaded; it has no chat model."""
    folder = new_project(tmp_path_factory.mktemp("serve") / "p", postgres_url)
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.fixture(scope="module")
def project(folder: ProjectFolder) -> Iterator[Project]:
    with folder.open() as project:
        yield project


@pytest.fixture(scope="module")
def served(project: Project) -> Iterator[Serving]:
    with serving(project) as served:
        yield served
