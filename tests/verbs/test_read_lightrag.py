"""read_lightrag: what it takes from an index of LightRAG 1.5.7, and what it tells."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import pytest

from pipeline.corrections.file import write_decision
from pipeline.documents.lightrag import records_of
from pipeline.errors import DataError, SettingsError
from pipeline.verbs.read_lightrag import (
    LightragParams,
    examine_lightrag,
    folder_digest,
    read_lightrag,
)
from tests.verbs.lightrag_folders import GRAPH, INDEX, edit_graph

CHUNKS, REPLIES = "kv_store_text_chunks.json", "kv_store_llm_response_cache.json"


class Characters:
    """A tokenizer whose tokens are characters."""

    def count(self, text: str) -> int:
        return len(text)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return Path(shutil.copytree(INDEX, tmp_path / "rag_storage"))


def read(folder: Path) -> dict[str, pd.DataFrame]:
    tokenizer: Any = Characters()
    names = ("documents", "text_units", "extractions", "rejects")
    return dict(zip(names, read_lightrag(LightragParams(path=str(folder)), tokenizer), strict=True))


def edit(path: Path, change: Callable[[Any], object]) -> None:
    rows = json.loads(path.read_text(encoding="utf-8"))
    change(rows)
    path.write_text(json.dumps(rows), encoding="utf-8")


def messages(tables: dict[str, pd.DataFrame], reason: str) -> list[str]:
    rejects = tables["rejects"]
    return rejects.loc[rejects["reason"] == reason, "message"].tolist()


def test_finished_documents_come_with_their_passages(index: Path):
    tables = read(index)
    assert set(tables["documents"]["source"]) == {"lamp.txt", "harbour.txt", "灯塔.txt", "json.txt"}
    texts = tables["documents"].set_index("id")["text"]
    for unit in tables["text_units"].to_dict("records"):
        assert texts[unit["document_id"]][unit["start"] : unit["end"]] == unit["text"]
    told = messages(tables, "unfinished")
    assert len(told) == 1
    assert "its status is failed" in told[0]


def test_relationships_have_the_direction_of_the_replies(index: Path):
    records = read(index)["extractions"]
    related = records[records["kind"] == "relationship"]
    pairs = set(zip(related["source"], related["target"], strict=True))
    assert ("Skarrow Lamp", "Ada Holm") in pairs
    assert ("林秋雁", "望海灯塔") in pairs
    assert ("周明", "望海灯塔") in pairs, "the gleaning is read"
    assert ("Ida Vale", "Tide Book") in pairs, "the reply in JSON is read"
    assert set(related["weight"]) == {1.0}


def test_the_longer_description_of_a_passage_counts(index: Path):
    records = read(index)["extractions"]
    ada = records[records["name"] == "Ada Holm"]
    assert ada["description"].tolist() == ["Ada Holm built the Skarrow Lamp in the year 1871."]


def test_all_that_is_not_taken_is_told(index: Path):
    tables = read(index)
    told = "\n".join(messages(tables, "not_imported"))
    assert "Hand-made Bell: made by hand" in told
    by_hand = "\n".join(messages(tables, "by_hand"))
    assert "no reply gives this description (A town, as a person says.)" in by_hand
    unread = {path.name for path in index.iterdir() if path.name.startswith("vdb_")}
    assert len(unread) == 3
    for name in unread:
        assert f"{name}: vectors are made anew" in told
    assert "2 names" in messages(tables, "one_name")[0]
    assert "broken line" in messages(tables, "record")[0]


def test_no_node_that_a_reply_gives_is_told(index: Path):
    rejects = read(index)["rejects"]
    rows = rejects[rejects["row_id"].str.contains(".graphml", regex=False)]
    assert set(rows["reason"]) == {"by_hand", "not_imported"}
    assert len(rows) == 2


def test_edits_of_a_graph_are_decisions(index: Path):
    edit_graph(index)
    edits = examine_lightrag(index).edits
    assert edits is not None
    lost = {edit.place for edit, decision in edits if decision is None}
    # Nobody knows whether a node that is gone was deleted or merged into another one.
    assert lost == {"Lonely Rock", "林秋雁"}
    lines = [json.loads(write_decision(decision)) for _, decision in edits if decision is not None]
    told = [{key: line[key] for key in line if key not in ("by", "why")} for line in lines]
    assert {line["by"] for line in lines} == {"import lightrag"}
    assert all(line["why"] for line in lines)
    town, farewell = "A town, as a person says.", "He left for good."
    about_nodes = [
        {"kind": "rename", "entity": "Tide Book", "to": "Book of Tides"},
        {"kind": "set_type", "entity": "周明", "to": "KEEPER"},
        {"kind": "describe_entity", "entity": "Tessing", "description": town},
        {"kind": "describe_entity", "entity": "Hand-made Bell", "description": "Made by hand."},
    ]
    ends = {"source": "Otto Brun", "target": "Tessing"}
    expected = [*about_nodes, {"kind": "describe_statement", **ends, "description": farewell}]
    added = {line["description"]: line for line in told if line["kind"] == "add_statement"}
    others = [line for line in told if line["kind"] != "add_statement"]
    assert sorted(others, key=str) == sorted(expected, key=str)
    assert set(added) == {"Friends.", "It hangs by it."}
    friends, bell = added["Friends."], added["It hangs by it."]
    # The graph is undirected, so the names are in the order of the alphabet.
    assert (friends["source"], friends["target"]) == ("Ada Holm", "Ida Vale")
    assert (friends["type"], friends["document"]) == ("friendship", "harbour.txt")
    assert (bell["type"], bell["document"]) == ("place", "lamp.txt")
    assert (bell["source"], bell["source_type"]) == ("Hand-made Bell", "ARTIFACT")


def test_nodes_of_documents_that_are_not_finished_are_no_edits(index: Path):
    before = examine_lightrag(index).edits
    rows = json.loads((index / CHUNKS).read_text(encoding="utf-8"))
    unfinished = next(
        id for id, row in rows.items() if row["content"].startswith("The model fails")
    )
    graph: Any = nx.read_graphml(index / GRAPH)
    graph.add_node("Half Done", entity_type="x", description="Half.", source_id=unfinished)
    nx.write_graphml(graph, index / GRAPH)
    after = examine_lightrag(index).edits
    assert before
    assert after
    assert len(after) == len(before)


def test_a_missing_reply_is_told(index: Path):
    chunks = json.loads((index / CHUNKS).read_text(encoding="utf-8"))
    key = next(chunk["llm_cache_list"][0] for chunk in chunks.values() if chunk["llm_cache_list"])
    edit(index / REPLIES, lambda replies: replies.pop(key))
    told = messages(read(index), "dangling")
    assert any(f"has no reply '{key}'" in one for one in told)


@pytest.mark.parametrize("name", ["kv_store_full_docs.json", CHUNKS, REPLIES])
def test_a_folder_without_a_file_is_refused(index: Path, name: str):
    (index / name).unlink()
    with pytest.raises(SettingsError, match=f"no {name}; name the working folder"):
        read(index)


def test_a_damaged_file_is_refused(index: Path):
    (index / CHUNKS).write_text('{"doc-1": {"content"', encoding="utf-8")
    with pytest.raises(DataError, match=f"{CHUNKS}: no readable JSON"):
        read(index)


def test_another_version_is_refused(index: Path):
    edit(index / CHUNKS, lambda chunks: [chunk.pop("llm_cache_list") for chunk in chunks.values()])
    with pytest.raises(DataError, match=r"no llm_cache_list; only indexes of LightRAG 1\.5\.7"):
        read(index)


@pytest.mark.parametrize(
    ("file", "field", "cell"),
    [
        ("kv_store_full_docs.json", "content", None),
        (CHUNKS, "content", ["a text"]),
        (CHUNKS, "llm_cache_list", 5),
        (CHUNKS, "llm_cache_list", "default:extract:1"),
    ],
)
def test_a_field_of_another_kind_is_refused_and_made_no_text(
    index: Path, file: str, field: str, cell: Any
):
    edit(index / file, lambda rows: rows[min(rows)].update({field: cell}))
    with pytest.raises(DataError, match=rf"{file}: row '.*' has no (text|list) in {field}"):
        read(index)


def test_a_finished_document_without_a_passage_is_told_and_left_out(index: Path):
    rows = json.loads((index / CHUNKS).read_text(encoding="utf-8"))
    lost = next(row["full_doc_id"] for row in rows.values() if row["llm_cache_list"])
    edit(
        index / CHUNKS,
        lambda chunks: [chunks.pop(id) for id, row in rows.items() if row["full_doc_id"] == lost],
    )
    tables = read(index)
    assert len(tables["documents"]) == 3
    assert any(lost in one and f"{CHUNKS} has no passage" in one
               for one in messages(tables, "incomplete"))  # fmt: skip


def test_a_passage_that_is_gone_is_told_and_what_it_gave_is_no_edit(index: Path):
    chunks = json.loads((index / CHUNKS).read_text(encoding="utf-8"))
    lamp, harbour = (
        next(id for id, row in chunks.items() if row["content"].startswith(text))
        for text in ("Ada Holm built", "Otto Brun left")
    )
    document = chunks[lamp]["full_doc_id"]

    def join_documents(rows: Any) -> None:
        """The document of the lamp has two passages."""
        rows[document]["chunks_list"].append(harbour)
        rows.pop(chunks[harbour]["full_doc_id"])

    edit(index / "kv_store_doc_status.json", join_documents)
    before = examine_lightrag(index).edits
    replies = chunks[harbour]["llm_cache_list"]
    edit(index / CHUNKS, lambda rows: rows.pop(harbour))
    edit(index / REPLIES, lambda rows: [rows.pop(key) for key in replies])
    told = messages(read(index), "dangling")
    assert any(f"{document}: {CHUNKS} lacks 1 passage of it" in one for one in told), told
    after = examine_lightrag(index).edits
    assert before is not None
    assert after is not None
    assert {edit.place for edit, _ in after} <= {edit.place for edit, _ in before}


def test_a_reply_that_is_no_text_makes_no_record(index: Path):
    key = next(iter(json.loads((index / REPLIES).read_text(encoding="utf-8"))))
    content = {"entities": [{"name": "Far Point", "type": "x", "description": "It is far."}]}
    edit(index / REPLIES, lambda rows: rows[key].update({"return": content}))
    tables = read(index)
    assert any(key in one and "no text" in one for one in messages(tables, "parse"))
    assert "Far Point" not in set(tables["extractions"]["name"])


def test_documents_of_one_name_are_not_taken_for_one(index: Path):
    def name_alike(rows: Any) -> None:
        one, two = sorted(rows)[:2]
        rows[one]["file_path"], rows[two]["file_path"] = two, ""

    edit(index / "kv_store_full_docs.json", name_alike)
    tables = read(index)
    assert tables["documents"]["id"].is_unique
    assert len(messages(tables, "duplicate_id")) == 1


def test_a_graph_that_cannot_be_read_tells_of_no_edits(index: Path):
    path = index / GRAPH
    path.write_bytes(path.read_bytes()[:2000])
    tables = read(index)
    assert "no edit in it is taken" in messages(tables, "parse")[0]
    assert messages(tables, "by_hand") == []
    assert not any("a person has" in one for one in messages(tables, "not_imported"))
    path.unlink()
    assert any("edits by hand in it are not found" in one
               for one in messages(read(index), "not_imported"))  # fmt: skip
    assert examine_lightrag(index).edits is None


def test_what_a_lost_reply_has_given_is_no_edit_of_a_person(index: Path):
    before = examine_lightrag(index).edits
    chunks = json.loads((index / CHUNKS).read_text(encoding="utf-8"))
    lamp = next(row for row in chunks.values() if row["content"].startswith("Ada Holm built"))
    edit(index / REPLIES, lambda replies: [replies.pop(key) for key in lamp["llm_cache_list"]])
    after = examine_lightrag(index).edits
    assert before is not None
    assert after is not None
    assert {edit.place for edit, _ in after} <= {edit.place for edit, _ in before}
    told = messages(read(index), "dangling")
    assert any("4 nodes and edges of passages without a reply" in one for one in told), told


def test_the_stamp_follows_the_content(index: Path):
    params = LightragParams(path=str(index))
    before = folder_digest(params)
    shutil.copytree(index, index.parent / "moved")
    assert folder_digest(LightragParams(path=str(index.parent / "moved"))) == before
    edit(index / REPLIES, lambda replies: replies.clear())
    assert folder_digest(params) != before


def test_a_field_too_many_is_no_record():
    assert list(records_of("entity<|#|>A<|#|>b<|#|>c<|#|>d<|#|>e")) == [
        "entity<|#|>A<|#|>b<|#|>c<|#|>d<|#|>e"
    ]
