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
    contains_name,
    find_missing_words,
    find_steps,
    find_sure_first,
    rate_aboutness,
    rate_overlap,
    read_sentences,
    weigh_opening,
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
def test_a_passage_is_about_a_name_by_its_title_and_opening(
    name: str, title: str, opening: str, expected: float
):
    assert rate_aboutness(name, title, opening) == expected


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
    assert contains_name(text, name) == expected


def test_only_the_best_sentence_that_holds_the_name_counts():
    sentences = read_sentences("Her mother was Bea. Bea was teaching. The mother of Cid taught.")
    assert rate_overlap(sentences, EntityMentions("e", "Bea", []), WEIGHTS) == 0.75
    assert rate_overlap(sentences, EntityMentions("e", "Dov", []), WEIGHTS) == 0
    assert rate_overlap(sentences, EntityMentions("e", "Bea", []), {}) == 0


def test_the_words_of_the_name_itself_do_not_count():
    sentences = read_sentences("The Mother Lode is a mine.")
    assert rate_overlap(sentences, EntityMentions("e", "Mother Lode", []), WEIGHTS) == 0


def test_steps_go_where_the_question_points():
    texts = {"p": "Her mother was Bea. Her dog was Cid."}
    mentioned = [
        EntityMentions("bea", "Bea", ["p", "b", "far"]),
        EntityMentions("cid", "Cid", ["p", "c"]),
    ]
    openings = {"p": ("", "Ada"), "b": ("Bea", ""), "c": ("Cid", ""), "far": ("", "nothing")}
    steps = find_steps(texts, {"p": 2.0}, mentioned, (), openings, WEIGHTS)
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
def test_the_missing_words_are_those_that_no_sentence_has(text: str, expected: dict[str, float]):
    assert find_missing_words(read_sentences(text), WEIGHTS) == expected


def test_steps_from_a_passage_that_has_all_words_of_the_question_count_little():
    mentioned = [EntityMentions("bea", "Bea", ["p", "q", "b"])]
    openings = {"p": ("", "Ada"), "q": ("", "Ada"), "b": ("Bea", "")}
    whole, part = "Her mother was Bea, whom Cid was teaching.", "Her dog was Bea."
    assert find_steps({"p": whole}, {"p": 1.0}, mentioned, (), openings, WEIGHTS).reached[
        "b"
    ] == pytest.approx(COVERED * (ANY_NAME + 1.0) * GOES_ON)
    both = find_steps(
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
def test_a_step_counts_more_if_the_opening_has_missing_words(
    begins: tuple[str, ...], expected: float
):
    assert weigh_opening(WEIGHTS, begins) == GOES_ON + expected
    assert weigh_opening({}, begins) == GOES_ON


def test_a_step_to_the_passage_that_tells_what_is_asked_counts_most():
    texts = {"p": "Her mother was Bea."}
    mentioned = [EntityMentions("bea", "Bea", ["p", "b", "c"])]
    openings = {"p": ("", "Ada"), "b": ("Bea", "Her bees."), "c": ("Bea", "She was teaching.")}
    reached = find_steps(texts, {"p": 1.0}, mentioned, (), openings, WEIGHTS).reached
    assert reached["c"] == pytest.approx(reached["b"] * (GOES_ON + 1) / GOES_ON)


def test_the_first_of_both_lanes_is_surely_first():
    lane = [("p", 3.0), ("q", 2.9)]
    assert find_sure_first(lane, [("p", 0.5)]) == ["p"]
    assert find_sure_first(lane, [("q", 0.5), ("p", 0.4)]) == []
    assert find_sure_first(lane, []) == find_sure_first([], lane) == []


def test_a_passage_far_ahead_by_words_is_surely_first():
    nearest = [("q", 0.5), ("p", 0.4)]
    assert find_sure_first([("p", 6.0), ("q", 5.0)], nearest) == ["p"]
    assert find_sure_first([("p", 5.9), ("q", 5.0)], nearest) == []
    assert find_sure_first([("p", 0.1)], nearest) == []  # one that has a word of it by chance


def test_no_step_leads_over_an_entity_that_the_question_names():
    texts = {"p": "Her mother was Bea."}
    mentioned = [EntityMentions("bea", "Bea", ["p", "b"])]
    steps = find_steps(
        texts, {"p": 1.0}, mentioned, {"bea"}, {"p": ("", ""), "b": ("Bea", "")}, WEIGHTS
    )
    assert steps.reached == {}
    assert {(one, other) for one, other, _ in steps.edges} == {("bea", "p"), ("bea", "b")}
