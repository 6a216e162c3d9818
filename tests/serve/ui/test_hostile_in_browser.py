"""Documents, names and answers made of markup change no page, and no page asks anybody else for
anything."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.serve.serving import Serving, serving
from tests.serve.ui.conftest import Look
from tests.serve.ui.hostile_pages import ELSEWHERE, MARKUP, QUESTION, hostile_project
from tests.servers.openai_server import openai_server

VIEWS, PAGES = ("graph", "documents", "runs"), 6
FOREIGN = """() => [...document.querySelectorAll('script:not([src]), style, img, iframe, object, embed, base,' +
  '[onerror], [onload], [onfocus], [onclick], form[action^=http], link[href^=http]')].map((found) => found.outerHTML)"""  # noqa: E501
"""What markup of a document would have become."""
LINKS = "() => [...document.querySelectorAll('a[href]')].map((link) => link.href.split('#')[0])"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Serving]:
    with openai_server() as openai:
        folder = hostile_project(tmp_path_factory.mktemp("hostile") / "p", postgres_url, openai)
        with (
            folder.open(*folder.endpoint_overrides, "cache=''") as project,
            serving(project) as served,
        ):
            yield served


def links_of(page: Page) -> set[str]:
    """Those of a page that nothing has become part of."""
    assert page.evaluate(FOREIGN) == [], page.url
    found = set(page.evaluate(LINKS))
    assert not {link for link in found if not link.startswith("http")}, page.url
    return found


def test_every_page_that_a_link_leads_to(look: Look, hostile: Serving) -> None:
    watched = look(hostile.url)
    views = tuple(f"{hostile.url}/{view}" for view in VIEWS)
    waiting, seen = [hostile.url, *views], set[str]()
    while waiting:
        watched.page.goto(waiting[0])
        watched.page.wait_for_load_state("networkidle")
        seen.add(waiting[0])
        links = sorted(links_of(watched.page))
        for view in views:
            known = sum(address.startswith(view) for address in {*seen, *waiting})
            waiting += [link for link in links if link.startswith(view) and link not in seen][
                : max(0, PAGES - known)
            ]
        waiting = [address for address in dict.fromkeys(waiting) if address not in seen]
    assert all(sum(address.startswith(view) for address in seen) > 1 for view in views)
    assert watched.elsewhere(hostile.url) == []
    assert watched.complaints == []


def test_an_answer_and_its_evidence(look: Look, hostile: Serving) -> None:
    watched = look(hostile.url)
    page = watched.page
    page.get_by_label("Your question").fill(QUESTION)
    page.keyboard.press("Enter")
    turn = page.get_by_role("article").last
    expect(turn.get_by_role("button", name="Copy with sources")).to_be_visible()
    for said in MARKUP[:6]:
        expect(turn).to_contain_text(said.split()[0])
    expect(turn).to_contain_text("(address removed)")
    assert (
        f"{ELSEWHERE}/followed" not in turn.inner_text()
    )  # what the model was shown has no such address
    for tab in page.get_by_role("tab").all():
        tab.click()
        expect(page.get_by_role("tabpanel")).not_to_be_empty()
        links_of(page)
    turn.get_by_role("button", name="Source 1").click()
    expect(page.get_by_role("dialog").locator("#cited-passage")).to_be_visible()
    links_of(page)
    page.keyboard.press("Escape")
    page.reload()  # the window has kept it
    expect(page.get_by_role("tabpanel")).not_to_be_empty()
    expect(page.get_by_role("article").last.get_by_role("button", name="Source 1")).to_be_visible()
    links_of(page)
    page.get_by_role(
        "button", name="New conversation"
    ).click()  # it is among the earlier questions now
    expect(page.get_by_role("button", name=QUESTION)).to_be_visible()
    links_of(page)
    assert watched.elsewhere(hostile.url) == []
    assert watched.complaints == []


def test_entities_and_what_they_are_told_of(look: Look, hostile: Serving) -> None:
    watched = look(f"{hostile.url}/graph")
    page = watched.page
    for name in MARKUP[:4]:
        page.get_by_role("searchbox").fill(name)
        page.keyboard.press("Enter")
        page.locator("#found").get_by_role("button", name=name).first.click()
        expect(
            page.get_by_role("complementary", name="Details").get_by_role("heading").first
        ).to_contain_text(name[:20])
        page.locator("canvas").last.hover()
        links_of(page)
    assert watched.elsewhere(hostile.url) == []
    assert watched.complaints == []
