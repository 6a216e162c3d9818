"""axe-core finds nothing serious on any view, wide and narrow, light and dark; none is wider than
the window."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.serve.serving import serving
from tests.serve.ui.axe import grave_faults
from tests.serve.ui.browser import NARROW, WIDE
from tests.serve.ui.conftest import Look, Shown
from tests.sizes import size

ALL = [(WIDE, "light"), (NARROW, "light"), (NARROW, "dark"), (WIDE, "dark")]
SOME = [(WIDE, "light"), (NARROW, "dark")]
MAIN = ("answer", "graph", "documents", "runs")
SMALLEST = {"width": 360, "height": 740}


def answered(page: Page) -> None:
    page.get_by_label("Your question").fill("Who founded the Brack Institute?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Copy with sources")).to_be_visible()


def passage(page: Page) -> None:
    answered(page)
    page.get_by_role("article").get_by_role("button", name="Source 1").click()
    expect(page.get_by_role("dialog").locator("#cited-passage")).to_be_visible()


def whole_graph(page: Page) -> None:
    expect(page.get_by_role("status").filter(has_text="communities")).to_be_visible()


def an_entity(page: Page) -> None:
    page.get_by_role("searchbox").fill("brack institute")
    page.keyboard.press("Enter")
    page.locator("#found").get_by_role("button").first.click()
    expect(
        page.get_by_role("complementary", name="Details").get_by_role("heading").first
    ).to_be_visible()


def nights(page: Page) -> None:
    expect(page.get_by_role("table")).to_be_visible()


def a_night(page: Page) -> None:
    page.get_by_role("table").get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Steps")).to_be_visible()


def documents(page: Page) -> None:
    page.get_by_text("Filter", exact=True).click()
    expect(page.get_by_role("table")).to_be_visible()


def a_document(page: Page) -> None:
    page.get_by_role("table").get_by_role("link").first.click()
    page.get_by_text("Said here").first.click()
    expect(page.get_by_role("article").first).to_be_visible()


def passages(page: Page) -> None:
    expect(page.get_by_role("listitem").filter(has_text="light").first).to_be_visible()


STATES: dict[str, tuple[str, Callable[[Page], None]]] = {
    "ask": ("", lambda page: None),
    "answer": ("", answered),
    "passage": ("", passage),
    "graph": ("graph", whole_graph),
    "entity": ("graph", an_entity),
    "documents": ("documents", documents),
    "document": ("documents", a_document),
    "passages": ("documents?q=light&in=texts", passages),
    "runs": ("runs", nights),
    "night": ("runs", a_night),
    "plan": ("runs/plan", nights),
}


@pytest.mark.parametrize("state", STATES)
def test_nothing_serious(state: str, look: Look, shown: Shown) -> None:
    address, reach = STATES[state]
    page = look(f"{shown.url}/{address}").page
    reach(page)
    for viewport, scheme in ALL if state in MAIN else size(SOME, ALL):
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert grave_faults(page) == [], (viewport, scheme)
    for viewport in (NARROW, SMALLEST):
        page.set_viewport_size(viewport)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], viewport


def test_the_login(look: Look, shown: Shown) -> None:
    with shown.folder.open("serve.api_key=a-key") as project, serving(project) as served:
        page = look(served.url).page
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert grave_faults(page) == []


def test_a_fault_is_found(look: Look) -> None:
    page = look("data:text/html,<title>it</title><input><p style='color: %23ddd'>pale</p>").page
    assert {fault.partition(":")[0] for fault in grave_faults(page)} >= {
        "label",
        "color-contrast",
        "html-has-lang",
    }
