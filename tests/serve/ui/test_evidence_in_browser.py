"""The view Ask without a chat model, in a browser: the evidence itself."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.projects import new_project
from tests.serve.serving import Serving, serving
from tests.serve.ui.conftest import Look

RULES = """# Parking rules

Visitors park in the yard
behind the mill.

- Cars stand in row 7.
- Bicycles stand in row 9.
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Serving]:
    folder = new_project(tmp_path_factory.mktemp("evidence") / "p", postgres_url, {})
    folder.write("rules.md", RULES)
    with folder.open() as project:
        project.run("fast")
        with serving(project) as served:
            yield served


def test_the_sentence_most_likely_to_answer_is_first_and_lists_keep_their_lines(
    served: Serving, look: Look
) -> None:
    watched = look(served.url)
    page = watched.page
    page.fill("#question", "Where do bicycles stand?")
    page.press("#question", "Enter")
    likely = page.locator(".turn .likely")
    expect(likely).to_contain_text("Most likely: - Bicycles stand in row 9.")
    expect(likely.locator("[data-cite]")).to_have_text("1")
    text = page.locator(".turn .found p.text").first
    assert text.text_content() == (
        "# Parking rules\nVisitors park in the yard behind the mill.\n- Cars stand in row 7.\n"
        "- Bicycles stand in row 9."
    )
    assert text.evaluate("place => getComputedStyle(place).whiteSpace") == "pre-wrap"
    assert watched.complaints == []
