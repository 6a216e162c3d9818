from dataclasses import replace

from pipeline.query.context import Context, build_context
from pipeline.query.evidence_answer import (
    BEST,
    NOTICE,
    build_evidence_answer,
    find_sides,
)
from pipeline.query.search.evidence import Evidence
from pipeline.stores.records import Passage, Relationship
from tests.query.memory_stores import CharacterTokens, chunk, question, relationship

HERON = "# Plant Heron\n\nPlant Heron stands\nat Dunlin.\n\n- two pumps\n- one mill\n\n| a | b |\n|---|---|\n| 1 | 2 |"  # noqa: E501


def context(contents: list[str], facts: list[str] | None = None) -> Context:
    passages = [
        Passage(**chunk(f"c{place}", text, f"doc-{place}")) for place, text in enumerate(contents)
    ]
    links = [
        Relationship(**relationship(f"A{n}", "B", fact, ["c0"]))
        for n, fact in enumerate(facts or [])
    ]
    asked = question(mode="graph", max_total_tokens=100_000)
    found = Evidence(relationships=links)
    return build_context(asked, found, passages, CharacterTokens(), 0)


def test_headings_lists_and_tables_keep_their_lines_and_paragraphs_are_one_line():
    text, _ = build_evidence_answer(context([HERON]))
    assert text == (
        f"{NOTICE}\n\n[1]\n# Plant Heron\nPlant Heron stands at Dunlin.\n- two pumps\n- one mill\n"
        "| a | b |\n|---|---|\n| 1 | 2 |"
    )


def test_the_sentence_that_answers_comes_first_and_is_cited():
    shown = context(
        ["The mill is old. It has a wheel.", "Tea is drunk. The mill stands at Dunlin."]
    )
    text, cited = build_evidence_answer(shown, "Where stands the mill?")
    assert text.splitlines()[2] == f"{BEST}The mill stands at Dunlin. [2]"
    assert cited.sources == [2, 1]


def test_of_versions_the_newest_that_says_something_of_it_is_cited():
    def memo(number: int, text: str, date: str) -> Passage:
        passage = Passage(**chunk(f"c{number}", text, f"doc-{number}"))
        return replace(passage, title="Memo on coffee", metadata={"date": date})

    memos = [
        memo(1, "Tea is served.", "2026"),
        memo(2, "Coffee costs nothing now. Coffee is brown.", "2025"),
        memo(3, "Coffee currently costs 2 crowns a cup.", "2021"),
    ]
    asked = question(mode="graph", max_total_tokens=100_000)
    shown = build_context(asked, Evidence(), memos, CharacterTokens(), 0)

    def best(text: str, prefer: str = "relevance") -> str:
        return build_evidence_answer(shown, text, prefer)[0].splitlines()[2]

    costs = f"{BEST}Coffee currently costs 2 crowns a cup. [3]"
    free = f"{BEST}Coffee costs nothing now. [2]"
    assert best("How much does coffee cost currently?") == free
    assert best("How much does a cup of coffee cost?") == costs
    assert best("How much does a cup of coffee cost?", "newest") == free
    assert best("What did coffee currently cost in 2021?") == costs


def answer_of_versions(texts: list[str], asked: str, prefer: str = "relevance") -> str:
    """Return the line "Most likely" over versions v1, v2, ... of the rules, each with its text."""
    passages = [
        replace(
            Passage(**chunk(f"c{n}", text, f"doc-{n}")),
            title="Travel rules",
            source=f"rules-v{n}.md",
            metadata={"date": f"202{n}-03"},
        )
        for n, text in enumerate(texts, start=1)
    ]
    wish = question(mode="graph", max_total_tokens=100_000)
    shown = build_context(wish, Evidence(), passages, CharacterTokens(), 0)
    return build_evidence_answer(shown, asked, prefer)[0].splitlines()[2]


def test_the_version_that_the_question_names_is_cited():
    texts = ["A day abroad is paid with 30 crowns.", "A day abroad is paid with 40 crowns."]
    first, second = f"{BEST}{texts[0]} [1]", f"{BEST}{texts[1]} [2]"
    assert answer_of_versions(texts, "How much is paid for a day abroad?") == second
    assert answer_of_versions(texts, "How much is paid for a day abroad by v1?") == first
    assert answer_of_versions(texts, "How much is paid for a day abroad in 2021?") == first
    assert answer_of_versions(texts, "How much is paid for a day abroad by v1?", "newest") == first


def test_a_version_by_name_or_title_is_cited_only_for_a_sentence_with_enough_of_the_question():
    def memos(newer: str) -> str:
        passages = [
            replace(
                Passage(**chunk(f"c{n}", text, f"doc-{n}")), title="Memo", metadata={"date": date}
            )
            for n, (text, date) in enumerate(
                [("A cup of coffee costs 2 crowns.", "2021"), (newer, "2025")]
            )
        ]
        wish = question(mode="graph", max_total_tokens=100_000)
        shown = build_context(wish, Evidence(), passages, CharacterTokens(), 0)
        asked = "What does a cup of coffee cost currently?"
        return build_evidence_answer(shown, asked)[0].splitlines()[2]

    assert memos("The winner got a cup.") == f"{BEST}A cup of coffee costs 2 crowns. [1]"
    assert memos("Coffee costs nothing.") == f"{BEST}Coffee costs nothing. [2]"


