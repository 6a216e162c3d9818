"""The sets that benchmarks/sets.py makes."""

from collections import Counter

import pytest
import yaml

from benchmarks import made_company, made_vault
from benchmarks.made_set import MadeSet
from benchmarks.sets import SETS, made_set

SIZES = {"vault": (300, 160), "company": (200, 200), "german": (120, 120), "chinese": (120, 120)}


@pytest.fixture(scope="module", params=SETS)
def made(request: pytest.FixtureRequest) -> tuple[str, MadeSet]:
    return request.param, made_set(request.param)


def test_a_set_is_made_alike_each_time_and_has_its_size(made: tuple[str, MadeSet]):
    name, found = made
    assert found == made_set(name)
    assert (len(found.files), len(found.questions)) == SIZES[name]
    assert len({file.source for file in found.files}) == len(found.files)
    assert len({line["question"] for line in found.questions}) == len(found.questions)


def test_each_gold_document_exists_and_the_last_one_holds_the_answer(made: tuple[str, MadeSet]):
    _, found = made
    texts = {file.source: file.text for file in found.files}
    for line in found.questions:
        assert {*line["documents"], *line.get("versions", ())} <= texts.keys()
        if line["documents"] and line["type"] not in ("compare", "count", "backlink"):
            # Speech leaves out that a plant is one.
            answer = line["answer"].removeprefix("Plant ")
            assert answer in texts[line["documents"][-1]]


def test_a_file_states_each_of_its_facts_and_no_template_is_left_unfilled(
    made: tuple[str, MadeSet],
):
    _, found = made
    for file in found.files:
        assert "{" not in file.text
        for fact in file.facts:
            short = fact.object.removeprefix("Plant ")
            assert short in fact.sentence or "[[" in fact.sentence
    for line in found.questions:
        assert "{" not in line["question"]


def test_most_notes_of_the_vault_say_nothing_of_their_own_name():
    found = made_set("vault")
    named = 0
    for file in found.files:
        name = file.source.rpartition("/")[2].removesuffix(".md")
        body = file.text.split("---\n", 2)[2]
        named += name in body
    assert 0 < named < len(found.files) * 0.2
    assert Counter(line["type"] for line in found.questions) == made_vault.ASKED


def test_an_alias_of_the_vault_is_one_note_s():
    found = made_set("vault")
    aliases: Counter[str] = Counter()
    for file in found.files:
        aliases.update(yaml.safe_load(file.text.split("---\n")[1]).get("aliases", []))
    assert len(aliases) >= made_vault.ASKED["alias"]
    assert set(aliases.values()) == {1}


def test_versions_of_a_policy_differ_in_figures_alone_and_only_the_newest_is_in_force():
    found = made_set("company")
    texts = {file.source: file.text for file in found.files}
    for line in found.questions:
        if line["type"] != "current":
            continue
        (gold,) = line["documents"]
        family = [gold, *line["versions"]]
        properties = {source: yaml.safe_load(texts[source].split("---\n")[1]) for source in family}
        in_force = [source for source in family if properties[source]["status"] == "in-force"]
        newest = max(family, key=lambda source: properties[source]["date"])
        assert in_force == [gold] == [newest]
        bodies = {texts[source].split("---\n")[2] for source in family}
        without_figures = {"".join(filter(lambda c: not c.isdigit(), body)) for body in bodies}
        assert len(bodies) == made_company.VERSIONS
        assert len(without_figures) == 1


def test_questions_without_an_answer_have_no_gold_and_the_company_has_each_type():
    found = made_set("company")
    assert Counter(line["type"] for line in found.questions) == made_company.ASKED
    for line in found.questions:
        assert (line["type"] == "unanswerable") == (not line["documents"])


@pytest.mark.parametrize(("name", "other"), [("german", "chinese"), ("chinese", "german")])
def test_the_same_questions_are_asked_in_both_languages(name: str, other: str):
    questions = made_set(name).questions
    own = [line for line in questions if line["type"].startswith(name)]
    crossed = [line for line in questions if line["type"].startswith(other)]
    assert [line["documents"] for line in own] == [line["documents"] for line in crossed]
    assert [line["answer"] for line in own] == [line["answer"] for line in crossed]
