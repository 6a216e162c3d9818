import pytest

from pipeline.query.prepare import prepare
from pipeline.query.search.filtered import FilteredGraph, FilteredVectors
from tests.query.memory_stores import letters, of_documents, question, resources, village
from tests.records import column
from tests.stored import nearest

MODES = ["naive", "local", "global", "hybrid", "mix"]


def only(*documents: str) -> tuple[FilteredVectors, FilteredGraph]:
    vectors = FilteredVectors(village(), of_documents(*documents))
    return vectors, FilteredGraph(village(), vectors)


def test_text_units_of_other_documents_are_not_there():
    vectors, _ = only("doc-1")
    assert [id for id, _ in nearest(vectors, "chunks", letters("zzz"), 9)] == ["c1"]
    assert column(vectors.chunks(["c2", "c1"], letters("Ada")), "id") == ["c1"]
    assert [id for id, _ in vectors.nearest_of("chunks", ["c2", "c1"], letters("Ada"), 9)] == ["c1"]


def test_only_visible_documents_are_listed():
    vectors, _ = only("doc-1")
    assert [
        id
        for id, _ in nearest(vectors, "chunks", letters("zzz"), 9, of_documents("doc-1", "doc-2"))
    ] == ["c1"]
    assert nearest(vectors, "chunks", letters("zzz"), 9, of_documents("doc-2")) == []
    assert not vectors.lexical("Cid Ada Bea met says", 9, of_documents("doc-2")).hits


def test_the_words_of_a_question_are_looked_for_in_the_documents_alone():
    vectors, _ = only("doc-1")
    assert [id for id, _ in village().lexical("Cid Ada Bea met says", 1).hits] == ["c2"]
    assert [id for id, _ in vectors.lexical("Cid Ada Bea met says", 1).hits] == ["c1"]


def test_texts_made_from_hidden_documents_too_are_left_out():
    _, graph = only("doc-2")
    entities = graph.entities(["ent-Ada", "ent-Cid", "ent-Dov"])
    assert column(entities, "name") == ["Ada", "Cid", "Dov"]
    assert column(entities, "description") == ["", "Cid, a person", "Dov, a person"]
    assert column(entities, "type") == ["", "PERSON", "PERSON"]
    assert column(entities, "text_unit_ids") == [["c2"], ["c2", "c3"], ["c3"]]


def test_a_record_without_a_source_in_the_documents_is_not_there():
    _, graph = only("doc-1")
    assert column(graph.entities(["ent-Dov", "ent-Ada"]), "name") == ["Ada"]
    assert column(graph.relationships_of(["ent-Bea"], 9), "id") == ["rel-Ada-Bea"]
    assert not graph.relationships(["rel-Cid-Dov"])
    assert set(column(graph.shared_units(["ent-Ada", "ent-Bea"]), "text_unit_id")) == {"c1"}


@pytest.mark.parametrize("mode", MODES)
def test_a_query_shows_nothing_of_a_document_outside_its_filter(mode: str):
    prepared = prepare(question(mode=mode, where={"source": "doc-1.txt"}), resources(village()))
    assert set(column(prepared.context.chunks.records, "document_id")) == {"doc-1"}
    assert "Cid" not in prepared.context.text
    assert "Ada, a person" not in prepared.context.text


@pytest.mark.parametrize("mode", MODES)
def test_a_filter_that_no_document_passes_finds_nothing(mode: str):
    prepared = prepare(question(mode=mode, where={"year": 1900}), resources(village()))
    assert prepared.abstention == "nothing_found"
