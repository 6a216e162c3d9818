import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import UsageError
from pipeline.load.projection import OPTIONAL, SOURCES, TYPE_LENGTH, project, type_name
from pipeline.load.row_hashes import with_hashes
from pipeline.stores.postgres.schema import TABLES
from pipeline.text.ids import entity_id
from tests.load.tables import corpus

TEXTS = {"a.txt": "Ada met Babbage.", "b.txt": "Nothing else."}
NAMES = {"Ada": "person", "Babbage": "person", "London": ""}
LINKS = [
    ("Ada", "Babbage", ["works with", "friend"]),
    ("Babbage", "Ada", ["works with"]),
    ("Ada", "London", []),
    ("Babbage", "London", ["lives-in"]),
]


def test_rows_have_the_columns_of_the_stores_tables():
    projected = project(corpus(TEXTS, NAMES, LINKS), max_types=100)
    for name, table in TABLES.items():
        columns = {column.name for column in table.columns} - {
            "workspace",
            "row_hash",
            "embedding_key",
        }
        assert set(projected[name].columns) == columns
    for name in ("nodes", "edges"):
        also = {"source_id", "properties"} if name == "nodes" else {"source_id"}
        assert set(projected[f"sourced_{name}"].columns) == {*projected[name].columns, *also}
    assert {name: len(rows) for name, rows in projected.items()} == {
        "documents": 2, "chunks": 2, "entities": 3, "relationships": 4, "sources": 7, "nodes": 3,
        "edges": 4, "sourced_nodes": 3, "sourced_edges": 4, "reports": 4, "claims": 3,
        "statements": 4, "attributes": 3, "communities": 4,
    }  # fmt: skip


def test_an_infinite_place_is_a_missing_place():
    tables = corpus(TEXTS, NAMES, LINKS)
    first, second = tables["layout"]["id"]
    tables["layout"] = tables["layout"].assign(x=[np.inf, 0.5], y=[0.25, -np.inf])
    found = project(tables, max_types=100)["nodes"].set_index("id")
    assert np.isnan(found["x"][first])
    assert np.isnan(found["y"][second])
    assert (found["y"][first], found["x"][second]) == (0.25, 0.5)


def test_communities_reports_claims_and_statements_may_be_missing():
    tables = corpus(TEXTS, NAMES, LINKS)
    whole = project(tables, max_types=100)
    for name in OPTIONAL:
        del tables[name]
    without = project(tables, max_types=100)
    for name, rows in without.items():
        if name in ("reports", "claims", "statements", "attributes", "communities"):
            assert rows.empty
            assert set(rows.columns) == set(whole[name].columns)
        else:
            assert len(rows) == len(whole[name])
    assert set(without["chunks"]["header"]) == {""}
    assert whole["chunks"]["header"].tolist() == whole["chunks"]["heading"].tolist()
    assert all(heading.startswith("Part > ") for heading in whole["chunks"]["heading"])


def test_a_community_without_a_report_has_its_own_title():
    tables = corpus(TEXTS, NAMES, LINKS)
    tables["community_reports"] = tables["community_reports"].iloc[:1]
    tables["report_embeddings"] = tables["report_embeddings"].query(
        "id in @tables['community_reports']['id']"
    )
    projected = project(tables, max_types=100)
    rows = projected["communities"].set_index("id")
    told, untold = (
        tables["communities"].query("id in @projected['reports']['id']"),
        tables["communities"].iloc[1:],
    )
    assert rows.loc[told["id"], "title"].tolist() == [f"Of {title}" for title in told["title"]]
    assert rows.loc[untold["id"], "title"].tolist() == untold["title"].tolist()
    assert rows.loc[untold["id"], ["summary", "rating", "weight"]].to_numpy().tolist() == [
        ["", 0.0, 0]
    ] * len(untold)
    assert rows.loc[told["id"], ["summary", "rating", "weight"]].to_numpy().tolist() == [
        [told["title"].iloc[0] + " are told of", 7.5, 1]
    ]
    [report] = projected["reports"].to_dict("records")
    assert list(report["children"]) == list(told["children"].iloc[0])


@pytest.mark.parametrize("missing", ["communities", "report_embeddings"])
def test_reports_need_their_communities_and_vectors(missing: str):
    tables = corpus(TEXTS, NAMES, LINKS)
    del tables[missing]
    with pytest.raises(UsageError, match=f"writes no {missing}"):
        project(tables, max_types=100)


