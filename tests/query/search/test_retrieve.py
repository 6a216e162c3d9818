from dataclasses import replace

import numpy as np
import pytest

from pipeline.query.search.evidence import Evidence, Limits, UnitChoice
from pipeline.query.search.keywords import Keywords
from pipeline.query.search.modes import (
    QuestionVectors,
    embed_question,
    find_nearest_ids,
    retrieve,
    search_entities,
    search_relationships,
)
from pipeline.settings.query_fields import ChunkPick
from pipeline.stores.reads import VectorSearch
from tests.query.memory_stores import (
    LetterEmbedding,
    MemoryStores,
    empty_village,
    letters,
    question,
    village,
)
from tests.records import column

LOCAL = ["entities", "relationships_of", "nearest_of relationships", "shared_units"]
GLOBAL = ["relationships", "entities"]
LIMITS = Limits(records=10, n_units=1)


def found(stores: MemoryStores, keywords: Keywords, **wishes: object) -> Evidence:
    request = question("zzz", **wishes)
    question_vectors = embed_question(request, keywords, LetterEmbedding())
    return retrieve(request, question_vectors, stores, stores, request.chunk_top_k)


def choice(
    stores: MemoryStores, text: str = "", method: ChunkPick = "RELATION", number: int = 5
) -> UnitChoice:
    return UnitChoice(method, number, letters(text), stores)


def near(stores: MemoryStores, table: str, text: str, limit: int) -> list[str]:
    return find_nearest_ids([VectorSearch(table, letters(text), limit)], stores)[0]


BOTH = Keywords(("lawsuit",), ("Ada",))


@pytest.mark.parametrize(
    ("mode", "reads", "lanes"),
    [
        ("naive", ["nearest chunks"], ["vector"]),
        ("local", ["nearest entities", *LOCAL], ["entity"]),
        ("global", ["nearest relationships", *GLOBAL], ["relationship"]),
        ("hybrid", ["nearest entities relationships", *LOCAL, *GLOBAL], ["entity", "relationship"]),
        (
            "mix",
            ["nearest chunks entities relationships", *LOCAL, *GLOBAL],
            ["vector", "entity", "relationship"],
        ),
    ],
)
def test_each_mode_consults_its_lanes(mode: str, reads: list[str], lanes: list[str]):
    stores = village()
    evidence = found(stores, BOTH, mode=mode)
    assert stores.reads == reads
    assert list(evidence.unit_lanes) == lanes


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "mix", "naive"])
@pytest.mark.parametrize("top_k", [1, 60])
def test_the_number_of_reads_does_not_depend_on_top_k(mode: str, top_k: int):
    one, many = village(), village()
    found(one, BOTH, mode=mode, top_k=1)
    found(many, BOTH, mode=mode, top_k=top_k)
    assert one.reads == many.reads


@pytest.mark.parametrize(
    ("records", "n_units", "searched"),
    [(10, 1, 10), (10, 20, 100), (10, 400, 1_000), (10, 3_000, 3_000), (2_000, 400, 2_000)],
)
def test_five_records_are_searched_for_each_text_unit_up_to_a_limit(
    records: int, n_units: int, searched: int
):
    assert Limits(records, n_units).searched == searched


def test_relationships_are_those_of_the_entities_that_are_still_there():
    stores = village()
    there = near(stores, "entities", "Ada", 2)
    found_ids = ["ent-deleted", *there]
    evidence = search_entities(found_ids, choice(stores), Limits(2, 1), stores, stores)
    assert [entity.id for entity in evidence.entities] == there
    undisturbed = search_entities(there, choice(stores), Limits(2, 1), stores, stores)
    assert evidence.relationships == undisturbed.relationships


@pytest.mark.parametrize(
    ("mode", "keywords"),
    [
        ("local", Keywords(("lawsuit",), ())),
        ("global", Keywords((), ("Ada",))),
        ("hybrid", Keywords((), ())),
        ("mix", Keywords((), ())),
    ],
)
def test_a_mode_without_its_keywords_reads_as_naive(mode: str, keywords: Keywords):
    stores = village()
    evidence = found(stores, keywords, mode=mode, chunk_top_k=1)
    assert stores.reads == ["nearest chunks"]
    assert any("keywords" in note for note in evidence.notes)
    assert evidence.unit_lanes == {"vector": {"c4": 1}}


def test_hybrid_with_one_kind_of_keywords_follows_that_kind():
    stores = village()
    assert list(found(stores, Keywords((), ("Ada",)), mode="hybrid").unit_lanes) == ["entity"]
    assert stores.reads == ["nearest entities", *LOCAL]


@pytest.mark.parametrize(
    ("mode", "keywords", "notes"),
    [
        ("naive", Keywords(), ()),
        ("hybrid", BOTH, ()),
        ("hybrid", Keywords(("a",), ()), ("no low-level keywords: entities were not searched",)),
        ("mix", Keywords((), ("a",)), ("no high-level keywords: relationships were not searched",)),
        (
            "local",
            Keywords(("a",), ()),
            ("no low-level keywords: entities were not searched", "searched as naive"),
        ),
    ],
)
def test_a_half_that_was_left_out_is_told(mode: str, keywords: Keywords, notes: tuple[str, ...]):
    assert found(village(), keywords, mode=mode).notes == notes


