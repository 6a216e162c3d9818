"""Test the search for titles; its cost does not grow with the number of titles that begin alike."""

import gc
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.phrases.names import is_chinese
from pipeline.phrases.titles import (
    Gazetteer,
    TitleRow,
    TitleSearch,
    names_of_documents,
    naming_titles,
)
from pipeline.text.ids import match_key

SHARED = {"latin": "Invoice {} ACME Corp", "chinese": "会议{}记录"}


def found(gazetteer: Gazetteer, text: str) -> list[str]:
    return [name.text for name in gazetteer.find(text)]


def calls(gazetteer: Gazetteer, text: str) -> int:
    """Count the calls of functions, of C as well, during a search."""
    counted = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    # A collection would run the finalizers of other tests' objects, and count their calls.
    gc.disable()
    sys.setprofile(count)
    try:
        gazetteer.find(text)
    finally:
        sys.setprofile(before)
        gc.enable()
    return counted


@pytest.mark.parametrize("script", SHARED)
def test_titles_that_begin_alike_cost_no_more_than_one(script: str):
    title = SHARED[script]
    text = (
        f"The letter names {title.format('000007')} and {title.format('999999')}, 会议 and Invoice."
    )
    few, many = (
        Gazetteer(title.format(f"{number:06}") for number in range(count)) for count in (8, 8_000)
    )
    assert found(few, text) == found(many, text) == [title.format("000007")]
    assert calls(few, text) == calls(many, text)


@pytest.mark.parametrize(
    ("titles", "text", "expected"),
    [
        (["Mira", "Mira Vale", "Mira Valentine"], "Mira Vale, Mira Valen and Mira",
            ["Mira Vale", "Mira", "Mira"]),
        (["Harbour Guild", "Harbour Guild of Tessing"], "the Harbour Guild of\nTessing",
            ["Harbour Guild of Tessing"]),
        (["C", "C++", "C++17"], "C++17, C++ and C", ["C++17", "C++", "C"]),
        (["林海", "林海灯塔"], "林海灯塔和林海。", ["林海灯塔", "林海"]),
        (["The", "1871", "May"], "The May of 1871.", []),
    ],
)  # fmt: skip
def test_the_longest_title_that_ends_with_a_word_is_found(
    titles: list[str], text: str, expected: list[str]
):
    assert found(Gazetteer(titles), text) == expected


WORDS = st.sampled_from(
    ["Mira", "Vale", "Mi", "C++", "of", "the", "Guild", "7", "林海", "林", "灯塔", "O'Brien", "-"]
)
PHRASES = st.builds(" ".join, st.lists(WORDS, min_size=1, max_size=4)) | st.builds(
    "".join, st.lists(WORDS, min_size=1)
)


@given(st.lists(PHRASES, max_size=12), st.lists(PHRASES, max_size=6))
def test_each_title_is_found_where_no_longer_one_overlaps_it(titles: list[str], parts: list[str]):
    text = " ".join(parts)
    of_all = Gazetteer(titles).find(text)
    places = {place for name in of_all for place in range(name.start, name.end)}
    for name in of_all:
        assert name.text == text[name.start : name.end]
    for title in titles:
        for name in Gazetteer([title]).find(text):
            assert name in of_all or places.intersection(range(name.start, name.end))
            assert not is_chinese(title) or title in text


def test_given_titles_headings_and_names_of_files_of_one_document_only_are_names():
    documents = [
        ("a", "Harrow Light", "given"),
        ("b", "The Brack Institute", "heading"),
        ("c", "Tessing", ""),
        ("d", "Dear all,", "first_line"),
        ("e", "scan0001", "file_name"),
        ("f", " ", "given"),
        ("g", "Minutes", "given"),
        ("h", "MINUTES", "heading"),
        ("i", "ACME Corp", "heading"),
        ("j", "ACME Corp", "first_line"),
        ("k", "Lamp", "heading"),
        ("l", "lamp", "file_name"),
        ("m", "Ann Moor", "file_name"),
        ("n", "meeting notes", "file_name"),
        ("o", "2024-05-03", "file_name"),
        ("p", "Norholm", "file_name"),
        ("q", "Norholm", "file_name"),
    ]
    named = {
        "a": "Harrow Light", "b": "The Brack Institute", "c": "Tessing", "k": "Lamp",
        "m": "Ann Moor",
    }  # fmt: skip
    rows = [TitleRow(*document) for document in documents]
    assert naming_titles(rows) == naming_titles(reversed(rows)) == named


def test_what_many_titles_end_with_is_no_part_of_their_names():
    people = ["Ann Moor", "Hugo Ballard", "Mira Vale", "Otto Holm", "Orla Venn"]
    rows = [
        TitleRow(name, f"{name} | Guild Handbook", "given", (), f"{name}.html") for name in people
    ]
    few = names_of_documents([*rows[:4], TitleRow("o", "Tides - 1871", "given")])
    assert few["Ann Moor"].title == "Ann Moor | Guild Handbook"
    many = names_of_documents([*rows, TitleRow("o", "Tides - 1871", "given")])
    assert [many[name].title for name in people] == people
    assert many["o"].title == "Tides - 1871"


@pytest.mark.parametrize(
    ("sources", "is_name"),
    [
        (("policies/travel-v1.md", "policies/travel-v2.md"), True),
        (("Travel.md", "Travel (rev 3).md"), False),
        (("travel v1.0.md", "travel v1.1.docx"), True),
        (("a/travel-v1.md", "b/travel-v2.md"), False),
        (("minutes-01.md", "minutes-02.md"), False),
        (("list-v2.csv#1", "list-v2.csv#2"), False),
        (("v1.md", "v2.md"), False),
    ],
)
def test_versions_of_one_file_share_their_title(sources: tuple[str, str], is_name: bool):
    rows = [
        TitleRow(str(place), "Travel Policy", "given", (), source)
        for place, source in enumerate(sources)
    ]
    assert len(naming_titles(rows)) == (2 if is_name else 0)


KEYED = st.text(alphabet="aAeéßﬁⅧ™.-_ '’İıςΣσ林ｱ가\u0301\u0345ᾳ℃①²K", max_size=6)


@given(KEYED, KEYED, KEYED)
def test_a_search_misses_no_name_whatever_its_spelling(before: str, name: str, after: str):
    text = f"{before} {name} {after}"
    for spelled in (name, name.upper(), name.casefold()):
        if match_key(spelled) == match_key(name) and any(map(str.isalnum, name)):
            assert TitleSearch([spelled]).may_find(text)
