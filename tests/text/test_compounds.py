import re
import time

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
        ("Wer ist Mitglied im Haus der Musik?", ["mitglied", "haus", "musik"]),
        ("Wann starb Thomas Mann?", ["thomas"]),
        ("Der Fall ist klar. Die Pumpe, der Filter?", ["fall", "pumpe", "filter"]),
        (f"Wo ist der {'T' + 'e' * 50}?", []),
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


@pytest.mark.parametrize(
    ("question", "compound", "other"),
    [
        ("Wer ist das Mitglied?", "Vorstandsmitglied", "Mitglied"),
        ("Was ist der Preis?", "Kaufpreise", "Preise"),
        ("Wo ist das Haus?", "Rathaus", "Tagesschau"),
        ("Wo ist der Kurs?", "Sprachkurses", "Badekur"),
    ],
)
def test_a_noun_is_looked_for_without_a_cut_of_its_ending(question: str, compound: str, other: str):
    [head] = find_heads(question)
    pattern = re.compile(compound_pattern(head), re.IGNORECASE)
    assert pattern.search(compound)
    assert not pattern.search(other)


def test_a_long_run_of_letters_is_searched_once():
    pattern = re.compile(compound_pattern("wärter"))
    started = time.process_time()
    assert not pattern.search("wärter" * 10_000 + "x")
    assert time.process_time() - started < 5
