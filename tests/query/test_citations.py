import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.query.answer import whole
from pipeline.query.citations import Citations
from pipeline.query.context import Reference
from tests.sizes import size

SHOWN = Citations(
    (Reference(1, "doc-a", "letters/ada.txt", "Ada's letters", {}), Reference(2, "doc-b", "log.md", "The log", {}))
)


@pytest.mark.parametrize(
    ("said", "shown", "removed"),
    [
        ("Ada did [1].", "Ada did [1].", 0),
        ("Ada did [99].", "Ada did.", 1),
        ("Ada [1, 9] and [7,8] Bea.", "Ada [1] and Bea.", 3),
        ("A list of [x], [].", "A list of [x], [].", 0),
        ("Paris[99] [ 99 ] [^99] [1-99] [99; 98] [Source 99].", "Paris [1].", 7),
        ("So it is ([99]).", "So it is.", 1),
        ("Kept in (changelog.md) and [source: catalogue of 1802].", "Kept in and.", 2),
        (
            "Kept in (log.md), [docs/log.md], [source: The log, p. 3].",
            "Kept in (log.md), [docs/log.md], [source: The log, p. 3].",
            0,
        ),
        ("A runtime (Node.js), a shop (Booking.com).", "A runtime (Node.js), a shop (Booking.com).", 0),
        ("Ada did so (see [99] made-up.pdf) in May.", "Ada did so in May.", 2),
        ("- [99] Annals of the Made-up\n- [1] Ada's letters\n", "- [1] Ada's letters\n", 1),
        ("She wrote (source: made-up.pdf).", "She wrote.", 1),
        ("She wrote [letters/ada.txt], [made-up.pdf].", "She wrote [letters/ada.txt],.", 1),
        ("It says [Source: The log].", "It says [Source: The log].", 0),
        ("Text.\n\n### References\n- [1] ada.txt\n- [99] made_up.pdf\n", "Text.\n\n### References\n- [1] ada.txt\n", 1),
        ("[2] made_up.docx\nEnd", "End", 1),
        ("[1] is where it began.", "[1] is where it began.", 0),
        ("Version 2.0 (see 3.14) is out [1]", "Version 2.0 (see 3.14) is out [1]", 0),
        ("An open [1", "An open [1", 0),
        ("Ada did 【99】 so【1】, and 【2†log.md】【99†made up.pdf】.", "Ada did so【1】, and 【2†log.md】.", 2),
    ],
)
def test_citations_of_what_was_not_shown_are_removed_and_counted(said: str, shown: str, removed: int):
    assert whole(SHOWN.stream([said])) == (shown, removed)


pieces = st.lists(
    st.sampled_from(
        [
            "[1]",
            "[99]",
            "[",
            "]",
            "(",
            ")",
            " ",
            "\n",
            "- ",
            "9",
            "a",
            "made.pdf",
            "log.md",
            "source: ",
            "x.",
            "`",
            "(see ",
            "【9",
            "†a",
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
    assert whole(SHOWN.stream(parts)) == whole(SHOWN.stream([said]))


def test_a_stream_does_not_wait_for_the_end_of_a_line():
    stream = SHOWN.stream(["Ada wrote", " of it [1]", " and then"])
    assert next(stream) == "Ada wrote"


class Counted(Citations):
    """Counts the characters that are looked at."""

    looked = 0

    def _checked(self, line: str) -> tuple[str, int]:
        Counted.looked += len(line)
        return super()._checked(line)


@pytest.mark.parametrize("said", ["words of one line ", "a [1] b [99] c (so) ", "字", "- item "])
def test_no_part_of_a_line_is_looked_at_twice_after_it_was_shown(said: str):
    whole_line = said * (20_000 // len(said))
    Counted.looked = 0
    checked = Counted(SHOWN.references)
    pieces = [whole_line[start : start + 4] for start in range(0, len(whole_line), 4)]
    assert whole(checked.stream(pieces)) == whole(SHOWN.stream([whole_line]))
    assert Counted.looked <= 2 * len(whole_line)


def test_a_bracket_that_never_closes_holds_nothing_back_for_long():
    said = "x [" + "y" * 1000
    shown = SHOWN.stream(iter(said))
    assert next(shown) == "x"
    assert len(next(shown)) >= 300
