"""Signing in and out as a person does, without a mouse, and what follows when a session has
ended."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from pipeline.serve.browser import LEADS_ON
from pipeline.serve.sessions import OneTimeToken
from tests.projects import ProjectFolder
from tests.serve.serving import Serving, serving
from tests.serve.ui.conftest import Look

KEY = "the key of this test"


@pytest.fixture(scope="module")
def guarded(folder: ProjectFolder) -> Iterator[Serving]:
    with folder.open(f"serve.api_key={KEY}") as project, serving(project) as served:
        yield served


def sign_in(page: Page, key: str = KEY) -> None:
    """The field has the focus from the start."""
    expect(page.get_by_label("Key")).to_be_focused()
    page.keyboard.type(key)
    page.keyboard.press("Enter")


def test_by_the_keyboard_in_and_out(look: Look, guarded: Serving) -> None:
    watched = look(f"{guarded.url}/runs")
    page = watched.page
    sign_in(page, "not this one")
    expect(page.get_by_role("alert")).to_contain_text("not known")
    sign_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    assert page.url == f"{guarded.url}/runs"
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.locator("summary", has_text="More").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Sign out").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Key")).to_be_focused()
    assert KEY not in page.content() + page.evaluate("JSON.stringify(localStorage)")
    assert not any(KEY in url or KEY.replace(" ", "%20") in url for url in watched.requests)


def test_a_session_that_has_ended_leads_to_the_login_and_back(look: Look, guarded: Serving) -> None:
    page = look(guarded.url).page
    sign_in(page)
    expect(page.get_by_role("navigation")).to_be_visible()
    page.wait_for_load_state("networkidle")  # else the scripts themselves find no session
    (cookie,) = page.context.cookies()
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    page.context.add_cookies(
        [{**cookie, "value": f"{cookie.get('value')}x"}]
    )  # as if of another day
    page.get_by_label("Your question").fill("Who founded the Brack Institute?")
    page.keyboard.press("Enter")
    sign_in(page)
    expect(page.get_by_role("navigation")).to_be_visible()
    assert page.url == f"{guarded.url}/"


def test_the_address_of_ui_signs_in_once_and_the_person_may_edit(
    look: Look, folder: ProjectFolder, tmp_path: Path
):
    told: list[str] = []
    token = OneTimeToken(told.append)
    with folder.open("workflow=fast") as project, serving(project, token=token) as served:
        link = f"{served.url}/login?token={token.value}"
        file = tmp_path / "open.html"
        file.write_text(LEADS_ON.format(address=link))
        page = look(
            file.as_uri()
        ).page  # a page of another origin, as far as the browser is concerned
        expect(page.get_by_role("navigation")).to_be_visible()
        assert page.url == f"{served.url}/"
        page.goto(f"{served.url}/runs/plan")
        expect(page.get_by_role("button", name="Run now")).to_be_visible()
        other = look(link).page
        expect(other.get_by_role("alert")).to_contain_text("has been used")
        other.keyboard.type(told[0])
        other.keyboard.press("Enter")
        expect(other.get_by_role("navigation")).to_be_visible()


def test_a_link_from_another_site_leads_to_the_page_of_an_open_server(
    look: Look, served: Serving, tmp_path: Path
):
    elsewhere = tmp_path / "wiki.html"
    elsewhere.write_text(f'<a href="{served.url}/documents">Documents</a>')
    page = look(elsewhere.as_uri()).page
    page.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Documents")
