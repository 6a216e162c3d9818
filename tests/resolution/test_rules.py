import pytest

from pipeline.resolution.name import read_name
from pipeline.resolution.pairs import Rules, SharedMentions, named_pairs
from tests.resolution.labelled import east_asian, labelled, met, score

PAIRS = labelled()
MET = met()
COUNTED = ("id", "version", "numeral", "date")


def test_there_are_enough_labelled_pairs_and_no_duplicates():
    assert len(PAIRS) >= 300
    assert len({frozenset((pair.a, pair.b, pair.type_a, pair.type_b)) for pair in PAIRS}) == len(
        PAIRS
    )
    assert len({frozenset((pair.a, pair.b)) for pair in MET}) == len(MET) == 448


@pytest.mark.parametrize("held_out", [False, True])
def test_names_that_are_merged_mean_the_same(held_out: bool):
    found = score(pair for pair in PAIRS if pair.held_out == held_out)
    assert found.precision >= 0.98
    assert found.recall >= 0.9


@pytest.mark.parametrize(("held_out", "recall"), [(False, 0.67), (True, 0.75)])
def test_merged_names_of_vague_types_mean_the_same(held_out: bool, recall: float):
    found = score(pair for pair in MET if pair.held_out == held_out)
    assert found.precision >= 0.98
    assert found.recall >= recall


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("La", "L.A."), ("Ape", "A.P.E."), ("Michelle", "Michel'le"), ("Wratislaw", "Wartislaw"),
        ("Reunion", "Réunion"), ("Georgetown", "George Town"), ("Oh Boy", "Oh Boy!"),
        ("Game 1", "Game I"),
        ("Erik Anderson", "Erik Andersson"),
    ],
)  # fmt: skip
def test_names_alike_by_chance_are_doubtful_unless_mostly_mentioned_together(one: str, two: str):
    names = read_name(one, "name"), read_name(two, "name")
    rules = Rules(0.88, {})
    assert rules.compare(*names).outcome == "perhaps"
    assert rules.compare(*names, SharedMentions(9, 1, 1)).outcome == "perhaps"
    assert rules.compare(*names, SharedMentions(2, 1, 1)).outcome == "same"


def test_equal_titles_of_two_documents_are_doubtful():
    names = read_name("4 Minute Mile", "title"), read_name("Four Minute Mile", "title")
    assert Rules(0.88, {}).compare(*names).outcome == "perhaps"


@pytest.mark.parametrize(
    ("one", "two", "mentions", "rule"),
    [
        ("Henry II of England", "Henry II, King of England", SharedMentions(1, 1, 0), "qualifier"),
        ("Joan of Dreux", "Joan, Countess of Dreux", SharedMentions(1, 1, 1), "qualifier"),
        (
            "Stranger in the City",
            "Stranger in the City (film)",
            SharedMentions(1, 1, 1),
            "qualifier",
        ),
        ("Tatineni Rama Rao", "Rama Rao Tatineni", SharedMentions(1, 2, 1), "order"),
        ("Tinu Anand", "Tinnu Anand", SharedMentions(2, 1, 1), "typo"),
        ("Fatimid", "Fatimids", SharedMentions(2, 2, 1), "plural"),
    ],
)
def test_names_mostly_mentioned_together_are_merged_by_weaker_rules(
    one: str, two: str, mentions: SharedMentions, rule: str
):
    names = read_name(one, "name"), read_name(two, "title")
    rules = Rules(0.88, {})
    assert (rules.compare(*names, mentions).outcome, rules.compare(*names, mentions).rule) == (
        "same",
        rule,
    )
    if mentions.both:
        assert rules.compare(*names, SharedMentions(9, 9, 1)).outcome != "same"


def test_initials_are_doubtful_only_if_a_text_unit_mentions_the_full_name_too():
    names = read_name("Qionglan Chew", "name"), read_name("QC", "name")
    assert Rules(0.88, {}).compare(*names, SharedMentions(3, 4, 0)).outcome == "different"
    assert Rules(0.88, {}).compare(*names, SharedMentions(3, 4, 1)).outcome == "perhaps"


@pytest.mark.parametrize("kind", COUNTED)
def test_names_with_different_numbers_are_never_merged(kind: str):
    assert not [
        pair for pair in PAIRS if pair.kind == kind and pair.label == "different" and pair.merged
    ]


@pytest.mark.parametrize(
    ("name", "title"),
    [("Sir Dr. John Smith", "m"), ("Frau Prof. Dr. Ann Smith", "f"), ("Prof. Mr. Al Smith", "m")],
)
def test_a_person_may_have_several_titles(name: str, title: str):
    read = read_name(name, "PERSON")
    assert (read.title, read.core[-1], len(read.core)) == (title, "smith", 2)


def test_a_comparison_is_symmetric():
    rules = Rules(0.88, {})
    for pair in [*PAIRS, *MET]:
        one, two = read_name(pair.a, pair.type_a), read_name(pair.b, pair.type_b)
        first, second, both = pair.met
        there = rules.compare(one, two, SharedMentions(first, second, both))
        assert there == rules.compare(two, one, SharedMentions(second, first, both)), pair


def test_every_pair_that_a_rule_merges_is_among_the_candidates():
    missed = []
    for pair in [*PAIRS, *MET]:
        names = read_name(pair.a, pair.type_a), read_name(pair.b, pair.type_b)
        comparison = Rules(1.0, {}).compare(*names, SharedMentions(*pair.met))
        if comparison.outcome == "same" and not named_pairs(names):
            missed.append((pair.a, pair.b))
    assert not missed


def test_a_key_shared_by_many_names_gives_few_pairs():
    names = [
        read_name(f"Dr. Ann B{chr(97 + n % 26)}{chr(97 + n // 26)} Smith", "PERSON")
        for n in range(600)
    ]
    assert len(named_pairs(names)) < 20 * len(names)


def test_a_comparison_accepts_odd_names():
    odd = [
        "",
        " ",
        "?!",
        "Inc.",
        "The",
        "Dr.",
        "()",
        "第",
        "ー",
        "&",
        "1",
        "II",
        "A. B.",
        "ー" * 40,
        "(A)",
        "株式会社",
    ]
    for type in ("PERSON", "ORGANIZATION", ""):
        names = [read_name(name, type) for name in odd]
        assert {
            Rules(0.88, {}).compare(one, two).outcome
            for one in names
            for two in names
            if one is not two
        }
        named_pairs(names)


@pytest.mark.parametrize(("kind", "recall"), [("in view", 0.8), ("new", 1.0)])
def test_chinese_and_japanese_names_that_are_merged_mean_the_same(kind: str, recall: float):
    found = score(pair for pair in east_asian() if pair.kind == kind)
    assert found.precision == 1.0
    assert found.recall >= recall


def test_an_abbreviation_is_doubtful_only_if_a_text_unit_mentions_it_with_the_name():
    names = read_name("北京大学", "organization"), read_name("北大", "organization")
    rules = Rules(0.88, {})
    assert rules.compare(*names).outcome == "different"
    together = rules.compare(*names, SharedMentions(5, 3, 1))
    assert (together.outcome, together.rule) == ("perhaps", "abbreviation")
    assert named_pairs(names) == {(0, 1)}


def test_a_name_that_begins_with_another_is_no_abbreviation():
    names = read_name("东京大学", "organization"), read_name("东京", "organization")
    assert Rules(0.88, {}).compare(*names, SharedMentions(5, 3, 3)).outcome == "different"
