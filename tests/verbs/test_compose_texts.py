import networkx as nx
import pandas as pd

from pipeline.contract.schemas import ENTITIES, RELATIONSHIPS, TEXTS
from pipeline.verbs.compose_texts import TextParams, compose_texts
from tests.verbs.graphs import ranked


def test_texts_have_name_keywords_ends_and_description():
    entities, relationships = ranked(nx.DiGraph([("Ann", "Bob")]))
    entity_texts, relationship_texts = compose_texts(entities, relationships)
    assert entity_texts["id"].tolist() == entities["id"].tolist()
    assert sorted(entity_texts["text"]) == ["Ann\nabout Ann", "Bob\nabout Bob"]
    assert relationship_texts["id"].tolist() == relationships["id"].tolist()
    assert relationship_texts["text"].tolist() == ["knows, friends\tAnn\tBob\tknows"]


def test_a_relationship_without_keywords_keeps_its_place_for_them():
    entities, relationships = ranked(nx.DiGraph([("Ann", "Bob")]))
    bare = relationships.assign(keywords=pd.Series([[]]))
    assert compose_texts(entities, bare)[1]["text"].tolist() == ["\tAnn\tBob\tknows"]


def test_rows_keep_their_texts_whatever_their_index():
    entities, relationships = ranked(nx.DiGraph([("Ann", "Bob"), ("Bob", "Cid"), ("Cid", "Ann")]))
    composed = compose_texts(entities, relationships)
    turned = compose_texts(entities.iloc[::-1], relationships.iloc[::-1])
    for one, other in zip(composed, turned, strict=True):
        assert TEXTS.encode(one, "texts").equals(TEXTS.encode(other, "texts"))


def test_an_empty_graph_has_no_texts():
    for texts in compose_texts(ENTITIES.frame(), RELATIONSHIPS.frame()):
        assert TEXTS.encode(texts, "texts").num_rows == 0


def test_params_choose_shorter_texts():
    entities, relationships = ranked(nx.DiGraph([("Ann", "Bob")]))
    texts = compose_texts(
        entities, relationships, TextParams(entity="name", relationship="description")
    )
    assert sorted(texts[0]["text"]) == ["Ann", "Bob"]
    assert texts[1]["text"].tolist() == ["knows"]
