import pytest

from pipeline.query.search.absent import describe_absence, find_absent_terms, list_terms
from pipeline.text.terms import Term
from tests.query.memory_stores import of_documents, village


def absent(question: str) -> str:
    return describe_absence(find_absent_terms(question, (), village()), filtered=False)


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("Where is plant Osprey?", ["Osprey"]),
        ("What does the Zephyr 99 cost?", ["Zephyr 99", "Zephyr"]),
        ("Which pumps were made in May 2024?", ["pumps", "2024"]),
        ("Heron 2019", ["Heron", "2019"]),
        ("Is ISO-9001 required in Table 4?", ["ISO-9001", "ISO"]),
        ("オスプレイはどこにありますか", ["オスプレイ"]),
        ("塔楼有多高", []),
        ("นกออสเปรย์อยู่ที่ไหน", []),
        ("Who is it?", []),
        ("Who is responsible for the current limits, and what happened?", []),
        ("Who is the landlord of the cafeteria?", ["landlord", "cafeteria"]),
        ("Wo ist das Werk Osprey?", ["Werk", "Osprey"]),
        ("İzmir?", []),
    ],
)
def test_terms_are_names_numbers_codes_and_rare_words_but_never_words_that_only_ask(
    question: str, terms: list[str]
):
    assert [term.text for term in list_terms(question)] == terms


@pytest.mark.parametrize(
    ("term", "text", "there"),
    [
        (Term("Zephyr 99", "zephyr", "99"), "The Zephyrs are old, a Zephyr No. 99 is new.", True),
        (Term("Zephyr 99", "zephyr", "99"), "zephyr/99", True),
        (Term("Zephyr 99", "zephyr", "99"), "The Zephyr 990", False),
        (Term("Zephyr 99", "zephyr", "99"), "The Zephyr 40. In 1999, 99 were sold.", False),
        (Term("UBA", "uba"), "Uba's rules", True),
        (Term("UBA", "uba"), "Subaru and Ubac", False),
        (Term("2024", number="2024"), "2024-05-03", True),
        (Term("45012", number="45012"), "It cost 45,012 crowns.", True),
        (Term("45012", number="45012"), "145012", False),
        (Term("city", "city"), "two cities", True),
        (Term("オスプレイ", "オスプレイ"), "工場オスプレイの", True),
    ],
)
def test_a_term_is_in_a_text_in_its_forms(term: Term, text: str, there: bool):
    assert term.is_in(text) is there


def test_forms_of_a_word_count_as_there():
    [made, *_] = list_terms("manufactured?")
    assert made.is_in("The manufacturing of pumps")
    assert not made.is_in("The manual")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Wo ist die Pausenregelung?", "Die Regelung der Pausen gilt in allen Werken."),
        ("Wo ist der Arbeitsschutz?", "Der Schutz bei der Arbeit."),
        ("What is at 4 Lange STRASSE?", "It is in Lange Straße."),
        ("Was ist in der Straße?", "IN DER LANGEN STRASSE"),
    ],
)
def test_parts_of_a_compound_and_spellings_with_sharp_s_count_as_the_word(question: str, text: str):
    assert all(term.is_in(text) for term in list_terms(question))
    assert not list_terms(question)[0].is_in("Der Turm am Hafen.")


def test_what_no_passage_has_is_named_with_ordinary_words_in_quotes():
    assert absent("Did Ada meet Osprey and Bea?") == "no passage mentions Osprey"
    assert absent("Has Ada a cafeteria for Zephyr 99?") == (
        'no passage mentions "cafeteria" or Zephyr 99'
    )
    assert absent("Did Ada meet Bea?") == ""


def test_a_term_of_a_passage_that_was_found_costs_no_read():
    stores = village()
    passages = stores.chunks(list(stores.chunk_rows["id"]), [0.0] * 26)
    stores.reads.clear()
    assert find_absent_terms("Did Ada meet Bea?", passages, stores) == []
    assert stores.reads == []


def test_nouns_of_which_a_text_has_the_german_compound_are_not_absent():
    stores = village()
    stores.chunk_rows.loc[0, "content"] = "Die Kühlwasserpumpe tropfte."
    question = "Wo steht die Pumpe für Kühlwasser von Osprey, und wo der Filter für Heizöl?"
    absent = [term.text for term in find_absent_terms(question, (), stores)]
    assert absent == ["Osprey", "Filter", "Heizöl"]


