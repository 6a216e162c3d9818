from collections.abc import Iterator

import pytest

from pipeline.project import Project
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import Serving, serving
from tests.servers.openai_server import OpenAIServer


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


@pytest.fixture
def chatting(folder: ProjectFolder, openai: OpenAIServer) -> Iterator[Project]:
    """The same project with a chat model that has no memory."""
    with folder.open(*models_of(openai), "cache=''", "query.mode=naive") as project:
        yield project


def models_of(openai: OpenAIServer) -> list[str]:
    return [
        f"models.chat.default.base_url={openai.base_url}",
        f"models.chat.default.api_key={openai.key}",
    ]
