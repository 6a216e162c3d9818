import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cli.wrapping import LineWrapper, columns_of


def wrapped(text: str, width: int | None, size: int = 3) -> str:
    lines = LineWrapper(width)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return "".join(map(lines.feed, pieces)) + lines.end()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one two three", "one two\nthree"),
        ("- one two three", "- one two\n  three"),
        ("12. one two", "12. one\n    two"),
        (" [1] one two", " [1] one\n     two"),
        ("one\n\ntwo three four", "one\n\ntwo three\nfour"),
        ("extraordinarily so", "extraordinarily\nso"),
        ("灯塔是谁建的呢", "灯塔是谁\n建的呢"),
        ("| a long row of it |", "| a long row of it |"),
        (
            "```\na long row of it\n```\nback to it all",
            "```\na long row of it\n```\nback to\nit all",
        ),
        ("    code", "    code"),
    ],
)
def test_words_stay_whole_and_tables_and_code_as_they_are(text: str, shown: str):
    assert wrapped(text, 9) == shown


@given(st.text("ab -\n灯|`1.", max_size=60), st.integers(1, 7))
def test_nothing_is_lost_and_pieces_are_wrapped_as_the_whole(text: str, size: int):
    assert "".join(wrapped(text, 9, size).split()) == "".join(text.split())
    assert wrapped(text, 9, size) == wrapped(text, 9, len(text) or 1)
    assert wrapped(text, None, size) == text


@given(st.lists(st.text("ab灯", min_size=1, max_size=4), max_size=30))
def test_no_line_is_wider_than_the_terminal(words: list[str]):
    assert all(columns_of(line) <= 9 for line in wrapped(" ".join(words), 9).splitlines())
