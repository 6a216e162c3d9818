from pathlib import Path

import pytest

from pipeline.errors import SettingsError
from pipeline.settings.file import read_settings
from pipeline.settings.query_options import PRESETS, QueryOptions, QuerySettings
from tests.projects import DOCUMENTS, ProjectFolder, new_project

DELIVERED = (Path(__file__).parents[2] / "settings.yaml").read_text(encoding="utf-8")
QUESTION = "Who built the Harrow Light?"
LIGHTRAG = {
    "mode": "hybrid", "top_k": 60, "chunk_top_k": 20, "max_entity_tokens": 6000,
    "max_relation_tokens": 8000,
    "max_total_tokens": 30000, "kg_chunk_pick_method": "RELATION", "related_chunk_number": 5,
    "relationship_order": "rank", "number_rows": True,
}  # fmt: skip


def read(root: Path, content: str) -> QuerySettings:
    (root / "settings.yaml").write_text(content, encoding="utf-8")
    return read_settings(root).query


def test_the_settings_that_are_delivered_say_what_the_code_says(tmp_path: Path):
    assert read(tmp_path, DELIVERED).options == QueryOptions().model_dump()


def test_one_line_of_the_settings_that_are_delivered_sets_all_of_a_preset(tmp_path: Path):
    query = read(tmp_path, DELIVERED.replace("preset: graphmill", "preset: lightrag"))
    assert query.options == QueryOptions().model_dump() | LIGHTRAG


def test_what_is_set_beside_a_preset_stays(tmp_path: Path):
    query = read(tmp_path, "query: {preset: lightrag, mode: mix, top_k: 7}")
    assert query.options == QueryOptions().model_dump() | LIGHTRAG | {"mode": "mix", "top_k": 7}


def test_every_value_of_a_preset_is_an_option_that_fits():
    for values in PRESETS.values():
        assert QueryOptions.model_validate(values).model_dump(include=set(values)) == values


@pytest.mark.parametrize("preset", ["lightrga", "[lightrag]", "{lightrag: 1}", "5"])
def test_a_preset_that_is_none_is_refused(tmp_path: Path, preset: str):
    with pytest.raises(SettingsError, match=r"query\.preset"):
        read(tmp_path, f"query: {{preset: {preset}}}")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    folder = new_project(
        tmp_path_factory.mktemp("presets") / "p", postgres_url, dict(list(DOCUMENTS.items())[:1])
    )
    with folder.open() as project:
        project.run("fast")
    return folder


def notes(folder: ProjectFolder, *overrides: str, **options: object) -> list[str]:
    with folder.open(*overrides) as project:
        return project.query_data(QUESTION, **options)["notes"]


def test_a_project_that_names_no_mode_is_told_once(loaded: ProjectFolder):
    loaded.edit_settings(query={"top_k": 5})
    assert notes(loaded, "query.mode=naive") == []
    assert notes(loaded, "query.preset=lightrag") == []
    assert notes(loaded, mode="naive") == []
    (told,) = notes(loaded)
    assert "query.mode: it is 'graph', with top_k 5 " in told
    assert notes(loaded) == []


def test_a_project_as_init_makes_it_is_told_nothing(loaded: ProjectFolder):
    loaded.edit_settings(query={"preset": "graphmill"})
    (loaded.root / "data" / "told-default-mode").unlink(missing_ok=True)
    assert notes(loaded) == []
