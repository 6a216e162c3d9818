"""A question is embedded by the model of the loaded vectors, even if a load replaces them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.asking import LastShown, Shown
from pipeline.engine.run_options import RunOptions
from pipeline.errors import NothingLoadedError
from pipeline.models.here.builtin import BuiltinEmbedding
from pipeline.stores.base import Live
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer

QUESTION = "Who founded the Brack Institute?"


@pytest.fixture
def folder(tmp_path: Path, postgres_url: str) -> ProjectFolder:
    folder = new_project(tmp_path / "p", postgres_url)
    with folder.open() as project:
        project.run("fast")
    return folder


def endpoint(name: str, openai: OpenAIServer) -> list[str]:
    said = {
        "provider": "openai",
        "base_url": openai.base_url,
        "api_key": openai.key,
        "model": "of-the-endpoint",
    }
    return [f"models.embedding.{name}.{key}={value}" for key, value in said.items()]


def test_a_load_that_ends_between_embedding_and_search(
    folder: ProjectFolder, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    embed, loads = BuiltinEmbedding.embed, iter([True])

    def then_load(self: BuiltinEmbedding, texts: Sequence[str], *rest: Any) -> np.ndarray:
        vectors = embed(self, texts, *rest)
        if QUESTION in texts and next(loads, False):
            with folder.open(*endpoint("default", openai)) as other:
                other.run("fast", options=RunOptions(re_embed=True))
        return vectors

    with folder.open(*endpoint("other", openai)) as project:
        project.query_data("Who built it?", mode="naive")
        monkeypatch.setattr(BuiltinEmbedding, "embed", then_load)
        found = project.query_data(QUESTION, mode="naive")
        assert next(loads, None) is None, "nothing was loaded"
        assert found["chunks"]
        asked = [
            text
            for request in openai.requests
            if request.kind == "embeddings"
            for text in request.body["input"]
        ]
        assert QUESTION in asked
        before = openai.count("embeddings")
        project.query_data("Who built the Harrow Light?", mode="naive")
        assert openai.count("embeddings") == before + 1


def test_a_workspace_that_is_dropped_shows_nothing_to_the_next_question(folder: ProjectFolder):
    with folder.open() as project:
        project.query_data(QUESTION, mode="naive")
        with folder.open() as other:
            other.drop_workspace(other.settings.workspace)
        with pytest.raises(NothingLoadedError):
            project.query_data(QUESTION, mode="naive")


def test_a_question_gets_what_its_own_moment_shows():
    """It does so whatever another question sees meanwhile."""

    @dataclass(frozen=True, eq=False)
    class Compared(Live):
        meanwhile: list[Any] = field(default_factory=list, compare=False)

        def __eq__(self, other: object) -> bool:
            for happens in self.meanwhile:
                happens()
            return self.version == other.version if isinstance(other, Live) else NotImplemented

        __hash__ = None  # pyright: ignore[reportAssignmentType]

    last = LastShown(
        lambda live: (
            Shown(live, BuiltinEmbedding(), ()) if live else pytest.fail("nothing is shown")
        )
    )
    earlier, later = Compared("fast", "1", {}, 2), Live("fast", "2", {}, 2)
    assert last.at(earlier).live is earlier
    earlier.meanwhile.append(lambda: setattr(last, "shown", last.find(later)))
    assert last.at(earlier).live is earlier
