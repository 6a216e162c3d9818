import pytest

from pipeline.query.search.walk.seeds import LONGEST, MOST, keep_longest_names, list_possible_names


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("When did Lothair Ii's mother die?", "lothair ii"),
        ("Who directed God'S Gift To Women?", "god s gift to women"),
        ("Is Theodred II (Bishop of Elmham) older?", "theodred ii (bishop of elmham)"),
        ("Is A Wedding, or Two older?", "a wedding, or two"),
        ("Is it Anne-Marie Vale, or another?", "anne marie vale"),
        ("斯卡罗灯塔有多高？", "斯卡罗灯塔"),
        ("C++ or C?", "c++"),
    ],
)
def test_a_question_s_names_are_among_the_possible_ones(question: str, name: str):
    assert name in list_possible_names(question)


def test_a_stop_word_is_no_name():
    names = list_possible_names("Who is he?")
    assert names[:3] == ["who is he?", "who is he", "who is"]
    assert not {"who", "is", "he"} & set(names)


def test_the_number_of_possible_names_is_limited():
    names = list_possible_names(" ".join(f"word{number}" for number in range(5000)))
    assert len(names) == MOST
    assert max(len(name.split()) for name in names) == LONGEST


def test_a_name_within_a_longer_one_is_left_out():
    names = ["ada moor", "moor", "ada moor society", "cid"]
    assert keep_longest_names("Did the Ada Moor Society sue Cid?", names) == [
        "ada moor society",
        "cid",
    ]
    assert keep_longest_names("Did the Ada Moor Society sue Moor?", names) == [
        "ada moor society",
        "moor",
    ]
