"""The words of an answer as chat clients show them, whatever documents and models write."""

import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pipeline.query.citations.annotations import Annotation
from pipeline.query.context import Reference
from pipeline.serve.chat.rendering import (
    JOINER,
    Permalinks,
    Rendering,
    title_of,
    without_sources,
)
from tests.sizes import size

LINKS = Permalinks("https://wiki.example.org/w/default")


def reference(number: int, title: str = "A title", heading: str = "") -> Reference:
    place = (number, f"chunk-{number}", "doc-a/b", "a.txt", title)
    return Reference(*place, None, 0, 10, "text", heading=heading)


def annotated(text: str) -> list[Annotation]:
    """Return a citation for each number in brackets."""
    found = re.finditer(r"\[(\d)\]", text)
    return [Annotation(one.start(), one.end(), int(one[1]), True) for one in found]


def written(text: str, at: int = 0) -> str:
    """Return the text as it is shown, given in pieces that are cut at ``at`` and before
    citations."""
    rendering, shown = Rendering(LINKS), ""
    citations = annotated(text)
    cuts = sorted({0, at, len(text), *(one.start for one in citations)})
    for start, end in pairwise(cuts):
        here = [one for one in citations if start <= one.start < end]
        if any(one.end > end for one in here):
            return written(text)
        shown += rendering.write(text[start:end], here)[0]
    return shown


def test_passages_are_numbered_in_the_order_in_which_they_are_cited():
    rendering = Rendering(LINKS)
    cited = [reference(7), reference(2)]
    rendering.show(cited)
    text = "One [7], two [2] and one [7]."
    shown, citations = rendering.write(text, annotated(text))
    assert shown == "One [1], two [2] and one [1]."
    places = [one["url_citation"] for one in citations]
    assert [shown[one["start_index"] : one["end_index"]] for one in places] == ["[1]", "[2]", "[1]"]
    assert places[0]["url"] == ("https://wiki.example.org/w/default/documents/doc-a%2Fb?at=chunk-7")
    listed = rendering.list_sources(cited).splitlines()[-2:]
    assert listed == [
        f"1. [A title]({places[0]['url']})",
        f"2. [A title (2)]({places[1]['url']})",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "He did [1](https://evil.example).",
        "He did [1][x].\n[x]: https://evil.example",
        "He did.[1]\n\n[1]: https://evil.example",
        "[He did [1]](https://evil.example).",
        "[He did [1] and\nmore](https://evil.example) ![1](https://evil.example)",
        "He did.\n\n---\n**Sources**\n\n1. [A title](https://evil.example)",
        "    ```\n[A title](https://evil.example)",
        "```\na\n  ```\n[A title](https://evil.example)",
        "``` a ` b\n[A title](https://evil.example)",
        "~~~\n```\n~~~\n[A title](https://evil.example)",
        " ```\n```\n[A title](https://evil.example)",
        "```\n    ```\n```\n[A title](https://evil.example)",
        "a\r```\rb\n```\n[A title](https://evil.example)",
        "> ```\n```\n```\n[A title](https://evil.example)",
    ],
)
def test_no_link_of_the_text_is_left(text: str):
    for at in range(len(text)):
        shown = written(text, at)
        assert shown.replace(JOINER, "") == text
        assert not re.search(r"\][(\[:]", shown)


FENCES = st.sampled_from(
    ["```", "````", "~~~", " ```", "    ```", "> ```", "- ```", "```py", "words", "", "a\r```"]
)
LINK = "[A title](https://evil.example)"


@given(lines=st.lists(FENCES, min_size=1, max_size=4), indent=st.sampled_from(["", "- ", "> "]))
@settings(max_examples=size(300, 5000))
def test_markdown_makes_no_link_after_fences_of_any_kind(lines: list[str], indent: str):
    text = "\n".join([*lines, f"{indent}{LINK}", ""])
    tokens = MarkdownIt().parse(written(text))
    made = [child.type for token in tokens for child in token.children or ()]
    assert "link_open" not in made


def test_no_html_of_the_text_is_left():
    text = 'He did. <a href="https://evil.example">A title</a> <!--\n```\n-->[a](b) 1 < 2'
    shown = written(text)
    assert shown.replace(JOINER, "") == text
    assert not re.search(r"<[a-zA-Z/!?]", shown)


@pytest.mark.parametrize("marks", ["```", "````"])
def test_blocks_of_code_stay_as_they_are(marks: str):
    code = f"{marks}python\nhandlers[a](x)\n~~~\nif a <b: d[e]: int\n{marks}\n"
    assert written(f"He did [1].\n\n{code}") == f"He did [1].\n\n{code}"


def test_the_places_of_citations_hold_for_drawn_texts_in_drawn_pieces():
    draw = random.Random(5)
    for _ in range(200):
        signs = draw.choices(["[1]", "[3]", "(", "[", "]", ":", "\n", "a ", "灯"], k=30)
        text, rendering, shown, at = "".join(signs), Rendering(LINKS), "", 0
        rendering.show([reference(1), reference(3)])
        places = []
        while at < len(text):
            end = min(len(text), at + draw.randint(1, 9))
            citations = [one for one in annotated(text) if at <= one.start < end]
            end = max([end, *(one.end for one in citations)])
            piece, found = rendering.write(text[at:end], citations)
            shown, at = shown + piece, end
            places += found
        assert len(places) == len(annotated(text))
        for place in places:
            cited = place["url_citation"]
            assert re.fullmatch(r"\[[12]\]", shown[cited["start_index"] : cited["end_index"]])


@pytest.mark.parametrize(
    "title",
    [
        "a](https://evil.example) [b",
        "a\n\n2. [b](https://evil.example)",
        "[1] <a href=x>b</a> `c` \\] | *d*",
        "word " * 100,
    ],
)
def test_a_title_is_one_line_of_plain_words(title: str):
    shown = title_of(reference(1, title, heading="H [2]"))
    assert not re.search(r"[\[\]<>`\\*|\n]", shown)
    assert 0 < len(shown) <= 200


def test_the_list_of_sources_is_taken_out_of_an_earlier_answer():
    rendering = Rendering(LINKS)
    answer = "It is so [1]." + rendering.list_sources([reference(1), reference(2)])
    assert without_sources(answer) == "It is so [1]."
    own = "Words.\n\n---\n**Sources**\n\nare rare."
    assert without_sources(own) == own
    assert rendering.list_sources([]) == ""
