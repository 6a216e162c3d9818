"""The view Corrections: mistakes are corrected by keys alone, and hold after they are applied."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect

from pipeline.text.ids import document_id, entity_id
from tests.projects import ProjectFolder, new_project, read_yaml, write_yaml
from tests.serve.serving import Serving, serving
from tests.serve.ui.axe import grave_faults
from tests.serve.ui.browser import NARROW
from tests.serve.ui.conftest import Look

EDIT, READ = "edit-key", "read-key"
SUSPECTS = "#suspects li"
KEYS = [
    f"serve.keys.editor={{key: {EDIT}, editor: true}}", f"serve.keys.reader={{key: {READ}}}",
    "serve.read_only=false",
]  # fmt: skip
DOCUMENTS = {
    "a.txt": "Mira Vale built the Harrow Light. Anselm Torr drew the Harrow Light.",
    "b.txt": "Mira Vale met Anselm Torr at the Brack Institute.",
}
VERB = '''
import pandas as pd
from pipeline.contract.registry import verb
from pipeline.contract.schemas import EXTRACTIONS, TEXT_UNITS

NAMES = [
    ("Mira Vale", "PERSON"), ("Anselm Torr", "PERSON"), ("Harrow Light", "PLACE"),
    ("Brack Institute", "GROUP"), ("1871", "DATE"), ("She", "PERSON"), ("Q", "PERSON"),
    ("--", "GROUP"), ("3.5 %", "DATE"), ("They", "PERSON"), ("Anselmm Torr", "PERSON"),
    ("Quill Point", "HERON"), ("Lone Rock", "PLACE"), ("Whose", "PERSON"),
]
LINKS = [("Mira Vale", "Harrow Light"), ("Anselm Torr", "Harrow Light"),
         ("Mira Vale", "Brack Institute"), ("Anselmm Torr", "Brack Institute"),
         ("Quill Point", "Harrow Light"), ("She", "Harrow Light")]


@verb(inputs={"text_units": TEXT_UNITS}, outputs={"extractions": EXTRACTIONS}, rowwise="text_units",
      row_of={"extractions": "text_unit_id"})
def say(text_units: pd.DataFrame) -> pd.DataFrame:
    """Say the same of each text unit."""
    rows = []
    blank = {"name": "", "type": "", "source": "", "target": "", "keywords": [], "weight": 1.0,
             "grounded": True}
    for id in text_units["id"]:
        cells = [{"kind": "entity", "name": name, "type": type, "description": f"It is {name}."}
                 for name, type in NAMES]
        cells += [{"kind": "relationship", "source": source, "target": target,
                   "description": "They met.", "keywords": ["MET"]} for source, target in LINKS]
        rows += [{**blank, **one, "text_unit_id": id, "order": order}
                 for order, one in enumerate(cells)]
    return EXTRACTIONS.frame(rows)
'''


@dataclass(frozen=True)
class Opened:
    folder: ProjectFolder
    served: Serving

    @property
    def url(self) -> str:
        return f"{self.served.url}/corrections"

    @property
    def lines(self) -> str:
        path = self.folder.root / "corrections.jsonl"
        return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Opened]:
    root: Path = tmp_path_factory.mktemp("suspects") / "p"
    folder = new_project(root, postgres_url, DOCUMENTS, workflow="fast")
    (root / "own.py").write_text(VERB, encoding="utf-8")
    folder.edit_settings(verbs=["own.py"])
    path = root / "workflows" / "fast.yaml"
    workflow = read_yaml(path)
    for step in workflow["steps"]:
        if step["verb"] == "extract_graph_fast":
            step["verb"] = "say"
    write_yaml(path, workflow)
    types = ["PERSON", "PLACE", "GROUP", "DATE"]
    write_yaml(
        root / "ontology.yaml", {"entity_types": types, "otherwise": {"entity_types": "keep"}}
    )
    with folder.open() as project:
        assert project.run().outcome == "completed"
    with folder.open(*KEYS) as project, serving(project) as served:
        yield Opened(folder, served)


def go(look: Look, opened: Opened, **options: object) -> Page:
    page = look("about:blank", extra_http_headers={"X-API-Key": EDIT}, **options).page
    page.goto(opened.url)
    expect(page.locator("#told")).not_to_have_text("Looking through the entities …")
    return page


def choose(page: Page, name: str) -> None:
    """Move to a suspect by arrows."""
    page.locator("#suspects").focus()
    page.keyboard.press("Home")
    names = page.locator(SUSPECTS).locator(".name").all_inner_texts()
    for _ in range(names.index(name)):
        page.keyboard.press("ArrowDown")
    chosen = page.locator(f'{SUSPECTS}[aria-selected="true"] .name')
    expect(chosen).to_have_text(name)


def decide(page: Page, name: str, key: str, answer: str = "") -> None:
    choose(page, name)
    page.keyboard.press(key)
    if answer:
        expect(page.locator("#answer")).to_be_focused()
        page.keyboard.press("Control+a")
        page.keyboard.type(answer)
        page.keyboard.press("Enter")
    expect(page.locator("#told")).to_contain_text(f"{name}: ")


def test_ten_mistakes_that_are_corrected_by_keys_hold_after_the_run(look: Look, opened: Opened):
    page = go(look, opened)
    for name in ("1871", "Q", "--", "3.5 %", "They"):
        decide(page, name, "d")
    decide(page, "She", "r", "Mira Vale")
    decide(page, "Anselm Torr", "m")
    decide(page, "Quill Point", "t", "PLACE")
    decide(page, "Lone Rock", "k")
    decide(page, "Whose", "k")
    expect(page.locator("#pending")).to_contain_text("8 pending")
    with opened.folder.open() as project:
        assert "1871" in set(project.table("entities")["name"])

    page.get_by_role("button", name="Apply now").click()
    expect(page.locator("#applying")).to_have_text("Applied. The stores show it.", timeout=120_000)
    expect(page.locator("#pending")).to_have_text("Nothing is pending.")
    expect(page.locator("#told")).to_have_text("None are left.")
    with opened.folder.open() as project:
        for _ in range(2):
            entities = project.table("entities").set_index("name")
            assert set(entities.index) == {
                "Mira Vale", "Anselmm Torr", "Harrow Light", "Brack Institute", "Quill Point",
                "Lone Rock", "Whose",
            }  # fmt: skip
            assert entities.loc["Quill Point", "type"] == "PLACE"
            assert project.verify().agrees
            assert not project.suspects().listed
            # An ordinary run, over an edited document, leaves them as they are.
            opened.folder.write("a.txt", "The Harrow Light stands at Quill Point.")
            assert project.run().outcome.startswith("completed")
        links = project.table("relationships")
        assert "Anselm Torr" not in {*links["source"], *links["target"]}
    look_beneath(page, opened)


def look_beneath(page: Page, opened: Opened) -> None:
    """The panel of an entity tells what the model said, and takes the correction back."""
    page.goto(f"{opened.served.url}/graph?entity={entity_id('Quill Point')}")
    # The address opens the panel. A click on the node would draw it again, with closed sections.
    said = page.locator("#model-said")
    said.get_by_text("What the model said").click()
    expect(said.locator(".tag").first).to_have_text("HERON")
    expect(said.locator("blockquote").first).to_contain_text("Harrow Light")
    form = page.locator("#correct")
    form.get_by_text("Correct it").click()
    form.get_by_role("button", name="Take back").click()
    expect(form.get_by_role("status")).to_have_text(re.compile("^Taken back"))
    page.goto(opened.url)
    expect(page.locator("#pending")).to_contain_text("1 pending")
    expect(page.locator("#decided")).to_contain_text("taken back, pending")


def test_undo_takes_the_last_decision_back_and_escape_leaves_a_question(look: Look, opened: Opened):
    page = go(look, opened)
    before = opened.lines
    suspects = page.locator(SUSPECTS)
    if not suspects.count():
        # The other test has decided on all of them; one of its decisions makes room again.
        page.locator("#decided li", has_text="Lone Rock").get_by_role("button").click()
        expect(suspects).to_have_count(1)
        before = opened.lines
    page.locator("#suspects").focus()
    page.keyboard.press("t")
    expect(page.locator("#answer")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#suspects")).to_be_focused()
    page.keyboard.press("d")
    expect(page.locator("#told")).to_contain_text("deleted")
    assert opened.lines != before
    page.keyboard.press("u")
    expect(page.locator("#told")).to_have_text("Taken back.")
    assert opened.lines == before
    page.keyboard.press("u")
    expect(page.locator("#told")).to_have_text("Nothing to undo.")
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_contain_text("What the model said")
    assert grave_faults(page) == []
    page.set_viewport_size({"width": NARROW["width"], "height": NARROW["height"]})
    assert grave_faults(page) == []


def test_keys_decide_without_a_click_and_say_what_they_leave(look: Look, opened: Opened):
    before = opened.lines
    lines = opened.folder.root / "corrections.jsonl"
    lines.unlink(missing_ok=True)
    page = go(look, opened)
    first, second = page.locator(SUSPECTS).locator(".name").all_inner_texts()[:2]
    told = page.locator("#told")
    page.keyboard.press("t")
    expect(page.locator("#answer")).to_be_focused()
    offered = page.locator("#answers option").evaluate_all("all => all.map(one => one.value)")
    assert offered == ["DATE", "GROUP", "PERSON", "PLACE"]
    page.keyboard.type("WEIR")
    page.keyboard.press("Enter")
    expect(told).to_contain_text("ontology.yaml has no entity type 'WEIR'")
    expect(told).to_have_class("warn")
    choose(page, first)
    page.keyboard.press("d")
    expect(told).to_contain_text(f"{first} is decided already: typed WEIR")
    # Another test may have left decisions that are pending too.
    pending = page.locator("#pending").inner_text()
    assert "pending: " in pending

    choose(page, second)
    page.keyboard.press("r")
    expect(page.locator("#answer")).to_be_focused()
    page.keyboard.type("Another Name")
    page.keyboard.press("Enter")
    expect(told).to_have_text(f"{second}: named Another Name.")
    expect(page.locator("#pending")).not_to_have_text(pending)
    choose(page, second)
    page.locator("#decided li").first.get_by_role("button", name="Take back").click()
    expect(page.locator("#pending")).to_have_text(pending)
    expect(page.locator(f'{SUSPECTS}[aria-selected="true"] .name')).to_have_text(second)
    if before:
        lines.write_text(before, encoding="utf-8")
    else:
        lines.unlink()


def test_an_editor_splits_a_name_by_document_and_adds_a_statement(look: Look, opened: Opened):
    before = opened.lines
    page = look("about:blank", extra_http_headers={"X-API-Key": EDIT}).page
    page.goto(f"{opened.served.url}/graph?entity={entity_id('Mira Vale')}")
    form = page.locator("#correct")
    form.get_by_text("Correct it").click()
    form.get_by_label("Only in").select_option(document_id("b.txt"))
    form.get_by_label("Only where the text says").fill("met Anselm")
    form.get_by_label("Name", exact=True).fill("Mira Vale (surveyor)")
    form.get_by_role("button", name="Rename").click()
    expect(form.get_by_role("status")).to_have_text(re.compile("^Written; records: [1-9]"))
    expect(form.get_by_role("status")).to_be_in_viewport()
    expect(form.locator("li", has_text="Mira Vale (surveyor)")).to_contain_text("in one document")
    form.get_by_label("Type", exact=True).fill("WEIR")
    form.get_by_role("button", name="Set the type").click()
    expect(form.get_by_role("status")).to_contain_text("no entity type 'WEIR'")
    expect(form.get_by_role("status")).to_have_class("warn")
    form.locator("li", has_text="WEIR").get_by_role("button", name="Take back").click()
    expect(form.get_by_role("status")).to_have_text(re.compile("^Taken back"))
    # The panel scrolls, not the page.
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    form.get_by_label("Only where the text says").fill("")
    form.get_by_label("its target is").fill("Lone Rock")
    form.get_by_label("Its type").fill("SURVEYED")
    form.get_by_label("What is stated").fill("Mira Vale surveyed Lone Rock.")
    form.get_by_role("button", name="Add the statement").click()
    expect(form.locator("li", has_text="add statement")).to_be_visible()
    new = [json.loads(line) for line in opened.lines.removeprefix(before).splitlines()]
    (opened.folder.root / "corrections.jsonl").write_text(before, encoding="utf-8")
    rename, statement = sorted(new, key=lambda line: line["kind"], reverse=True)
    document = document_id("b.txt")
    assert (rename["kind"], rename["document"]) == ("rename", document)
    assert rename["quote"] == "met Anselm"
    assert (statement["kind"], statement["document"]) == ("add_statement", document)
    assert (statement["source"], statement["target"]) == ("Mira Vale", "Lone Rock")
    assert statement["type"] == "SURVEYED"


def test_only_editors_see_the_view_and_reach_its_routes(opened: Opened):
    for key, status in ((READ, 403), ("", 401)):
        headers = {"x-api-key": key} if key else {}
        with httpx2.Client(base_url=opened.served.url, headers=headers, timeout=60) as client:
            for path in ("/corrections", "/ui/corrections", "/ui/corrections/suspects"):
                assert client.get(path).status_code == status
            assert client.get("/ui/corrections/said?entity=Q").status_code == status
            assert client.post("/ui/corrections/apply", json={}).status_code == status
            home = client.get("/", headers={"Accept": "text/html"}).text
            assert 'href="./corrections"' not in home
    with httpx2.Client(base_url=opened.served.url, headers={"x-api-key": EDIT}) as client:
        assert "Corrections</a>" in client.get("/", headers={"Accept": "text/html"}).text
        assert client.post("/ui/corrections/apply", json={"max_cost": 1}).status_code == 422
        assert client.get("/ui/corrections/said?entity=%00").status_code == 422
        assert client.get("/ui/corrections/suspects?limit=0").status_code == 422


def test_a_run_under_way_is_said(opened: Opened):
    with (
        opened.folder.open() as project,
        project.runs.alone(),
        httpx2.Client(base_url=opened.served.url, headers={"x-api-key": EDIT}) as client,
    ):
        answer = client.post("/ui/corrections/apply", json={})
    assert answer.status_code == 409
    assert "under way" in answer.json()["error"]["message"]
