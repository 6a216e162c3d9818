from collections.abc import Iterator

import pytest

from pipeline.frameworks.http import Client
from pipeline.project import Project
from tests.projects import new_project
from tests.serve.serving import serving

KEY, WRITER = "a-key-of-the-framework-tests", "a-key-that-may-write"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Project]:
    """A loaded project, whose server needs a key and accepts documents."""
    folder = new_project(tmp_path_factory.mktemp("frameworks") / "p", postgres_url)
    settings = [
        f"serve.api_key={KEY}",
        f"serve.keys.writer={{key: {WRITER}, writer: true}}",
        "serve.read_only=false",
    ]
    with folder.open(*settings) as project:
        project.run("fast")
        yield project


@pytest.fixture(scope="module")
def url(project: Project) -> Iterator[str]:
    with serving(project) as served:
        yield served.url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    with Client(url, KEY) as client:
        yield client
