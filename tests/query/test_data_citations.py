import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.query.answer import join_pieces
from pipeline.query.citations.checker import Citations
from pipeline.query.data_citations import UNCHECKED, DataCitations

SHOWN = DataCitations.of({"reports": range(1, 8), "sources": [2]})


@pytest.mark.parametrize(
    ("said", "text", "removed"),
    [
        ("A [Data: Reports (1, 3)].", "A [Data: Reports (1, 3)].", 0),
        ("A [Data: Reports (1, 3, +more)].", "A [Data: Reports (1, 3, +more)].", 0),
        ("A [Data: Reports (1, 99)].", "A [Data: Reports (1)].", 1),
        ("A [Data: Reports (99)].", "A.", 1),
        (
            "A [data: reports (1); Sources (2, 3), Claims (4)].",
            "A [Data: Reports (1); Sources (2)].",
            2,
        ),
        ("A [Data: Reports (1,2,3,4,5,6)].", "A [Data: Reports (1, 2, 3, 4, 5, +more)].", 0),
        ("A [Data: 5].", "A.", 1),
        ("A [Data: Reports (1, 1, 01)].", "A [Data: Reports (1)].", 0),
        (
            "A [LLM: verify], [Data] and Data: Reports (9).",
            "A [LLM: verify], [Data] and Data: Reports (9).",
            0,
        ),
    ],
)
def test_numbers_of_what_was_not_shown_are_removed_and_counted(said: str, text: str, removed: int):
    assert SHOWN.check(said) == (text, removed)
    assert SHOWN.check(text) == (text, 0)


def test_modes_that_show_no_numbered_records_leave_them():
    assert UNCHECKED.check("A [Data: Reports (99)].") == ("A [Data: Reports (99)].", 0)


def test_a_citation_of_hundreds_is_checked_too():
    said = f"A [Data: Reports ({', '.join(map(str, range(1, 400)))}, +more)]."
    for pieces in ([said], said):
        assert (
            join_pieces(Citations((), SHOWN).stream(pieces))[0]
            == "A [Data: Reports (1, 2, 3, 4, 5, +more)]."
        )
    assert SHOWN.check(said)[1] == 392


@given(st.text(alphabet="A [](),;0123459Data:Reports+more\n", max_size=80), st.integers(1, 7))
def test_pieces_are_checked_as_the_whole(text: str, size: int):
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    citations = Citations((), SHOWN)
    assert join_pieces(citations.stream(pieces)) == join_pieces(citations.stream([text]))
