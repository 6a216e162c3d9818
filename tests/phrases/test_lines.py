"""Test the meaning of line ends; names do not depend on how a text is broken into lines."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.phrases.lines import read_layout
from pipeline.phrases.mentions import Sentence, read_sentences
from pipeline.phrases.titles import Gazetteer

NO_TITLES = Gazetteer([])
PROSE = (
    "The rope walk was sold to the Harbour Guild of Tessing when the old keeper of the light, whose"
    " name was Hugo Ballard, had left for the north with the Countess of Sayn-Wittgenstein and the"
    " Apollo Guidance Computer. It was there that the members of the European Parliament saw the"
    " Ford Motor Company and the ships of the Royal Navy lying at the quay of Lake Annoch, which"
    " the Institute of Tides had measured in the year before the great storm."
)


def names(text: str) -> list[str]:
    return [
        name.text
        for sentence in read_sentences(text, NO_TITLES)
        for name in sentence.names
        if not name.doubtful
    ]


def sentences(text: str) -> list[Sentence]:
    return read_sentences(text, NO_TITLES)


@pytest.mark.parametrize("width", range(28, 100, 3))
def test_a_name_continues_behind_a_line_broken_by_the_width_of_the_page(width):
    assert names(textwrap.fill(PROSE, width, break_on_hyphens=False)) == names(PROSE)
    wrapped = textwrap.fill(PROSE, width)
    assert "Countess of Sayn-Wittgenstein" in names(wrapped) or "Sayn-\nWittgenstein" not in wrapped


def test_a_name_ends_with_a_line_much_shorter_than_its_neighbours():
    text = "Signed by Idra Vasterling\nEngineer to the Harbour Board\n\n" + textwrap.fill(PROSE, 60)
    assert "Idra Vasterling" in names(text)
    assert "Idra Vasterling" in names(
        "A Report by Idra Vasterling\nLondon was the place where the long report " + PROSE
    )


def test_rows_of_a_table_are_sentences_with_separate_cells():
    text = (
        "Some lines before.\n\n| Name | City |\n|------|------|\n| Ann Moor | Frankfurt |\n| Bob"
        " Vale | Dublin |\n"
    )
    rows = [sentence for sentence in sentences(text) if sentence.row]
    assert [[name.text for name in row.names if not name.doubtful] for row in rows] == [
        ["Ann Moor", "Frankfurt"],
        ["Bob Vale", "Dublin"],
    ]
    assert not {"Name", "City"} & set(names(text))


@pytest.mark.parametrize("gap", ["\t", "   ", ";"])
def test_a_table_needs_no_bars(gap):
    text = "\n".join(gap.join((f"Name{n} Moor", f"City{n}", str(n))) for n in range(4))
    assert [[name.text for name in sentence.names] for sentence in sentences(text)] == [
        [f"Name{n} Moor", f"City{n}"] for n in range(4)
    ]


def test_items_of_a_list_are_sentences():
    text = (
        "Present were:\n- Ann Moor, keeper\n- Bob Vale, who came late\n  and left\n\nThen it was"
        " over."
    )
    assert [sentence.text.split()[0] for sentence in sentences(text)] == [
        "Present",
        "-",
        "-",
        "Then",
    ]


@pytest.mark.parametrize("filling", [" ", "-", "| "])
def test_a_line_of_very_many_blanks_or_dashes_is_read_fast(filling: str):
    read_layout(
        f"Ann Moor\n{filling * 10**6}x\nBob Vale"
    )  # hours, if each place in it may begin a rule


def test_prose_with_commas_is_no_table():
    assert read_layout(textwrap.fill(PROSE, 60)).cuts == []


@given(st.text(alphabet="Ab1 ,;|\t\n-.*é中", max_size=200))
def test_a_layout_is_as_long_as_its_text(text):
    layout = read_layout(text)
    assert len(layout.reading) == len(text)
    assert layout.cuts == sorted(set(layout.cuts))
    assert all(0 <= cut <= len(text) for cut in layout.cuts)
    joined = [sentence.text for sentence in read_sentences(text, NO_TITLES)]
    assert "".join("".join(joined).split()) == "".join(text.split())
