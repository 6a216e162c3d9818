"""Which price a chat model has: a local model never has that of OpenAI's, and what settings say
always holds."""

from pathlib import Path

import pytest

from pipeline.models.cache.replies import NO_CACHE
from pipeline.runs.adapters import chat_model
from pipeline.settings.file import read_settings
from pipeline.settings.init import init_project
from pipeline.settings.schema import Settings

WRITTEN = "models.chat.default.price={input: 0.15, output: 0.60}"


def price(settings: Settings) -> tuple[float | None, float]:
    model = chat_model(settings, "default", NO_CACHE)
    return model.input_price, model.output_price


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, with the settings that are shipped."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    init_project(tmp_path)
    return tmp_path


@pytest.mark.parametrize("address", ["", "https://api.openai.com/v1", "https://api.openai.com/v1/"])
def test_the_shipped_model_has_its_price_at_openai(root: Path, address: str):
    assert price(read_settings(root, [f"models.chat.default.base_url={address}"])) == (0.15, 0.60)


@pytest.mark.parametrize(
    "overrides",
    [
        ["models.chat.default.base_url=http://localhost:11434/v1"],
        [
            "models.chat.default.base_url=http://localhost:11434/v1",
            "models.chat.default.model=llama3.2",
        ],
        ["models.chat.default.model=gpt-4o"],
        ["models.chat.default.provider=ollama"],
    ],
)
def test_another_address_or_model_has_none_until_one_is_set(root: Path, overrides: list[str]):
    assert price(read_settings(root, overrides)) == (None, 0.0)
    assert price(
        read_settings(root, [*overrides, "models.chat.default.price={input: 1, output: 2}"])
    ) == (1, 2)


def test_a_price_that_settings_of_earlier_versions_have_holds_after_an_upgrade(root: Path):
    elsewhere = ["models.chat.default.base_url=http://localhost:11434/v1", WRITTEN]
    assert price(read_settings(root, elsewhere)) == (0.15, 0.60)
    assert not read_settings(root, elsewhere).models.chat["default"].has_price_of_another_model
    other = read_settings(root, [*elsewhere, "models.chat.default.model=llama3.2"])
    assert price(other) == (0.15, 0.60)
    assert other.models.chat["default"].has_price_of_another_model
