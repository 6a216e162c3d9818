"""The guides to models: every recipe is read by the real settings, and the example of a function is
run."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from pipeline.models.base import ChatRequest
from pipeline.models.cache.replies import NO_CACHE
from pipeline.models.endpoint.remote_model import RemoteModel
from pipeline.project import Project
from pipeline.runs.adapters import chat_model, embedding_model
from pipeline.settings.file import read_settings
from pipeline.settings.schema import ChatSettings, EmbeddingSettings

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("models", "local-models", "gateways", "model-function")
RECIPES = "".join((DOCS / f"{page}.md").read_text(encoding="utf-8") for page in PAGES)


def recipes() -> Iterator[tuple[str, str]]:
    """Title and YAML of every snippet of settings on the pages."""
    for section in re.split(r"^#{2,4} ", RECIPES, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        for number, block in enumerate(
            re.findall(r"^```yaml\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        ):
            yield f"{title} {number}", block


SNIPPETS = dict(recipes())


def test_there_is_a_recipe_for_every_provider():
    titles = {title.rpartition(" ")[0] for title in SNIPPETS}
    assert titles >= {
        "OpenAI", "Azure OpenAI", "Ollama", "vLLM", "llama.cpp", "LM Studio", "OpenRouter",
        "LiteLLM as a proxy",
        "Anthropic", "Amazon Bedrock", "Gemini", "Vertex AI", "A gateway that wants headers",
        "Certificates of your own", "A function of your own",
    }  # fmt: skip


def providers_of(section: type[ChatSettings | EmbeddingSettings]) -> set[str]:
    schema = section.model_json_schema()["properties"]["provider"]
    kinds = [schema, *schema.get("anyOf", [])]
    return {name for kind in kinds for name in kind.get("enum", [])}


def test_every_provider_of_a_chat_model_is_in_a_recipe():
    read = [yaml.safe_load(block)["models"] for block in SNIPPETS.values()]
    used = {
        model.get("provider", "openai")
        for models in read
        for model in models.get("chat", {}).values()
    }
    assert providers_of(ChatSettings) <= used


@pytest.mark.parametrize("title", SNIPPETS)
def test_a_recipe_is_read_and_makes_its_models(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    block = SNIPPETS[title]
    for name in re.findall(r"\$\{(\w+)\}", block):
        monkeypatch.setenv(name, f"canary-{name.lower()}")
    (tmp_path / "settings.yaml").write_text(block, encoding="utf-8")
    settings = read_settings(tmp_path)
    written = yaml.safe_load(block)["models"]
    made: list[RemoteModel] = [
        chat_model(settings, name, NO_CACHE, root=tmp_path) for name in written.get("chat", {})
    ]
    for name in written.get("embedding", {}):
        embedding = embedding_model(settings, name, lambda: NO_CACHE, root=tmp_path)
        assert isinstance(embedding, RemoteModel)
        made.append(embedding)
    assert made
    for model in made:
        assert model.endpoint.shown
        assert "canary" not in f"{model!r} {model.endpoint!r} {model.endpoint.shown}"


def python_blocks() -> list[str]:
    section = RECIPES.partition("## A function of your own")[2]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """Make a project with the page's example; forget its module afterwards, which others must not
    find."""
    (tmp_path / "my_models.py").write_text(python_blocks()[0], encoding="utf-8")
    (tmp_path / "settings.yaml").write_text(SNIPPETS["A function of your own 0"], encoding="utf-8")
    yield tmp_path
    sys.modules.pop("my_models", None)


def test_the_example_of_a_function_answers(own: Path):
    settings = read_settings(own)
    chat = chat_model(settings, "default", NO_CACHE, root=own)
    embedding = embedding_model(settings, "default", lambda: NO_CACHE, root=own)
    for model in (chat, embedding):
        model.preflight()
    (reply,) = chat.complete([ChatRequest("row", ({"role": "user", "content": "Who built it?"},))])
    assert (reply.text, reply.input_tokens, reply.output_tokens) == (
        "I was asked: Who built it?",
        3,
        5,
    )
    vectors = embedding.embed(["a b c", "x"])
    assert vectors.shape == (2, 3)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert chat.identity["version"] == "1"


def test_the_example_in_python_opens_a_project(own: Path, monkeypatch: pytest.MonkeyPatch):
    (own / "settings.yaml").write_text("workspace: own", encoding="utf-8")
    monkeypatch.syspath_prepend(str(own))
    opening = python_blocks()[1].partition("    project.run")[0]
    assert 'Project.open("my-project", chat=my_models.chat, embedding=my_models.embed)' in opening
    import my_models  # pyright: ignore[reportMissingImports]  (the page's example)

    with Project.open(own, chat=my_models.chat, embedding=my_models.embed) as project:
        (reply,) = project.chat("default").complete(
            [ChatRequest("row", ({"role": "user", "content": "Who?"},))]
        )
        assert reply.text == "I was asked: Who?"
        assert project.embedding("default").embed(["a"]).shape == (1, 3)