def test_local_search_goes_from_entities_to_their_relationships_and_chunks():
    stores = village()
    evidence = search_entities(
        near(stores, "entities", "Bea", 1), choice(stores), LIMITS, stores, stores
    )
    assert column(evidence.entities, "name") == ["Bea"]
    assert column(evidence.relationships, "id") == ["rel-Bea-Cid", "rel-Ada-Bea"]
    assert evidence.unit_lanes == {"entity": {"c2": 1, "c1": 1}}


def test_local_search_keeps_the_order_of_similarity():
    stores = village()
    evidence = search_entities(
        near(stores, "entities", "Dov", 2), choice(stores), LIMITS, stores, stores
    )
    assert column(evidence.entities, "name") == ["Dov", "Cid"]
    assert evidence.unit_lanes == {"entity": {"c3": 2, "c2": 1}}


def test_global_search_goes_from_relationships_to_their_ends_and_chunks():
    stores = village()
    evidence = search_relationships(
        near(stores, "relationships", "lawsuit teaching", 2), choice(stores), LIMITS, stores
    )
    assert column(evidence.relationships, "id") == ["rel-Ada-Bea", "rel-Cid-Dov"]
    by_rank = search_relationships(
        near(stores, "relationships", "lawsuit teaching", 2), choice(stores), LIMITS, stores, "rank"
    )
    assert column(by_rank.relationships, "id") == ["rel-Cid-Dov", "rel-Ada-Bea"]
    assert column(evidence.entities, "name") == ["Ada", "Bea", "Cid", "Dov"]
    assert evidence.unit_lanes == {"relationship": {"c1": 1, "c3": 1}}


def test_relationships_are_those_of_the_best_entity_first_and_the_most_similar_to_the_question():
    stores = village()
    wanted = choice(stores, "meeting")
    by_question = search_entities(
        near(stores, "entities", "Bea", 2), wanted, LIMITS, stores, stores
    )
    assert column(by_question.entities, "name")[0] == "Bea"
    assert column(by_question.relationships, "description")[:2] == ["meeting", "teaching"]
    other = search_entities(
        near(stores, "entities", "Bea", 2), choice(stores, "teaching"), LIMITS, stores, stores
    )
    assert column(other.relationships, "description")[:2] == ["teaching", "meeting"]
    by_rank = search_entities(
        near(stores, "entities", "Bea", 2), wanted, LIMITS, stores, stores, "rank"
    )
    ranks = column(by_rank.relationships, "rank")
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize(
    ("mode", "units"),
    [
        ("local", {"entity": ["c1", "c2", "c3"]}),
        ("global", {"relationship": ["c3", "c1", "c2"]}),
    ],
)
def test_records_beyond_top_k_give_the_text_units_that_the_first_ones_lack(
    mode: str, units: dict[str, list[str]]
):
    evidence = found(village(), BOTH, mode=mode, top_k=1, chunk_top_k=3)
    assert {lane: list(picks) for lane, picks in evidence.unit_lanes.items()} == units
    only_first = found(village(), BOTH, mode=mode, top_k=1, chunk_top_k=1)
    assert evidence.entities == only_first.entities
    assert evidence.relationships == only_first.relationships


def test_records_beyond_top_k_give_nothing_where_the_first_ones_have_enough():
    evidence = found(village(), BOTH, mode="hybrid", top_k=1, chunk_top_k=1)
    lanes = {lane: list(picks) for lane, picks in evidence.unit_lanes.items()}
    assert lanes == {"entity": ["c1", "c2"], "relationship": ["c3"]}


def test_hybrid_takes_turns_and_names_each_entity_once():
    evidence = found(village(), BOTH, mode="hybrid", top_k=2)
    names = column(evidence.entities, "name")
    assert names[:2] == ["Ada", "Cid"]
    assert len(names) == len(set(names))
    links = column(evidence.relationships, "id")
    assert len(links) == len(set(links))
    assert set(evidence.unit_lanes) == {"entity", "relationship"}


@pytest.mark.parametrize("mode", ["local", "global", "hybrid"])
def test_texts_of_which_the_graph_holds_nothing_are_found_as_by_naive(mode: str):
    whole = village()
    stores = replace(
        whole, entity_rows=whole.entity_rows[:0], relationship_rows=whole.relationship_rows[:0]
    )
    evidence = found(stores, BOTH, mode=mode, chunk_top_k=2)
    assert evidence.unit_lanes == found(village(), BOTH, mode="naive", chunk_top_k=2).unit_lanes
    assert evidence.notes == ("the graph holds nothing for this question: searched as naive",)


@pytest.mark.parametrize("mode", ["local", "global", "hybrid", "mix", "naive"])
def test_empty_stores_give_empty_evidence(mode: str):
    evidence = found(empty_village(), BOTH, mode=mode)
    assert not evidence.entities
    assert not evidence.relationships
    assert not any(evidence.unit_lanes.values())


def test_all_that_is_searched_for_is_embedded_at_once():
    class Counted(LetterEmbedding):
        asked: list[list[str]] = []  # noqa: RUF012

        def embed(self, texts, listener=None) -> np.ndarray:
            self.asked.append(list(texts))
            return super().embed(texts)

    vectors = embed_question(question("qqq"), Keywords(("a", "b"), ()), Counted())
    assert isinstance(vectors, QuestionVectors)
    assert len(Counted.asked) == 1
    assert vectors.low is None
    assert vectors.high is not None
    np.testing.assert_allclose(vectors.high, letters("ab"))
    np.testing.assert_allclose(vectors.whole, letters("qqq"))
