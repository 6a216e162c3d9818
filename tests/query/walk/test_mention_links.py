import pytest

from pipeline.query.walk.seeds import (
    ABOUT,
    ANY_NAME,
    ASIDE,
    COVERED,
    OPEN,
    PERHAPS,
    EntityMentions,
    aboutness,
    holds,
    left_open,
    mention_steps,
    overlap,
    read_sentences,
)

WEIGHTS = {"mother": 3.0, "teach": 1.0}


@pytest.mark.parametrize(
    ("name", "title", "opening", "expected"),
    [
        ("Ada Moor", "Ada Moor", "", ABOUT),
        ("ada moor", "Ada Moor (painter)", "", ABOUT),
        ("Ada Moor (painter)", "Ada Moor (painter)", "", ABOUT),
        ("Ada Moor", "notes.txt", "Ada Moor was a painter.", ABOUT),
        ("Ada Moor", "notes.txt", "Dr. Ada Moor was a painter.", ABOUT),
        ("Ada Moor", "", "In that year Ada Moor was a painter.", PERHAPS),
        ("Ada Moor", "", "x " * 40 + "Ada Moor", ASIDE),
        ("Ada Moor", "", "Of another.", ASIDE),
        ("Ann", "", "Annals of the islands.", ASIDE),
        ("灯塔", "", "灯塔建于1871年。", ABOUT),
    ],
)
def test_what_a_passage_is_about(name: str, title: str, opening: str, expected: float):
    assert aboutness(name, title, opening) == expected


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("the annals of ann", "ann", True),
        ("the annals", "ann", False),
        ("ann, of course", "ann", True),
        ("斯卡罗灯塔很高", "灯塔", True),
        ("", "ann", False),
    ],
)
def test_a_name_is_no_part_of_a_word(text: str, name: str, expected: bool):
    assert holds(text, name) == expected


def test_only_the_best_sentence_that_holds_the_name_counts():
    sentences = read_sentences("Her mother was Bea. Bea was teaching. The mother of Cid taught.")
    assert overlap(sentences, EntityMentions("e", "Bea", []), WEIGHTS) == 0.75
    assert overlap(sentences, EntityMentions("e", "Dov", []), WEIGHTS) == 0
    assert overlap(sentences, EntityMentions("e", "Bea", []), {}) == 0


def test_the_words_of_the_name_itself_do_not_count():
    sentences = read_sentences("The Mother Lode is a mine.")
    assert overlap(sentences, EntityMentions("e", "Mother Lode", []), WEIGHTS) == 0


def test_steps_go_where_the_question_points():
    texts = {"p": "Her mother was Bea. Her dog was Cid."}
    mentioned = [EntityMentions("bea", "Bea", ["p", "b", "far"]), EntityMentions("cid", "Cid", ["p", "c"])]
    openings = {"p": ("", "Ada"), "b": ("Bea", ""), "c": ("Cid", ""), "far": ("", "nothing")}
    steps = mention_steps(texts, {"p": 2.0}, mentioned, (), openings, WEIGHTS)
    onward = 2.0 * OPEN * 0.25  # of the question it leaves a quarter open
    assert steps.reached == pytest.approx(
        {"b": onward * (ANY_NAME + 0.75), "far": onward * (ANY_NAME + 0.75) * ASIDE, "c": onward * ANY_NAME}
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Her dog was Bea.", 1.0),
        ("Her mother was Bea.", 0.25),
        ("Her mother was teaching. It rained.", 0.0),
        ("", 1.0),
    ],
)
def test_what_a_passage_leaves_open_of_a_question(text: str, expected: float):
    assert left_open(read_sentences(text), WEIGHTS) == expected


def test_from_a_passage_that_has_all_that_is_asked_little_leads_on():
    mentioned = [EntityMentions("bea", "Bea", ["p", "q", "b"])]
    openings = {"p": ("", "Ada"), "q": ("", "Ada"), "b": ("Bea", "")}
    whole, part = "Her mother was Bea, whom Cid was teaching.", "Her dog was Bea."
    assert mention_steps({"p": whole}, {"p": 1.0}, mentioned, (), openings, WEIGHTS).reached["b"] == pytest.approx(
        COVERED * (ANY_NAME + 1.0)
    )
    both = mention_steps({"p": whole, "q": part}, {"p": 1.0, "q": 3.0}, mentioned, (), openings, WEIGHTS)
    assert both.reached["b"] == pytest.approx(3 * ANY_NAME), "from the other one in full"


def test_what_the_question_names_is_not_stepped_over():
    texts = {"p": "Her mother was Bea."}
    mentioned = [EntityMentions("bea", "Bea", ["p", "b"])]
    steps = mention_steps(texts, {"p": 1.0}, mentioned, {"bea"}, {"p": ("", ""), "b": ("Bea", "")}, WEIGHTS)
    assert steps.reached == {}
    assert {(one, other) for one, other, _ in steps.edges} == {("bea", "p"), ("bea", "b")}
