"""What a person does to a part of the graph: filters, more around an entity and less again, a word
on names."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from pipeline.text.ids import entity_id
from tests.projects import new_project, write_yaml
from tests.serve.serving import Serving, serving
from tests.serve.ui.conftest import Look, Shown
from tests.whole.test_resolution_run import DOCUMENTS, STEP, resolving

BY_RULES = {name: said for name, said in STEP.items() if name not in ("prompts", "models")}
FOLDER = "fast"
"""The workflow whose names are resolved."""
KEY = "editor"


def around(page: Page, url: str, name: str) -> Locator:
    """The names that are listed beside what is drawn around an entity."""
    page.goto(f"{url}/graph?{urlencode({'entity': entity_id(name)})}")
    listed = page.locator("#nodes").get_by_role("button")
    expect(listed.filter(has_text=name)).not_to_have_count(0)
    return listed


def test_types_a_community_and_a_document_leave_the_rest_out(look: Look, shown: Shown) -> None:
    page = look(shown.url).page
    listed = around(page, shown.url, "Brack Institute")
    everyone = listed.count()
    types = page.get_by_role("group", name="Types")
    shown_first = types.get_by_role("checkbox").first
    of_it = int(types.locator(".number").first.inner_text())
    shown_first.uncheck()
    expect(listed).to_have_count(everyone - of_it)
    shown_first.check()
    expect(listed).to_have_count(everyone)
    page.get_by_label("Document", exact=True).fill("harbour")
    page.keyboard.press("Enter")
    page.locator("#by-document").get_by_role("button", name="The Harbour of Quill").click()
    expect(listed.filter(has_text="Anselm Torr")).to_have_count(1)
    expect(listed.filter(has_text="Idra Senn")).to_have_count(0)
    page.get_by_role("button", name="All documents").click()
    expect(listed).to_have_count(everyone)
    page.get_by_label("Colour by").select_option("community")
    assert "colour=community" in page.url


def test_more_around_an_entity_and_less_again(look: Look, shown: Shown) -> None:
    page = look(shown.url).page
    listed = around(page, shown.url, "Mira Vale")
    few = listed.count()
    details = page.get_by_role("complementary", name="Details")
    listed.filter(has_text="Brack Institute").click()
    details.get_by_role("button", name="Expand").click()
    expect(listed.filter(has_text="Idra Senn")).to_have_count(1)
    details.get_by_role("button", name="Collapse").click()
    expect(listed).to_have_count(few)


@pytest.fixture(scope="module")
def resolved(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str
) -> Iterator[tuple[Path, Serving]]:
    folder = resolving(
        new_project(
            tmp_path_factory.mktemp("names") / "p", postgres_url, DOCUMENTS, workflow=FOLDER
        ),
        FOLDER,
        BY_RULES,
    )
    with folder.open() as project:
        assert project.run().outcome == "completed"
    keys = [f"serve.keys.editor={{key: {KEY}, editor: true}}", "serve.read_only=false"]
    with folder.open(*keys) as project, serving(project) as served:
        yield folder.root, served


def test_an_editor_says_that_two_names_are_one(look: Look, resolved: tuple[Path, Serving]) -> None:
    root, served = resolved
    page = look("about:blank", extra_http_headers={"X-API-Key": KEY}).page
    around(page, served.url, "Anselm Torr")
    same = page.get_by_role("button", name="Same", exact=True)
    page.get_by_label("Another name").fill("anselm  torr.")
    expect(same).to_be_disabled()
    expect(page.locator("#pin").get_by_role("status")).to_have_text("That is this name itself.")
    page.get_by_label("Another name").fill("Governor Pell")
    same.click()
    expect(page.locator("#pin").get_by_role("status")).to_have_text(
        re.compile("^pinned same: Anselm Torr and Governor Pell")
    )
    pins = root / "corrections.jsonl"
    assert '"kind": "same"' in pins.read_text()
    assert '"by": "editor"' in pins.read_text()
    page.get_by_role("button", name="Different", exact=True).click()
    expect(page.locator("#pin").get_by_role("status")).to_have_text(re.compile("^pinned different"))
    assert '"kind": "same"' not in pins.read_text()


def test_an_editor_corrects_an_entity_and_takes_it_back(
    look: Look, resolved: tuple[Path, Serving]
) -> None:
    root, served = resolved
    page = look("about:blank", extra_http_headers={"X-API-Key": KEY}).page
    around(page, served.url, "Anselm Torr")
    form = page.locator("#correct")
    form.get_by_text("Correct it").click()
    form.get_by_label("Type", exact=True).fill("GLAZIER")
    form.get_by_role("button", name="Set the type").click()
    expect(form.get_by_role("status")).to_have_text(re.compile("^Written; records: [1-9]"))
    assert "GLAZIER" in (root / "corrections.jsonl").read_text()
    form.get_by_role("button", name="Take back").last.click()
    expect(form.get_by_role("status")).to_have_text(re.compile("^Taken back"))
    assert "GLAZIER" not in (root / "corrections.jsonl").read_text()


def test_an_editor_sets_a_property_that_the_ontology_declares(
    look: Look, resolved: tuple[Path, Serving]
) -> None:
    root, served = resolved
    page = look("about:blank", extra_http_headers={"X-API-Key": KEY}).page
    around(page, served.url, "Anselm Torr")
    form = page.locator("#correct")
    form.get_by_text("Correct it").click()
    form.get_by_label("Property", exact=True).fill("born")
    form.get_by_label("Value", exact=True).fill("May 1850")
    form.get_by_role("button", name="Set the property").click()
    expect(form.get_by_role("status")).to_have_text(re.compile("declares no property"))
    # Without a model, Anselm Torr has the type "name".
    ontology = {"entity_types": [{"name": "NAME", "properties": [{"name": "Born"}]}]}
    write_yaml(root / "ontology.yaml", ontology)
    form.get_by_role("button", name="Set the property").click()
    expect(form.get_by_role("status")).to_have_text(re.compile("^Written; records: [1-9]"))
    assert '"property": "Born", "value": "May 1850"' in (root / "corrections.jsonl").read_text()
    form.get_by_role("button", name="Take back").last.click()
    expect(form.get_by_role("status")).to_have_text(re.compile("^Taken back"))
    (root / "ontology.yaml").unlink()
