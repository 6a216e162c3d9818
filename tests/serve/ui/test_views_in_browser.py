"""Each view as people use it: what they see first, what a click or a key leads to, what stands in the address."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.serve.serving import serving
from tests.serve.ui.conftest import Look, Shown


@pytest.fixture
def page(look: Look, shown: Shown) -> Iterator[Page]:
    """A window in which nothing may go wrong, and nobody else be asked."""
    watched = look(shown.url)
    yield watched.page
    assert watched.complaints == []
    assert watched.elsewhere(shown.url) == []


def test_an_entity_is_found_shown_and_bookmarked(page: Page, shown: Shown) -> None:
    page.get_by_role("link", name="Graph", exact=True).click()
    drawn = page.get_by_role("complementary", name="Find and filter")
    expect(page.get_by_role("status").filter(has_text="communities")).to_be_visible()
    page.get_by_role("searchbox").fill("brack institute")
    page.keyboard.press("Enter")
    page.locator("#found").get_by_role("button", name=re.compile("^Brack Institute")).click()
    details = page.get_by_role("complementary", name="Details")
    expect(details.get_by_role("heading", name="Brack Institute")).to_be_visible()
    expect(details).to_contain_text("founded by Idra Senn in 1840")
    expect(drawn.get_by_role("button", name=re.compile("^Idra Senn")).first).to_be_visible()
    assert "entity=" in page.url
    page.reload()
    expect(details.get_by_role("heading", name="Brack Institute")).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()
    page.go_back()
    expect(page.get_by_role("status").filter(has_text="communities")).to_be_visible()


def test_a_night_with_its_steps_and_what_the_next_would_do(page: Page, shown: Shown) -> None:
    page.goto(f"{shown.url}/nights")
    night = page.get_by_role("table").get_by_role("link").first
    expect(page.get_by_role("table")).to_contain_text("Completed")
    night.click()
    for step in ("extract_graph_fast", "detect_communities"):
        expect(page.get_by_role("cell", name=step).or_(page.get_by_role("rowheader", name=step)).first).to_be_visible()
    page.goto(f"{shown.url}/nights")
    page.get_by_role("link", name="What the next run would do").click()
    expect(page.get_by_role("main")).to_contain_text("Nothing has changed")


def test_a_server_that_is_gone_is_said_in_words(look: Look, shown: Shown) -> None:
    with shown.folder.open() as project, serving(project) as served:
        page = look(f"{served.url}/graph").page
        expect(page.get_by_role("status").filter(has_text="communities")).to_be_visible()
    page.get_by_role("searchbox").fill("brack")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The server does not answer")).to_be_visible()
