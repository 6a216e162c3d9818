import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.ids import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The directors' films, directed in 1871!",
            ["the", "director", "film", "direct", "in", "1871"],
        ),
        (
            "Cities and a class; running, red, sing",
            ["city", "and", "a", "class", "runn", "red", "sing"],
        ),
        ("ÜBER Straße", ["über", "straße"]),
        ("snake_case a.b C3", ["snake", "case", "a", "b", "c3"]),
        ("斯卡罗灯塔", ["斯卡", "卡罗", "罗灯", "灯塔"]),
        ("塔 built 灯塔。", ["塔", "built", "灯塔"]),
        ("とうだい", ["とう", "うだ", "だい"]),
        ("등대 маяк", ["등대", "маяк"]),
        ("", []),
        ("?!…", []),
    ],
)
def test_words_of_a_text(text: str, expected: list[str]):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("one", "other"), [("film", "films"), ("party", "parties"), ("played", "playing")]
)
def test_endings_do_not_tell_words_apart(one: str, other: str):
    assert words(one) == words(other)


@given(st.text())
def test_any_text_has_words_without_space(text: str):
    assert all(word and not any(character.isspace() for character in word) for word in words(text))


@given(st.text(), st.text())
def test_words_of_two_texts_are_those_of_each(one: str, other: str):
    assert words(f"{one} . {other}") == words(one) + words(other)
