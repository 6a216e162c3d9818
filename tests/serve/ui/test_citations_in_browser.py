"""The page draws the citations that the server has checked, in their places, and nothing else as
one."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.serve.ui.conftest import Look, Shown
from tests.servers.openai_server import Reply

QUESTION = "Who founded the Brack Institute?"
COPIED = """Object.defineProperty(navigator, 'clipboard', {
  value: { writeText: (text) => { globalThis.copied = text; return Promise.resolve(); } } })"""
SEEN = """globalThis.seen = [];
new MutationObserver(() => {
  const answer = document.querySelector('.answer');
  if (answer) globalThis.seen.push(answer.innerText);
}).observe(document, { childList: true, subtree: true });"""
"""Keeps every state in which an answer was shown."""


@pytest.fixture
def page(look: Look, shown: Shown) -> Iterator[Page]:
    watched = look("about:blank")
    watched.page.add_init_script(COPIED)
    watched.page.add_init_script(SEEN)
    watched.page.goto(shown.url)
    yield watched.page
    assert watched.complaints == []
    assert watched.elsewhere(shown.url) == []


def asked(page: Page, shown: Shown, reply: Reply) -> Locator:
    """The turn of a question that the model answers so."""
    shown.openai.script("chat", [reply])
    page.get_by_label("Your question").fill(QUESTION)
    page.keyboard.press("Enter")
    turn = page.get_by_role("article", name=QUESTION).last
    expect(turn.get_by_role("button", name="Copy with sources")).to_be_visible()
    return turn


def copied(page: Page, turn: Locator) -> str:
    turn.get_by_role("button", name="Copy with sources").click()
    expect(turn).to_contain_text("Copied.")
    return page.evaluate("globalThis.copied")


def test_chips_stand_where_the_annotations_are_and_nowhere_else(page: Page, shown: Shown) -> None:
    said = (
        "👩‍👩‍👧 𝔸 ⸨x⸩: the institute was founded by **Idra Senn**[ref:1] 🏛 in 1840 [ref:1].\n\n"
        "Kessary Bank wants your password [ref:2]. Verify your account [1], [ref:99] `list[1]`.\n\n"
        "[1]: definition\n\n[1](https://evil.example/login)\n\n    plain[1]\n"
    )
    turn = asked(page, shown, Reply(said, pause=0.02))
    chips = turn.locator(".answer .cite")
    expect(chips).to_have_count(3)
    lines = turn.locator(".answer").inner_text().split("\n")
    assert lines[0] == "👩‍👩‍👧 𝔸 ⸨x⸩: the institute was founded by Idra Senn1 🏛 in 1840 1."
    assert "Kessary Bank wants your password 2. Verify your account (1), list[1]." in lines
    assert [chip.get_attribute("data-cite") for chip in chips.all()] == ["1", "1", "2"]
    grey = turn.locator(".answer .cite.unsupported")
    expect(grey).to_have_count(1)
    expect(grey).to_have_attribute("data-cite", "2")
    expect(turn.locator("[data-note=unsupported]")).to_contain_text("Citations in grey: 1.")
    expect(turn.locator("[data-note=cites-nothing]")).to_have_count(0)
    chips.first.click()
    expect(page.get_by_role("dialog").locator("#cited-passage")).to_contain_text(
        "founded by Idra Senn in 1840"
    )
    page.keyboard.press("Escape")
    sources = copied(page, turn).split("Sources:\n")[1].split("\n")
    assert [line[:3] for line in sources] == ["[1]", "[2]"]
    assert [
        line.endswith("does not hold the names and numbers of what is said") for line in sources
    ] == [False, True]


def test_no_state_of_a_stream_shows_a_mark_that_is_taken_back(page: Page, shown: Shown) -> None:
    said = f"{'Idra Senn founded it in 1840 [ref:1]. Verify your account [1] [ref:99]. ' * 8}Done."
    turn = asked(page, shown, Reply(said, pause=0.02))
    expect(turn.locator(".answer .cite")).to_have_count(8)
    states: list[str] = page.evaluate("globalThis.seen")
    final = turn.locator(".answer").inner_text()
    # Nothing, a part and the whole, on however busy a machine.
    assert len(set(states)) >= 3
    assert all(final.startswith(state.rstrip()) for state in states)


def test_an_answer_that_cites_nothing_says_so_above_itself(page: Page, shown: Shown) -> None:
    turn = asked(page, shown, Reply("Please verify your account at the bank [1]."))
    note = turn.locator("[data-note=cites-nothing]")
    expect(note).to_contain_text("This answer cites nothing of the documents")
    answer = turn.locator(".answer")
    expect(answer).to_have_text("Please verify your account at the bank (1).")
    expect(answer.locator(".cite")).to_have_count(0)
    above, below = note.bounding_box(), answer.bounding_box()
    assert above
    assert below
    assert above["y"] + above["height"] <= below["y"]
    text = copied(page, turn)
    assert "This answer cites nothing" in text
    assert "Sources:" not in text
    page.reload()
    expect(page.locator("[data-note=cites-nothing]")).to_be_visible()


def test_a_copied_source_looks_like_no_other_source(page: Page, shown: Shown) -> None:
    def forge(route: Route) -> None:
        answer = route.fetch()
        body = answer.text().replace('"title": "The', '"title": "[2] Ledger (ledger.txt) The')
        route.fulfill(response=answer, body=body)

    page.route("**/query/stream*", forge)
    said = "The institute was founded by Idra Senn in 1840 [ref:1]."
    sources = copied(page, asked(page, shown, Reply(said))).split("Sources:\n")[1]
    assert sources.startswith("[1] (2) Ledger (ledger.txt) The")
