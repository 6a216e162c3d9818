"""Test the relations and the types of names that a sentence states."""

import pytest

from pipeline.phrases.evidence import kind_in_sentence, kind_of_qualifier
from pipeline.phrases.statements import statement


def stated(sentence: str, subject: str, what: str) -> str | None:
    start = sentence.index(subject)
    last = sentence.index(what, start + len(subject))
    return statement(sentence, start, start + len(subject), last, last + len(what))


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("Lamp is a 1938 American drama film directed by Moor and starring Vale.", "directed by"),
        ("The film Lamp was written and directed by the Polish director Moor.", "directed by"),
        ("Lamp (born 10 September 1984 in Moor) is a singer.", "born in"),
        ("Lamp was born on 5 May 1950 in Moor.", "born in"),
        ("Captain Lamp married Moor.", "married"),
        ("Lamp, daughter of King Moor, left.", "daughter of"),
        ("Lamp was the eldest son of actress Moor.", "son of"),
        ("They met Lamp, who founded the Moor.", "founded"),
        ("They saw Lamp's only daughter Moor.", "daughter"),
        ("Lamp is the capital of Moor.", "capital of"),
    ],
)
def test_a_sentence_states_a_relation_of_neighbouring_names(sentence, said):
    assert stated(sentence, "Lamp", "Moor") == said


@pytest.mark.parametrize(
    "sentence",
    [
        "The father of Lamp married Moor.",
        "Lamp was not married to Moor.",
        "Lamp wanted to marry Moor.",
        "Lamp may have been directed by Moor.",
        "Lamp was directed by Moor's brother.",
        "Lamp was a member of the Moor family.",
        "A film about Lamp directed by Moor was shown.",
        "Lamp saw him, and he married Moor.",
        "They are the sons of Lamp, who was killed at Moor.",
        "Lamp and Moor met the director.",
        "Lamp is a village in the municipality of Moor.",
        "Lamp left; it was directed by Moor.",
        "In Lamp he married Moor.",
        "Lamp was used to represent Moor.",
    ],
)
def test_a_sentence_states_no_relation_that_is_uncertain(sentence):
    assert stated(sentence, "Lamp", "Moor") is None


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("Lamp is a 1938 American drama film directed by Moor.", "work"),
        ("Lamp (born 1984) was a German-Ukrainian actress.", "person"),
        ("Lamp was the king of Tessing.", "person"),
        ("We met the director Lamp there.", "person"),
        ("He lived with his wife Lamp.", "person"),
        ("He was born in Lamp.", "location"),
        ("It is in the village of Lamp.", "location"),
        ("Lamp, a town near the sea, burned.", "location"),
        ("Lamp is an American rock band from the north.", "organization"),
        ("They listened to Lamp.", None),
        ("Lamp is a widely known thing.", None),
        ("Lamp was directed by a king.", None),
    ],
)
def test_the_words_around_a_name_tell_its_type(sentence, kind):
    start = sentence.index("Lamp")
    assert kind_in_sentence(sentence, start, start + 4) == kind


def test_the_brackets_of_a_title_tell_its_type():
    assert kind_of_qualifier("Island Baby (1934 film)") == "work"
    assert kind_of_qualifier("Ann Moor (footballer)") == "person"
    assert kind_of_qualifier("Ann Moor (1801-1866)") is None
