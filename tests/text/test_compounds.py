import re

import pytest

from pipeline.text.compounds import compound_pattern, find_heads, join_nouns


@pytest.mark.parametrize(
    ("question", "compound"),
    [
        ("Wo steht die Pumpe für Kühlwasser?", "kühlwasserpumpe"),
        ("Wer hat den Vertrag für die Wartung?", "wartungsvertrag"),
        ("Wann kam die Pumpe des Kühlwassers?", "kühlwasserpumpe"),
        ("Was kostet das Buch der Schule?", "schulbuch"),
        ("Wie alt ist die Mauer der Kirche?", "kirchenmauer"),
    ],
)
def test_two_nouns_are_joined_as_german_joins_them(question: str, compound: str):
    [joined] = join_nouns(question)
    assert compound in joined.spellings


@pytest.mark.parametrize(
    "question",
    [
        "Where is the Pump for Cooling Water?",
        "Who designed the Lamp of Skarrow in March?",
        "Où est la Pompe de Paris?",
        "wo steht die pumpe für kühlwasser?",
        "",
    ],
)
def test_questions_of_other_languages_and_without_capitals_have_no_compounds(question: str):
    assert join_nouns(question) == []


def test_a_question_of_many_pairs_has_few_compounds():
    assert len(join_nouns(" ".join(f"Pumpe für Wasser{'x' * n}" for n in range(50)))) == 5


@pytest.mark.parametrize(
    ("question", "heads"),
    [
        ("Wo wohnt der Wärter?", ["wärter"]),
        ("Welche Pumpe steht im Turmkeller?", ["pumpe", "turmkeller"]),
        ("Wann fuhr Eva los?", []),
        ("Where is the Keeper of the Light?", []),
        ("", []),
    ],
)
def test_nouns_of_german_questions_are_looked_for_in_compounds(question: str, heads: list[str]):
    assert find_heads(question) == heads


def test_a_compound_ends_with_the_noun_or_a_form_of_it():
    pattern = re.compile(compound_pattern("wärter"))
    compounds = ("leuchtturmwärter", "leuchtturmwärters", "leuchtturmwärtern")
    assert all(pattern.search(word) for word in compounds)
    others = ("wärter", "abwärter", "leuchtturmwärterhaus")
    assert not any(pattern.search(word) for word in others)
