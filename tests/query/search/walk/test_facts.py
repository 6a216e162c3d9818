"""Paths of two facts."""

import pandas as pd

from pipeline.query.search.walk.facts import PATHS, find_best_paths, find_facts
from tests.query.memory_stores import MemoryStores, empty_village, entity, letters, relationship

FIRST = ("Ada", "Bea", "aaaa")


def paths(question: str, *others: tuple[str, str, str]) -> tuple[list[str], dict[str, float]]:
    """Return the paths that begin with the fact FIRST: descriptions of facts, and their scores."""
    rows = [relationship(source, target, text, []) for source, target, text in (FIRST, *others)]
    names = dict.fromkeys(name for row in rows for name in (row["source"], row["target"]))
    entities = pd.DataFrame([entity(name, []) for name in names])
    stores = MemoryStores(empty_village().chunk_rows, entities, pd.DataFrame(rows))
    facts = find_facts({rows[0]["id"]: 1.0}, [], stores)
    stores.reads.clear()
    found, scores = find_best_paths(letters(question), facts, stores, stores)
    assert stores.reads == ["embeddings relationships", "relationships"]
    texts = {row["id"]: row["description"] for row in rows}
    return [fact.description for fact in found], {texts[id]: score for id, score in scores.items()}


def test_the_second_fact_is_near_what_the_first_leaves_of_the_question():
    """It is not the fact that repeats the first, though that is nearer to the whole question."""
    _, scores = paths("ab", ("Bea", "Cid", "bbbb"), ("Bea", "Dov", "aab"))
    assert scores["aaaa"] == scores["bbbb"] == 1
    assert 0 < scores["aab"] < 1


def test_facts_of_a_path_share_an_entity():
    found, scores = paths("ab", ("Cid", "Dov", "bbbb"), ("Ada", "Eli", "cccc"))
    assert found == ["aaaa", "cccc"]
    assert scores.keys() == {"aaaa", "cccc"}


def test_only_the_best_paths_are_kept():
    others = [("Bea", f"Person {n}", "bbbb" + "c" * n) for n in range(2 * PATHS)]
    found, _ = paths("ab", *others)
    assert set(found) == {"aaaa", *(text for *_, text in others[:PATHS])}


def test_a_fact_beside_no_other_makes_no_path():
    assert paths("ab") == ([], {})
