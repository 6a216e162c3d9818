import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.sentences import ends_paragraph, find_sentences, split_in_two

TEXTS = st.text(st.sampled_from(list("ab MrI1.!?…。！？；\"'”)」\n\r\t é中文👩‍💻")), max_size=200)


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in find_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One. ", "Two! ", "Three? ", "Four"]),
        ('He said "go." She went.', ['He said "go." ', "She went."]),
        ('"Really?" she said. (Yes.) No.', ['"Really?" she said. ', "(Yes.) ", "No."]),
        (
            "Mr. Fox met J. R. Hale, e.g. in St. Ives.",
            ["Mr. Fox met J. R. Hale, e.g. in St. Ives."],
        ),
        ("Pi is 3.14 exactly. No. 5 is alive.", ["Pi is 3.14 exactly. ", "No. 5 is alive."]),
        (
            "It was I. He knew. Hale Inc. was there.",
            ["It was I. ", "He knew. ", "Hale Inc. was there."],
        ),
        ("1. Stir.\n2. Pour.", ["1. Stir.\n", "2. Pour."]),
        (
            "他说：“好。”然后走了！真的吗？是；对",
            ["他说：“好。”", "然后走了！", "真的吗？", "是；", "对"],
        ),
        ("雨だ…「帰ろう。」そうした。", ["雨だ…", "「帰ろう。」", "そうした。"]),
        ("A heading\n\nA line\nof prose \n \n", ["A heading\n\n", "A line\nof prose \n \n"]),
        ("a\r\n\r\nb", ["a\r\n\r\n", "b"]),
        ("\n\n One. y", ["\n\n One. ", "y"]),
        ("  \n\n", ["  \n\n"]),
        ("", []),
    ],
)
def test_a_text_is_split_at_the_ends_of_its_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(TEXTS | st.text())
def test_spans_cover_the_text_in_order(text: str) -> None:
    spans = find_sentences(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)
    assert all(text[start:end].strip() for start, end in spans) or len(spans) == 1


def test_a_paragraph_ends_at_a_blank_line_and_at_the_end() -> None:
    text = "One. Two.\n\nThree.\nFour."
    assert [ends_paragraph(text, end) for _, end in find_sentences(text)] == [
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two. Three.", ["One. Two. ", "Three."]),
        ("abc def", ["abc ", "def"]),
        ("   abc def", ["   abc ", "def"]),
        ("abc   ", ["abc   "]),
    ],
)
def test_a_text_is_divided_between_sentences_or_between_words(text: str, parts: list[str]) -> None:
    assert split_in_two(text) == parts


@pytest.mark.parametrize("piece", ["a", ".", " ", "\n", ".)", "Mr. ", "1. ", "…", "a\n ", '."'])
def test_time_is_linear_on_one_long_line(piece: str) -> None:
    text = piece * (500_000 // len(piece))
    started = time.perf_counter()
    find_sentences(text)
    assert time.perf_counter() - started < 5
