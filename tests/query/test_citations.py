from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.query.answer import join_pieces
from pipeline.query.citations.checker import Citations
from pipeline.query.context import Reference
from tests.sizes import size

SHOWN = Citations(
    tuple(
        Reference(
            number, f"chunk-{number}", "doc-a", "letters/ada.txt", "Ada's letters", {}, 0, 4, "text"
        )
        for number in (1, 2, 3)
    )
)


def checked(said: str, citations: Citations = SHOWN) -> tuple[str, int]:
    text, cited = join_pieces(citations.stream([said]))
    return text, cited.removed


@pytest.mark.parametrize(
    ("said", "shown", "removed"),
    [
        ("Ada did [ref:1].", "Ada did [1].", 0),
        ("Ada did [ref:99].", "Ada did.", 1),
        ("Ada [ref:1, 9] and [ref:7,8] Bea.", "Ada [1] and Bea.", 3),
        ("Ada [ref:1][ref:3], [ref:1, ref:2], [ref: 2; 3].", "Ada [1][3], [1][2], [2][3].", 0),
        ("Ada [Ref:2], ([ref:2]), (ref:2) and 【ref:2】.", "Ada [2], [2], [2] and [2].", 0),
        ("All of it [ref:1-3], more [ref:3–9].", "All of it [1][2][3], more [3].", 6),
        ("From [ref:1-900000000].", "From [1].", 1),
        ("So it is ([ref:99]).", "So it is.", 1),
        ("An open [ref:1", "An open [ref:1", 0),
        ("See [ref:] and [ref:x], a preference: 3.", "See [ref:] and [ref:x], a preference: 3.", 0),
    ],
)
def test_marks_become_numbers_and_those_of_what_was_not_shown_are_removed(
    said: str, shown: str, removed: int
):
    assert checked(said) == (shown, removed)


@pytest.mark.parametrize(
    "said",
    [
        "A range [0, 100], the [x] plan, an interval [10, 20] metres.",
        "A list of [x], [] and 【2†log.md】.",
        "Kept in (changelog.md) and [source: catalogue of 1802], (see made-up.pdf).",
        "A runtime (Node.js) [^99] [1-99] [Source 99].",
    ],
)
def test_brackets_that_hold_no_number_of_a_passage_are_the_answers_own(said: str):
    assert checked(said) == (said, 0)


def test_what_is_cited_is_told_once_in_the_order_of_the_text():
    _, cited = join_pieces(SHOWN.stream(["A [ref:3], b [ref:1][ref:3] [2]."]))
    assert cited.sources == [3, 1]


pieces = st.lists(
    st.sampled_from(
        [
            "[ref:1]",
            "[ref:99]",
            "[",
            "]",
            "(",
            ")",
            " ",
            "\n",
            "ref",
            ":",
            "9",
            "1",
            ",",
            "-",
            "a",
            "x.",
            "【",
            "】",
        ]
    ),
    max_size=30,
)


@settings(max_examples=size(125, 500), deadline=None)
@given(pieces, st.lists(st.integers(1, 5), min_size=1))
def test_a_stream_is_checked_as_the_whole_is(words: list[str], lengths: list[int]):
    said = "".join(words)
    cuts = [sum(lengths[:place]) for place in range(len(lengths) + 1)]
    parts = [said[start:end] for start, end in zip(cuts, [*cuts[1:], len(said)], strict=True)]
    assert join_pieces(SHOWN.stream(parts)) == join_pieces(SHOWN.stream([said]))


def test_a_stream_does_not_wait_for_the_end_of_a_line():
    stream = SHOWN.stream(["Ada wrote", " of it [ref:1]", " and then"])
    assert "".join([next(stream).text, next(stream).text]) == "Ada wrote of it"


class Counted(Citations):
    """A check that counts the characters it compares."""

    looked = 0

    def _replace_settled(self, text: str, marks: Any) -> str:
        Counted.looked += len(text)
        return super()._replace_settled(text, marks)


@pytest.mark.parametrize(
    "said", ["words of one line ", "a [ref:1] b [99] c (so) ", "字", "- item "]
)
def test_no_part_of_a_line_is_looked_at_twice_after_it_was_shown(said: str):
    whole_line = said * (20_000 // len(said))
    Counted.looked = 0
    checked = Counted(SHOWN.references)
    pieces = [whole_line[start : start + 4] for start in range(0, len(whole_line), 4)]
    assert join_pieces(checked.stream(pieces)) == join_pieces(SHOWN.stream([whole_line]))
    assert Counted.looked <= 2 * len(whole_line)


def test_a_bracket_that_never_closes_holds_nothing_back_for_long():
    said = "x [" + "y" * 1000
    shown = SHOWN.stream(iter(said))
    assert next(shown).text == "x"
    assert len(next(shown).text) >= 1


def test_a_mark_that_never_closes_holds_nothing_back_for_long():
    said = "x [ref:" + "1, " * 3000
    shown = SHOWN.stream(iter(said))
    assert next(shown).text == "x"
    assert len(next(shown).text) >= 300
