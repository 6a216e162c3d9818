"""Each view as people use it: what they see first, what a click or a key leads to, what stands in
the address."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from pipeline.text.ids import entity_id
from tests.serve.serving import serving
from tests.serve.ui.conftest import Look, Shown
from tests.servers.openai_server import Reply


@pytest.fixture
def page(look: Look, shown: Shown) -> Iterator[Page]:
    """A window in which nothing may go wrong, and nobody else be asked."""
    watched = look(shown.url)
    yield watched.page
    assert watched.complaints == []
    assert watched.elsewhere(shown.url) == []


QUESTION = "Who founded the Brack Institute?"


def ask(page: Page, question: str = QUESTION) -> Locator:
    """By the keyboard; the turn of the conversation that it begins."""
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")
    return page.get_by_role("article", name=question).last


def test_an_answer_and_the_passage_of_its_citation(page: Page, shown: Shown) -> None:
    turn = ask(page)
    expect(turn).to_contain_text("The sources tell of Brack Institute")
    turn.get_by_role("button", name="Source 1").click()
    passage = page.get_by_role("dialog")
    expect(passage.locator("#cited-passage")).to_contain_text("founded by Idra Senn in 1840")
    passage.get_by_role("link", name="In its document").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The Brack Institute")
    expect(page.locator("article.asked")).to_contain_text("founded by Idra Senn in 1840")


def test_a_link_of_a_chat_client_shows_the_passage(page: Page, shown: Shown) -> None:
    cited = shown.served.ask("/query/data", mode="naive").json()["references"][0]
    page.set_viewport_size({"width": 800, "height": 200})
    page.goto(f"{shown.url}/documents/{cited['document_id']}?at={cited['chunk_id']}")
    expect(page.locator("article.asked")).to_be_in_viewport()
    page.wait_for_function("window.scrollY > 0")


def test_an_answer_comes_in_pieces_and_can_be_stopped_and_asked_again(
    page: Page, shown: Shown
) -> None:
    shown.openai.script("chat", [Reply(f"First words, {'and more words ' * 300}", pause=0.2)])
    turn = ask(page)
    expect(turn).to_contain_text("First words, and more")
    question = page.get_by_label("Your question")
    question.fill("And then?")
    page.keyboard.press("Enter")
    expect(question).to_have_value("And then?")  # it is asked when this one is answered
    page.get_by_role("button", name="Stop").click()
    expect(turn).to_contain_text("Stopped.")
    expect(turn).to_contain_text("First words, and more")
    turn.get_by_role("button", name="Ask again").click()
    expect(page.get_by_role("article")).to_have_count(1)
    expect(turn).to_contain_text("The sources tell of")


def test_a_conversation_and_what_this_browser_has_asked(page: Page, shown: Shown) -> None:
    expect(ask(page)).to_contain_text("The sources tell of")
    expect(ask(page, "And when was that?")).to_contain_text("The sources tell of")
    sent = [request for request in shown.openai.requests if request.kind == "chat"][-1].body[
        "messages"
    ]
    assert any(QUESTION in message["content"] for message in sent[:-1])
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_role("article")).to_have_count(0)
    earlier = page.get_by_role("region", name="Earlier questions of this browser")
    expect(earlier.get_by_role("button", name=QUESTION)).to_be_visible()
    earlier.get_by_role("button", name="Forget them").click()
    expect(earlier.get_by_role("button", name=QUESTION)).to_have_count(0)


def test_a_conversation_is_there_again_after_a_look_elsewhere(page: Page, shown: Shown) -> None:
    expect(ask(page)).to_contain_text("The sources tell of")
    expect(ask(page, "And when was that?")).to_contain_text("The sources tell of")
    page.get_by_role("tabpanel").get_by_role("link", name="In its document").first.click()
    expect(page.locator("article.asked")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("article")).to_have_count(2)
    page.get_by_role("article").last.get_by_role("button", name="Source 1").click()
    expect(page.get_by_role("dialog").locator("#cited-passage")).to_contain_text(
        "founded by Idra Senn in 1840"
    )
    page.keyboard.press("Escape")
    expect(page.get_by_role("tabpanel")).to_contain_text("Idra Senn in 1840")
    page.get_by_role("button", name="New conversation").click()
    page.reload()
    expect(page.get_by_role("region", name="Earlier questions of this browser")).to_be_visible()
    expect(page.get_by_role("article")).to_have_count(0)


def test_what_a_screen_reader_is_told_and_where_the_keyboard_goes_on(page: Page) -> None:
    said = page.locator("#said")
    first = ask(page)
    expect(said).to_have_text(re.compile("Answered, from [1-9]"))
    expect(page.get_by_label("Your question")).to_be_focused()
    expect(first.get_by_role("button", name="Evidence")).to_have_count(0)  # it is beside it
    offered = first.get_by_role("button", name=re.compile("^What is said about"))
    question = offered.first.inner_text()
    offered.first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name=question)).to_be_focused()
    expect(page.get_by_role("article", name=question)).to_contain_text("The sources tell of")
    expect(offered).to_have_count(0)
    first.get_by_role("button", name="Evidence").click()


def test_a_browser_that_keeps_nothing_asks_all_the_same(look: Look, shown: Shown) -> None:
    page = look("about:blank").page
    page.add_init_script(
        "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }"
    )
    page.goto(shown.url)
    expect(ask(page)).to_contain_text("The sources tell of")


def test_the_evidence_in_tabs_by_the_keyboard(page: Page) -> None:
    expect(ask(page)).to_contain_text("The sources tell of")
    evidence = page.get_by_role("region", name="Evidence")
    expect(evidence.get_by_role("tabpanel")).to_contain_text("Idra Senn in 1840")
    evidence.get_by_role("tab", name="Passages").focus()
    for tab, said in (
        ("Entities", "Idra Senn"),
        ("Relationships", "Brack Institute"),
        ("Graph", "entities"),
    ):
        page.keyboard.press("ArrowRight")
        expect(evidence.get_by_role("tab", name=tab)).to_be_focused()
        expect(evidence.get_by_role("tabpanel")).to_contain_text(said)
    expect(evidence.locator("canvas").first).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(evidence.get_by_role("tabpanel")).to_contain_text("Tokens by section")
    page.emulate_media(color_scheme="dark")  # a drawing that is closed has no colours to change
    expect(page.locator("body")).to_have_css("background-color", "rgb(22, 24, 27)")


def test_what_an_address_brings_along_is_seen_before_it_is_asked(page: Page, shown: Shown) -> None:
    page.goto(f"{shown.url}/?user_prompt=Sing&where=%7B%22__proto__%22:%7B%22%3D%22:%22x%22%7D%7D")
    expect(page.get_by_label("A wish for the answer")).to_be_visible()
    expect(page.get_by_label("Value")).to_have_value("x")
    assert page.evaluate("({})['=']") is None


def test_documents_are_listed_searched_and_read(page: Page, shown: Shown) -> None:
    page.get_by_role("link", name="Documents").click()
    expect(page.get_by_role("table").get_by_role("rowheader")).to_have_count(3)
    page.get_by_role("searchbox").fill("Tollen")
    page.keyboard.press("Enter")
    expect(page.get_by_role("table").get_by_role("rowheader")).to_have_count(1)
    page.get_by_role("link", name="The Tollen Observatory").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The Tollen Observatory")
    page.get_by_role("main").get_by_role("link", name="Anselm Torr").first.click()
    expect(page.get_by_role("complementary", name="Find and filter")).to_contain_text("Anselm Torr")
    page.goto(f"{shown.url}/documents?q=ground+its+first+lens&in=texts")
    expect(page.get_by_role("main").get_by_role("list").last).to_contain_text(
        "ground its first lens"
    )


def test_without_a_chat_model_the_evidence_is_the_answer(look: Look, shown: Shown) -> None:
    with shown.folder.open() as project, serving(project) as served:
        page = look(served.url).page
        turn = ask(page)
        expect(turn).to_contain_text("No chat model is configured")
        expect(turn).to_contain_text("founded by Idra Senn in 1840")
    assert page.get_by_role("region", name="Evidence").get_by_role("tab").count() > 3
    expect(ask(page, "Who is still there?")).to_contain_text("The server does not answer")


def test_a_server_that_is_gone_before_the_first_question(look: Look, shown: Shown) -> None:
    """What shows an answer has not been loaded yet."""
    with shown.folder.open() as project, serving(project) as served:
        page = look(served.url).page
        expect(page.locator("#loaded")).not_to_be_empty()  # the frame has been told all
    turn = ask(page)
    expect(turn).to_contain_text("The server does not answer")
    expect(turn.get_by_role("button", name="Ask again")).to_be_visible()


def test_all_that_ask_loads_is_small(look: Look, shown: Shown) -> None:
    """The scripts and styles of an answer with its evidence and their drawing, as they come over
    the wire."""
    with_sizes = look("about:blank")
    sizes: dict[str, int] = {}
    with_sizes.page.on(
        "requestfinished", lambda one: sizes.update({one.url: one.sizes()["responseBodySize"]})
    )
    with_sizes.page.goto(shown.url)
    expect(ask(with_sizes.page)).to_contain_text("The sources tell of")
    with_sizes.page.get_by_role("tab", name="Graph").click()
    expect(with_sizes.page.locator("canvas").first).to_be_visible()
    with_sizes.page.wait_for_load_state("networkidle")
    loaded = {url: size for url, size in sizes.items() if "/assets/" in url}
    assert any("sigma" in url for url in loaded)
    assert sum(loaded.values()) < 300_000, loaded


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


def test_the_graph_by_the_keyboard(page: Page, shown: Shown) -> None:
    page.goto(f"{shown.url}/graph")
    expect(page.get_by_role("status").filter(has_text="communities")).to_be_visible()
    details, listed = (
        page.get_by_role("complementary", name="Details"),
        page.locator("#nodes").get_by_role("button"),
    )
    listed.first.focus()
    page.keyboard.press("Enter")
    expect(details).to_be_focused()
    page.keyboard.press("Escape")
    expect(listed.first).to_be_focused()
    expect(details).to_be_hidden()
    page.keyboard.press("Enter")
    expect(details).to_be_focused()
    details.get_by_role("button", name="Open it").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#canvas")).to_be_focused()
    expect(
        page.get_by_role("navigation", name="What is drawn").get_by_role("button")
    ).not_to_have_count(1)
    page.goto(f"{shown.url}/graph?{urlencode({'entity': entity_id('Idra Senn')})}")
    expect(listed).not_to_have_count(0)
    listed.last.focus()
    page.keyboard.press("Enter")
    expect(details).to_be_focused()
    details.get_by_role("button", name="Expand").focus()
    page.keyboard.press("Enter")
    expect(details.get_by_role("button", name="Collapse")).to_be_visible()
    expect(details).to_be_focused()


def test_a_library_that_does_not_come_is_named(look: Look, shown: Shown) -> None:
    page = look("about:blank").page
    page.route("**/vendor/sigma*", lambda route: route.abort())
    page.goto(f"{shown.url}/graph")
    expect(page.locator("#canvas")).to_contain_text("sigma.min.js could not be loaded")
    expect(page.locator("#nodes").get_by_role("button")).not_to_have_count(0)


def test_who_may_not_see_the_graph_is_led_to_none(look: Look, shown: Shown) -> None:
    key = 'serve.keys.reader={key: o, where: {source: {"!=": harbour.txt}}}'
    with shown.folder.open(key, "serve.api_key=all") as project, serving(project) as served:
        page = look(served.url, extra_http_headers={"X-API-Key": "o"}).page
        ask(page)
        page.get_by_role("tab", name="Entities").click()
        panel = page.get_by_role("tabpanel")
        expect(panel).to_be_visible()
        expect(panel).not_to_contain_text("Brack Institute")
        expect(panel.get_by_role("link")).to_have_count(0)


def test_a_night_with_its_steps_and_what_the_next_would_do(page: Page, shown: Shown) -> None:
    page.goto(f"{shown.url}/runs")
    night = page.get_by_role("table").get_by_role("link").first
    expect(page.get_by_role("table")).to_contain_text("Completed")
    night.click()
    for step in ("extract_graph_fast", "detect_communities"):
        expect(
            page.get_by_role("cell", name=step).or_(page.get_by_role("rowheader", name=step)).first
        ).to_be_visible()
    page.goto(f"{shown.url}/runs")
    page.get_by_role("link", name="What the next run would do").click()
    expect(page.get_by_role("main")).to_contain_text("Nothing has changed")


def test_a_server_that_is_gone_is_said_in_words(look: Look, shown: Shown) -> None:
    with shown.folder.open() as project, serving(project) as served:
        page = look(f"{served.url}/graph").page
        expect(page.get_by_role("status").filter(has_text="communities")).to_be_visible()
        page.get_by_role("searchbox").fill("brack institute")
        page.keyboard.press("Enter")
        page.locator("#found").get_by_role("button", name=re.compile("^Brack Institute")).click()
        details = page.get_by_role("complementary", name="Details")
        expect(details.get_by_role("heading", name="Brack Institute")).to_be_visible()
        expect(details.get_by_role("button", name="Expand")).to_have_count(0)  # it is what is drawn
        page.locator("#nodes").get_by_role("button", name=re.compile("^Idra Senn")).click()
        expect(details.get_by_role("button", name="Expand")).to_be_visible()
    details.get_by_role("button", name="Expand").click()
    expect(page.locator("#drawn")).to_contain_text("The server does not answer")
    page.get_by_role("searchbox").fill("brack")
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_contain_text("The server does not answer")
