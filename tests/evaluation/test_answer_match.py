"""Exact match and F1 have the values of SQuAD's own script, and kappa those of Cohen."""

import pytest

from pipeline.evaluation.answer_match import (
    agreement,
    answer_tokens,
    contains_gold,
    exact_match,
    token_f1,
)
from pipeline.evaluation.answer_results import without_citations
from pipeline.query.citations.annotations import Annotation


def test_case_articles_punctuation_and_white_space_do_not_count():
    assert answer_tokens("The  Jean-Luc's, an \n A “tower” (1,871)!") == (
        "jeanlucs",
        "tower",
        "1871",
    )
    assert exact_match("the Brack Institute.", ["Brack Institute"]) == 1
    assert exact_match("Brack Institutes", ["Brack Institute"]) == 0


def test_forms_of_one_character_are_equal():
    assert exact_match("Zu\u0308rich", ["Z\u00fcrich"]) == 1
    assert exact_match("１２", ["12"]) == 1


def test_characters_are_the_tokens_of_chinese_and_japanese():
    assert answer_tokens("布拉克研究所，在GPT4城") == (*"布拉克研究所在", "gpt4", "城")
    assert exact_match("布拉克 研究所。", ["布拉克研究所"]) == 1
    assert token_f1("布拉克", ["布拉克研究所"]) == pytest.approx(2 * 1 * 0.5 / 1.5)
    assert contains_gold("它由布拉克研究所建立", ["布拉克研究所"]) == 1
    assert contains_gold("灯台はかもめ島にある", ["かもめ島"]) == 1


@pytest.mark.parametrize(
    ("said", "golds", "f1"),
    [
        ("Idra Senn", ["Idra Senn"], 1),
        ("It was Idra Senn", ["Idra Senn"], 2 * 0.5 * 1 / 1.5),
        ("Mira Vale", ["Idra Senn"], 0),
        ("yes yes", ["yes"], 2 * 0.5 * 1 / 1.5),
        ("Senn", ["Mira Vale", "Idra Senn"], 2 * 1 * 0.5 / 1.5),
        ("the", ["a"], 1),
        ("the", ["Senn"], 0),
    ],
)
def test_f1_counts_shared_tokens_and_the_best_gold_answer(said: str, golds: list[str], f1: float):
    assert token_f1(said, golds) == pytest.approx(f1)


def test_an_answer_contains_gold_only_as_whole_tokens_side_by_side():
    assert contains_gold("It was founded by the Idra Senn of Quill.", ["Idra Senn"]) == 1
    assert contains_gold("Idra was a Senn", ["Idra Senn"]) == 0
    assert contains_gold("a party", ["art"]) == 0


def test_marks_of_citations_are_no_part_of_an_answer():
    assert without_citations("Senn [1] and [2].", [Annotation(5, 8, 1, True)]) == "Senn  and [2]."
    told = "Senn [Data: Sources (2, 5); Relationships (7)] of Quill"
    assert without_citations(told, [Annotation(21, 22, 2, True)]) == "Senn of Quill"


def test_kappa_is_that_of_the_textbook():
    """Take 20 yes by both, 5 and 10 by one alone, 15 no by both."""
    one = [True] * 25 + [False] * 25
    other = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    observed, kappa = agreement(one, other)
    assert observed == pytest.approx(0.7)
    assert kappa == pytest.approx(0.4)


def test_kappa_has_no_value_where_nothing_can_be_told():
    assert agreement([], []) == (None, None)
    assert agreement([True, True], [True, True]) == (1, None)
    assert agreement([True, False], [False, True]) == (0, -1)