def test_a_noun_with_which_a_shown_german_compound_ends_is_not_absent():
    stores = village()
    stores.chunk_rows.loc[0, "content"] = "Der Leuchtturmwärter wohnt hier."
    id = stores.chunk_rows.loc[0, "id"]
    shown = stores.chunks([id], [0.0] * 26)
    question = "Wo wohnt der Wärter von Osprey, und wo Wärter 12?"
    absent = [term.text for term in find_absent_terms(question, shown, stores)]
    assert absent == ["Osprey", "Wärter 12"]


@pytest.mark.parametrize(
    ("content", "question", "expected"),
    [
        ("Das Vorstandsmitglied wohnt hier.", "Wo wohnt das Mitglied?", []),
        ("Die Tagesschau begann.", "Wo steht das Kirchhaus und das Haus?", ["Kirchhaus", "Haus"]),
        ("Der Landvogt starb.", "Wann starb Thomas Vogt?", ["Thomas", "Vogt"]),
    ],
)
def test_a_noun_of_which_no_compound_is_shown_is_absent(
    content: str, question: str, expected: list[str]
):
    stores = village()
    stores.chunk_rows.loc[0, "content"] = content
    shown = stores.chunks([stores.chunk_rows.loc[0, "id"]], [0.0] * 26)
    assert [term.text for term in find_absent_terms(question, shown, stores)] == expected


@pytest.mark.parametrize(
    "word", ["Q" * 2100, "q" * 2100, "9" * 2100, "ァ" * 2100, "Delta " + "7" * 2100]
)
def test_a_word_that_no_store_can_look_for_is_no_term(word: str):
    terms = [term.text for term in list_terms(f"Is {word} near Osprey?")]
    assert terms[-1:] == ["Osprey"]
    assert max(map(len, terms)) < 10


def test_of_a_question_as_long_as_a_book_the_beginning_is_read():
    terms = list_terms("Is Osprey " + "on " * 5000 + "Zephyr?")
    assert [term.text for term in terms] == ["Osprey"]


def test_only_admitted_documents_are_looked_at():
    first = of_documents("doc-1")
    terms = list_terms("Does Ada know Cid or Bea?")
    everywhere = {term.text for term in village().lacking(terms)}
    assert everywhere < {term.text for term in village().lacking(terms, rights=first)}
    assert describe_absence(terms[:1], filtered=True) == (
        f"no passage that the filter admits mentions {terms[0].text}"
    )


def test_a_note_names_few_terms():
    terms = [Term(f"N{number}") for number in range(9)]
    assert describe_absence(terms, filtered=False) == "no passage mentions N0, N1, N2, N3 or N4"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Ada met Bea.", '"treasurer" or Osprey'),
        ("The tower is old and it is by the sea.", '"treasurer" or Osprey'),
        ("Der Turm ist alt und steht bei der Mühle.", "Osprey"),
        ("灯塔很旧，站在海边。", ""),
        ("Башня старая и стоит у моря.", ""),
    ],
)
def test_of_words_of_a_language_that_no_passage_found_has_nothing_is_told(text: str, told: str):
    stores = village()
    stores.chunk_rows["content"] = text
    passages = stores.chunks(list(stores.chunk_rows["id"]), [0.0] * 26)
    question = "Where is the treasurer of Osprey?"
    clause = describe_absence(find_absent_terms(question, passages, stores), filtered=False)
    assert clause == (f"no passage mentions {told}" if told else "")


def test_numbers_and_codes_are_told_in_each_language():
    stores = village()
    stores.chunk_rows["content"] = "灯塔很旧，站在海边。"
    passages = stores.chunks(list(stores.chunk_rows["id"]), [0.0] * 26)
    found = find_absent_terms("Where is the treasurer of Zephyr 99 in 1879?", passages, stores)
    assert [term.text for term in found] == ["Zephyr 99", "1879"]


def test_a_german_noun_is_not_told_where_all_passages_found_are_english():
    stores = village()
    stores.chunk_rows["content"] = "The tower is old and it is by the sea."
    passages = stores.chunks(list(stores.chunk_rows["id"]), [0.0] * 26)
    assert find_absent_terms("Wo steht die Drehleier von 1879?", passages, stores) == [
        Term("1879", number="1879")
    ]
