import pytest

from pipeline.query.search.walk.seeds import (
    ABOUT,
    ANY_NAME,
    ASIDE,
    COVERED,
    GOES_ON,
    OPEN,
    PERHAPS,
    EntityMentions,
    aboutness,
    goes_on,
    holds,
    mention_steps,
    missing_words,
    overlap,
    read_sentences,
    surely_first,
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
    mentioned = [
        EntityMentions("bea", "Bea", ["p", "b", "far"]),
        EntityMentions("cid", "Cid", ["p", "c"]),
    ]
    openings = {"p": ("", "Ada"), "b": ("Bea", ""), "c": ("Cid", ""), "far": ("", "nothing")}
    steps = mention_steps(texts, {"p": 2.0}, mentioned, (), openings, WEIGHTS)
    onward = 2.0 * OPEN * 0.25 * GOES_ON  # of the question it leaves a quarter open
    assert steps.reached == pytest.approx(
        {
            "b": onward * (ANY_NAME + 0.75),
            "far": onward * (ANY_NAME + 0.75) * ASIDE,
            "c": onward * ANY_NAME,
        }
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Her dog was Bea.", WEIGHTS),
        ("Her mother was Bea.", {"teach": 1.0}),
        ("Her mother was teaching. It rained.", {}),
        ("", WEIGHTS),
    ],
)
def test_what_a_passage_leaves_open_of_a_question(text: str, expected: dict[str, float]):
    assert missing_words(read_sentences(text), WEIGHTS) == expected


def test_from_a_passage_that_has_all_that_is_asked_little_leads_on():
    mentioned = [EntityMentions("bea", "Bea", ["p", "q", "b"])]
    openings = {"p": ("", "Ada"), "q": ("", "Ada"), "b": ("Bea", "")}
    whole, part = "Her mother was Bea, whom Cid was teaching.", "Her dog was Bea."
    assert mention_steps({"p": whole}, {"p": 1.0}, mentioned, (), openings, WEIGHTS).reached[
        "b"
    ] == pytest.approx(COVERED * (ANY_NAME + 1.0) * GOES_ON)
    both = mention_steps(
        {"p": whole, "q": part}, {"p": 1.0, "q": 3.0}, mentioned, (), openings, WEIGHTS
    )
    assert both.reached["b"] == pytest.approx(3 * ANY_NAME * GOES_ON), "from the other one in full"


@pytest.mark.parametrize(
    ("begins", "expected"),
    [
        ((), 0),
        (("taught", "mill"), 0),
        (("teach",), 0.75),
        (("mother",), 1),
        (("mother", "teach"), 1),
    ],
)
def test_a_step_counts_by_what_it_finds_of_what_was_left_open(
    begins: tuple[str, ...], expected: float
):
    assert goes_on(WEIGHTS, begins) == GOES_ON + expected
    assert goes_on({}, begins) == GOES_ON


def test_a_step_to_the_passage_that_tells_what_is_asked_counts_most():
    texts = {"p": "Her mother was Bea."}
    mentioned = [EntityMentions("bea", "Bea", ["p", "b", "c"])]
    openings = {"p": ("", "Ada"), "b": ("Bea", "Her bees."), "c": ("Bea", "She was teaching.")}
    reached = mention_steps(texts, {"p": 1.0}, mentioned, (), openings, WEIGHTS).reached
    assert reached["c"] == pytest.approx(reached["b"] * (GOES_ON + 1) / GOES_ON)


def test_the_first_of_both_lanes():
    lane = [("p", 3.0), ("q", 2.9)]
    assert surely_first(lane, [("p", 0.5)]) == ["p"]
    assert surely_first(lane, [("q", 0.5), ("p", 0.4)]) == []
    assert surely_first(lane, []) == surely_first([], lane) == []


def test_the_first_by_far_of_words():
    nearest = [("q", 0.5), ("p", 0.4)]
    assert surely_first([("p", 6.0), ("q", 5.0)], nearest) == ["p"]
    assert surely_first([("p", 5.9), ("q", 5.0)], nearest) == []
    assert surely_first([("p", 0.1)], nearest) == []  # one that has a word of it by chance


def test_what_the_question_names_is_not_stepped_over():
    texts = {"p": "Her mother was Bea."}
    mentioned = [EntityMentions("bea", "Bea", ["p", "b"])]
    steps = mention_steps(
        texts, {"p": 1.0}, mentioned, {"bea"}, {"p": ("", ""), "b": ("Bea", "")}, WEIGHTS
    )
    assert steps.reached == {}
    assert {(one, other) for one, other, _ in steps.edges} == {("bea", "p"), ("bea", "b")}
