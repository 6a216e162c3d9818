"""What stands around every view: the menu, colours, workspaces; and the way in from another
site."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.projects import ProjectFolder
from tests.serve.serving import Serving, serving
from tests.serve.ui.browser import NARROW
from tests.serve.ui.conftest import Look

KEY = "key-of-two"


@pytest.fixture(scope="module")
def two(folder: ProjectFolder) -> Iterator[Serving]:
    """A key sees two workspaces; nothing is loaded into the second."""
    with folder.open() as project:
        first = project.settings.workspace
    keys = f"serve.keys.both={{key: {KEY}, workspace: [{first}, {first}-empty]}}"
    with folder.open(keys) as project, serving(project) as served:
        yield served


def sign_in(page: Page) -> None:
    page.get_by_label("Key").fill(KEY)
    page.keyboard.press("Enter")
    expect(page.get_by_role("navigation", name="Views")).to_be_visible()


def test_another_workspace_is_gone_to_in_the_same_view(look: Look, two: Serving) -> None:
    watched = look(f"{two.url}/documents")
    page = watched.page
    sign_in(page)
    page.wait_for_load_state("networkidle")
    expect(page.locator("#state")).to_be_empty()
    (other,) = [
        name
        for name in page.get_by_label("Workspace").locator("option").all_text_contents()
        if "empty" in name
    ]
    page.get_by_label("Workspace").select_option(other)
    expect(page.get_by_role("status").first).to_contain_text("Nothing is loaded")
    expect(page.locator("#state code")).to_have_text("graphmill run")
    assert page.url == f"{two.url}/w/{other}/documents"
    page.get_by_role("link", name="Ask").click()
    assert page.url == f"{two.url}/w/{other}/"
    page.wait_for_load_state("networkidle")
    page.get_by_label("Workspace").select_option(other.removesuffix("-empty"))
    page.wait_for_url(f"{two.url}/w/{other.removesuffix('-empty')}/")
    assert watched.elsewhere(two.url) == []


def test_the_menu_by_the_keyboard_and_colours_that_stay(look: Look, two: Serving) -> None:
    watched = look(f"{two.url}/docs", color_scheme="light", viewport=NARROW)
    page = watched.page
    sign_in(page)
    more = page.locator("summary", has_text="More")
    more.focus()
    page.keyboard.press("Enter")
    page.get_by_label("Colours").select_option("dark")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Colours")).to_be_hidden()
    expect(more).to_be_focused()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    assert (
        page.evaluate("getComputedStyle(document.body).backgroundColor")
        == dark
        == "rgb(22, 24, 27)"
    )
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]
    assert watched.complaints == []


def test_a_link_from_another_site_leads_where_it_says(look: Look, two: Serving) -> None:
    """The browser sends no cookie with it, and so the login asks for the session by itself."""
    page = look(f"{two.url}/docs").page
    sign_in(page)
    page.goto(f"data:text/html,<a href='{two.url}/documents?q=light'>there</a>")
    page.get_by_role("link", name="there").click()
    page.wait_for_url(f"{two.url}/documents?q=light")
    expect(page.get_by_role("navigation", name="Views")).to_be_visible()