def test_contents_are_as_users_of_the_layout_know_them():
    projected = project(corpus(TEXTS, NAMES, LINKS), max_types=100)
    [ada] = projected["entities"].query("entity_name == 'Ada'").to_dict("records")
    assert ada["id"] == entity_id("Ada")
    assert ada["content"] == "Ada\nAda is"
    assert ada["entity_name"] == "Ada"
    assert isinstance(ada["embedding"], np.ndarray)
    assert ada["embedding"].dtype == np.float32
    links = projected["relationships"].set_index("content")
    assert links.loc["works with, friend\tAda\tBabbage\tAda to Babbage", "src_id"] == "Ada"
    nodes = projected["nodes"].set_index("display_name")
    assert nodes["entity_type"].to_dict() == {
        "Ada": "PERSON",
        "Babbage": "PERSON",
        "London": "UNKNOWN",
    }
    [document] = projected["documents"].query("source == 'a.txt'").to_dict("records")
    assert document["metadata"] == {"path": "a.txt"}


def test_the_first_keyword_is_the_type():
    edges = project(corpus(TEXTS, NAMES, LINKS), max_types=100)["edges"]
    types = dict(
        zip(zip(edges["source"], edges["target"], strict=True), edges["type"], strict=True)
    )
    assert types == {
        ("Ada", "Babbage"): "WORKS_WITH",
        ("Babbage", "Ada"): "WORKS_WITH",
        ("Ada", "London"): "RELATED",
        ("Babbage", "London"): "LIVES_IN",
    }


def test_the_rarest_types_become_related_and_keep_their_keyword():
    edges = project(corpus(TEXTS, NAMES, LINKS), max_types=1)["edges"]
    assert sorted(edges["type"]) == ["RELATED", "RELATED", "WORKS_WITH", "WORKS_WITH"]
    assert ["lives-in"] in edges["keywords"].tolist()


def test_a_corpus_without_documents_gives_no_rows():
    projected = project(corpus({}, {}, []), max_types=100)
    assert all(rows.empty for rows in projected.values())


@pytest.mark.parametrize("missing", SOURCES)
def test_a_missing_table_is_named(missing: str):
    tables = corpus(TEXTS, NAMES, LINKS)
    del tables[missing]
    with pytest.raises(UsageError, match=missing):
        project(tables, max_types=100)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("person", "PERSON"),
        ("works for", "WORKS_FOR"),
        ("  lives-in  ", "LIVES_IN"),
        ("`x`) DETACH DELETE n //", "X_DETACH_DELETE_N"),
        ("straße", "STRASSE"),
        ("人物", "人物"),
        ("_", "OTHER"),
        ("!?", "OTHER"),
        ("", "OTHER"),
        ("C++", "C"),
    ],
)
def test_a_type_name_is_made_of_the_words_of_its_label(label: str, name: str):
    assert type_name(label, "OTHER") == name


def test_long_type_names_stay_apart():
    names = [type_name("long word " * 20 + end, "OTHER") for end in ("one", "two")]
    assert len(set(names)) == 2
    assert all(
        name.startswith("LONG_WORD_LONG_WORD") and len(name) <= TYPE_LENGTH for name in names
    )
    assert type_name("x" * TYPE_LENGTH, "OTHER") == "X" * TYPE_LENGTH


@settings(deadline=None)
@given(st.text())
def test_a_type_name_is_a_word(label: str):
    name = type_name(label, "OTHER")
    assert name.replace("_", "").isalnum()
    assert len(name) <= TYPE_LENGTH
    assert type_name(name, "OTHER") == name
    assert name not in {"Entity", "GraphmillLive"}


def test_a_node_without_properties_has_the_hash_that_it_had_before_there_were_any():
    """So a load after an upgrade writes no node of a project without properties again."""
    tables = corpus(TEXTS, NAMES, LINKS)
    tables["entity_properties"] = tables["entity_properties"].head(1)
    nodes = project(tables, max_types=100)["sourced_nodes"]
    [said] = tables["entity_properties"]["properties"]
    assert nodes["properties"].tolist() == [said, "", ""]
    now = with_hashes(nodes)["row_hash"].tolist()
    before = with_hashes(nodes.drop(columns="properties"))["row_hash"].tolist()
    assert now[1:] == before[1:]
    other = with_hashes(nodes.assign(properties='{"height": 1}'))["row_hash"].tolist()
    assert len({now[0], before[0], other[0]}) == 3