def test_a_version_that_is_marked_as_newer_is_cited_for_one_shared_word():
    texts = ["A cup of coffee costs 2 crowns.", "Coffee is free for all."]
    assert answer_of_versions(texts, "How much is a cup of coffee?") == f"{BEST}{texts[1]} [2]"


def test_a_title_that_the_question_names_is_no_answer():
    shown = context(["The Skarrow Light\n\nThe light was designed by Idra Vasterling.", "Tea."])
    text, _ = build_evidence_answer(shown, "Who designed the Skarrow Light?")
    assert text.splitlines()[2] == f"{BEST}The light was designed by Idra Vasterling. [1]"


def test_a_heading_without_markup_is_no_answer_and_a_short_statement_is_one():
    text = "The Harbour Board and the Skarrow Light\n\nThe board met on Skarrow twice a year."
    best, _ = build_evidence_answer(context([text]), "What did the board of Skarrow Light do?")
    assert best.splitlines()[2] == f"{BEST}The board met on Skarrow twice a year. [1]"
    statement = context(["Height of the tower on Skarrow: great"])
    best, _ = build_evidence_answer(statement, "What is the height of the Skarrow tower?")
    assert best.splitlines()[2] == f"{BEST}Height of the tower on Skarrow: great [1]"


def test_words_of_the_title_do_not_tell_which_sentence_answers():
    passage = "The Skarrow Light is a light on Skarrow. The tower was designed by Idra Vasterling."
    titled = Passage(**(chunk("c0", passage, "doc-0") | {"title": "The Skarrow Light"}))
    asked = question(mode="graph", max_total_tokens=100_000)
    shown = build_context(asked, Evidence(), [titled], CharacterTokens(), 0)
    text, _ = build_evidence_answer(shown, "Who designed the Skarrow Light?")
    assert text.splitlines()[2] == f"{BEST}The tower was designed by Idra Vasterling. [1]"


def test_a_question_for_a_number_prefers_a_sentence_with_one():
    shown = context(["The tower of the mill is high. The tower of the mill has 30 metres."])
    text, _ = build_evidence_answer(shown, "How high is the tower of the mill?")
    assert text.splitlines()[2] == f"{BEST}The tower of the mill has 30 metres. [1]"


def test_no_sentence_is_marked_where_none_shares_two_words():
    assert BEST not in build_evidence_answer(context(["Tea is drunk."]), "Where is tea?")[0]


def test_the_two_sides_of_a_question_are_found():
    assert find_sides("Which is older, Heron or Plover?") == ("Heron", "Plover")
    assert find_sides("Heron vs. Plover") == ("Heron", "Plover")
    between = "What is the difference between Pump Delta 40 and Cirro 2?"
    assert find_sides(between) == ("Pump Delta 40", "Cirro 2")
    assert find_sides("Was unterscheidet Reiher und Möwe?") is None
    assert find_sides("Did Ada and Bea meet?") is None


def test_a_comparison_shows_both_sides_in_turn():
    shown = context(["Plover one.", "Plover two.", "Heron one.", "Tea.", "Heron two."])
    _, cited = build_evidence_answer(shown, "Which has more pumps, Heron or Plover?")
    assert cited.sources == [3, 1, 5, 2, 4]


def test_a_fact_that_a_shown_passage_holds_is_neither_shown_nor_sent():
    passages = ["Ada Vale built\nthe mill. She sold the wheel in May.", "Bea kept the log."]
    facts = [
        "Ada Vale built the mill.",
        "Ada Vale built the mill. Bea kept the log.",
        "Ada Vale built the mill. Nobody knows why.",
        "the mill",
        "",
    ]
    shown = context(passages, facts)
    assert [link.description for link in shown.relationships.records] == facts[2:]
    assert "-----Relationships-----" in shown.text
    assert "-----Relationships-----" not in context(passages, facts[:1]).text


def test_a_fact_without_a_description_is_told_by_its_type():
    bare = relationship("Ada", "Mill Ltd", "", ["c0"])
    typed = Relationship(**{**bare, "keywords": ["EMPLOYED_BY", "since 1850"]})
    untyped = Relationship(**{**bare, "keywords": []})
    passages = [Passage(**chunk("c0", "Tea is drunk."))]
    found = Evidence(relationships=[typed, untyped])
    shown = build_context(question(mode="graph"), found, passages, CharacterTokens(), 0)
    text, _ = build_evidence_answer(shown)
    facts = text.partition("Facts:\n")[2].splitlines()
    assert facts == ["- Ada -> Mill Ltd: EMPLOYED_BY, since 1850 [1]", "- Ada -> Mill Ltd [1]"]


def test_a_fact_of_a_passage_without_room_is_sent():
    asked = question(mode="graph", max_total_tokens=600)
    far = Passage(**chunk("c9", "Bea kept the log of the mill. " + "x" * 2000, "doc-9"))
    link = Relationship(**relationship("A", "B", "Bea kept the log of the mill.", ["c9"]))
    near = Passage(**chunk("c0", "Ada built the mill."))
    shown = build_context(asked, Evidence(relationships=[link]), [near, far], CharacterTokens(), 0)
    assert [len(shown.chunks.records), len(shown.relationships.records)] == [1, 1]


def test_two_sides_are_searched_at_the_beginning_of_a_question_only():
    assert find_sides("Heron or Plover?") == ("Heron", "Plover")
    assert find_sides("it is " * 200 + "Heron or Plover?") is None
