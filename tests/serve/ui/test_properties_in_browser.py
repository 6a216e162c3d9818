"""The panel of an entity shows the values of its properties with the documents that give them."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from pipeline.text.ids import entity_id
from tests.properties import new_towers
from tests.serve.serving import Serving, serving
from tests.serve.ui.conftest import Look
from tests.servers.openai_server import openai_server

TOWER = entity_id("Tower Tollen")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Serving]:
    root: Path = tmp_path_factory.mktemp("panel") / "p"
    with openai_server() as server:
        folder = new_towers(root, postgres_url, server)
        with folder.open(*folder.endpoint_overrides) as project, serving(project) as running:
            yield running


def test_the_panel_has_each_value_with_links_to_its_documents(look: Look, served: Serving) -> None:
    page: Page = look(f"{served.url}/graph?{urlencode({'entity': TOWER})}").page
    page.locator("#nodes").get_by_role("button", name="Tower Tollen").click()
    shown = page.get_by_role("complementary", name="Details").locator("dl.properties")
    expect(shown.locator("dt")).to_have_text(["built", "colours", "height", "owner", "state"])
    values = shown.locator("dd")
    expect(values).to_have_count(12)
    expect(values.first).to_have_text("1999 Title hidden (2010)")
    expect(shown.get_by_text("11.8872 m")).to_be_visible()
    values.first.get_by_role("link", name="Title hidden").click()
    page.wait_for_url("**/documents/*")
    expect(page.get_by_role("heading", name="Title hidden")).to_be_visible()


def test_the_data_of_the_panel_names_the_newest_document_first(served: Serving) -> None:
    told = served.client.get("/ui/graph/entity", params={"id": TOWER}).json()
    built = [one for one in told["properties"] if one["name"] == "built"]
    assert [(one["value"], one["date"]) for one in built] == [
        ("1999", "2010"), ("1851-05", "2001-05-02"), ("1850", "1990"),
    ]  # fmt: skip
    assert built[0]["title"] == "Title hidden"


def test_the_list_of_documents_takes_conditions_on_properties(served: Serving) -> None:
    def listed(where: str) -> str:
        found = served.client.get("/documents", params={"where": where})
        assert found.status_code == 200
        return found.text

    page = listed("entity.height > 20 m")
    assert "hidden.md" in page
    assert "other.md" in page
    assert "old.md" not in page
    refused = served.client.get("/documents", params={"where": "entity.colour = red"})
    assert refused.status_code == 422
    assert "there are: built, colours, height, owner, state" in refused.text
