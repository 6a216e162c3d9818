"""Replies in the cache of GraphRAG are found by passage; the index is one that it has made."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from pipeline.documents.graphrag_cache import (
    CONTINUE,
    LOOP,
    GraphragCache,
    Message,
    explain_closed_cache,
    has_replies,
    name_of_reply,
    open_cache,
)
from pipeline.errors import DataError
from pipeline.text.ids import document_id
from pipeline.text.tokens import tokenizer
from pipeline.verbs import read_graphrag_cache
from pipeline.verbs.read_graphrag import GraphragParams
from pipeline.verbs.read_graphrag_cache import digest_with_cache
from tests.verbs.graphrag_folders import remove_replies, unpack

NAMES = (
    "documents", "text_units", "extractions", "communities", "reports", "claims", "rejects",
)  # fmt: skip
BELL = "Mira Quill cast the Harbour Bell. Ida Vale heard the Harbour Bell.\n"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return unpack(tmp_path / "graphrag")


def read(folder: Path) -> dict[str, pd.DataFrame]:
    tables = read_graphrag_cache(GraphragParams(path=str(folder)), tokenizer("o200k_base"))
    return dict(zip(NAMES, tables, strict=True))


def test_each_passage_has_the_records_of_its_replies(index: Path):
    found = read(index)
    assert len(found["documents"]) == 6
    without = set(found["text_units"]["id"]) - set(found["extractions"]["text_unit_id"])
    assert len(without) == list(found["rejects"]["reason"]).count("empty") == 1
    lamp = document_id("lamp.txt")
    assert lamp in set(found["documents"]["id"])
    units = found["text_units"].set_index("id")
    records = found["extractions"].join(units["document_id"], on="text_unit_id")
    of_lamp = records[records["document_id"] == lamp]
    assert {"Ada Holm", "Skarrow Lamp", "Gleaned House"} <= set(of_lamp["name"])
    built = of_lamp[of_lamp["source"] == "Ada Holm"].iloc[0]
    assert (built["target"], built["weight"], built["grounded"]) == ("Skarrow Lamp", 7.0, True)
    assert {"林秋雁", "望海灯塔"} <= set(records["name"])


def test_communities_reports_and_claims_come_from_the_tables(index: Path):
    found = read(index)
    assert len(found["reports"]) == len(found["communities"]) > 0
    assert set(found["claims"]["text_unit_id"]) <= set(found["text_units"]["id"])
    assert "HONESTY" in set(found["claims"]["type"])


def test_what_is_not_taken_is_told(index: Path):
    (index / "cache" / "extract_graph" / "other_v4").write_text("{}", "utf-8")
    (index / "cache" / "summarize_descriptions").mkdir(exist_ok=True)
    (index / "cache" / "summarize_descriptions" / "one_v4").touch()
    (index / "cache" / "stray_v4").touch()
    (index / "cache" / "extract_graph" / "dead_v4").symlink_to("/nowhere")
    older = index / "cache" / "extract_graph" / "older"
    older.mkdir()
    for name in ("one_v4", "two_v4"):
        (older / name).touch()
    rejects = read(index)["rejects"].set_index("row_id")["message"]
    assert "2 files not read, damaged: dead_v4, other_v4" in rejects["cache/extract_graph"]
    assert "2 files, not read" in rejects["cache/extract_graph/older"]
    assert "1 file, not read" in rejects["cache"]
    assert "not read" in rejects["cache/summarize_descriptions"]
    assert not any("community_reporting" in row for row in rejects.index)
    # GraphRAG 3.3.0 asks for more claims, and throws the replies away.
    assert "covariates has 8 claims of the first questions" in rejects["cache/extract_claims"]


def test_a_link_to_a_disk_is_not_searched(index: Path, tmp_path: Path):
    deep = tmp_path / "disk" / "deep"
    deep.mkdir(parents=True)
    for folder in (deep, deep.parent):
        (folder / "file").touch()
    (index / "cache" / "disk").symlink_to(tmp_path / "disk")
    rejects = read(index)["rejects"].set_index("row_id")["message"]
    assert "1 file, not read" in rejects["cache/disk"]


def test_replies_whose_tables_are_gone_are_told(index: Path):
    for name in ("community_reports", "covariates"):
        (index / "output" / f"{name}.parquet").unlink()
    rejects = read(index)["rejects"].set_index("row_id")["message"]
    assert "3 files, not read; community_reports has 0" in rejects["cache/community_reporting"]
    assert "16 files, not read; covariates has 0 claims" in rejects["cache/extract_claims"]


def reply_of(index: Path, number: int = 0, passage: str = BELL) -> Path:
    """The file with a reply about a passage: the first one, or that to a further question."""
    cache = open_cache(index)
    assert cache is not None
    return cache.folder / "extract_graph" / cache.replies_about(passage).replies[number].name


def edit_reply(path: Path, content: object, finish_reason: str = "stop") -> None:
    choices = [{"finish_reason": finish_reason}]
    response = {"content": content, "choices": choices}
    path.write_text(json.dumps({"result": {"response": response}}), "utf-8")


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("{")])
def test_a_further_question_without_a_reply_is_told(index: Path, damage: Callable[[Path], object]):
    damage(reply_of(index, 1))
    found = read(index)
    assert len(found["documents"]) == 6
    message = found["rejects"].set_index("row_id")["message"]["bell.txt"]
    assert "1 passage without the reply to a further question" in str(message)


def test_an_index_without_further_questions_lacks_none(index: Path):
    settings = index / "settings.yaml"
    settings.write_text(settings.read_text("utf-8").replace("max_gleanings: 1", "max_gleanings: 0"))
    texts = pd.read_parquet(index / "output" / "text_units.parquet")["text"]
    firsts = {reply_of(index, 0, text).name for text in texts}
    settings.write_text(settings.read_text("utf-8").replace("max_gleanings: 0", "max_gleanings: 1"))
    for path in (index / "cache" / "extract_graph").iterdir():
        if path.name not in firsts:
            path.unlink()
    assert not any("further question" in one for one in read(index)["rejects"]["message"])


def test_a_reply_at_the_limit_of_tokens_is_told(index: Path):
    path = reply_of(index, 1)
    edit_reply(path, '("entity"<|>Far Point<|>GEO<|>It is far.)', "length")
    found = read(index)
    assert "Far Point" in set(found["extractions"]["name"])
    cut = found["rejects"][found["rejects"]["reason"] == "truncated"]
    assert cut["row_id"].tolist() == [f"cache/extract_graph/{path.name}"]


@pytest.mark.parametrize("content", [["a"], {"entity": 1}, 5, True])
def test_no_text_is_made_of_a_reply_that_is_none(index: Path, content: object):
    edit_reply(reply_of(index), content)
    rejects = read(index)["rejects"].set_index("row_id")
    assert rejects.loc["bell.txt", "reason"] == "unfinished"


def test_entities_that_no_reply_names_are_told(index: Path):
    assert not any(row.startswith("entities") for row in read(index)["rejects"]["row_id"])
    edit_reply(reply_of(index), '("entity"<|>Ida Vale<|>PERSON<|>She is told of.)')
    rejects = read(index)["rejects"]
    told = rejects[rejects["row_id"].str.startswith("entities[")]["message"]
    assert len(told) == 1
    assert "2 of 12 entities are named by no reply about their passages" in told.iloc[0]


def drop_units(index: Path, document: str, keep: int) -> None:
    """Leave some of the text units of a document, as in a table that is being written."""
    documents = pd.read_parquet(index / "output" / "documents.parquet").set_index("title")
    path = index / "output" / "text_units.parquet"
    units = pd.read_parquet(path)
    is_dropped = units["document_id"] == documents.loc[document, "id"]
    units[~is_dropped | (is_dropped.cumsum() <= keep)].to_parquet(path)


@pytest.mark.parametrize(
    ("document", "keep", "fact"),
    [
        ("bell.txt", 0, "it lacks 1 text unit of 1"),
        ("long.txt", 1, "it lacks 1 text unit of 2"),
    ],
)
def test_a_document_without_all_its_text_units_is_left_out(
    index: Path, document: str, keep: int, fact: str
):
    drop_units(index, document, keep)
    found = read(index)
    assert document_id(document) not in set(found["documents"]["id"])
    told = found["rejects"].set_index("row_id").loc[document]
    assert str(told["reason"]) == "unfinished"
    assert fact in str(told["message"])


def test_answers_whether_there_is_more_are_read(index: Path):
    settings = index / "settings.yaml"
    text = settings.read_text("utf-8")
    settings.write_text(text.replace("max_gleanings: 1", "max_gleanings: 2"), "utf-8")
    cache = open_cache(index)
    assert cache is not None
    first, gleaned = cache.replies_about(BELL).replies
    messages: list[Message] = [
        {"role": "user", "content": cache.prompt.format(input_text=BELL.strip(),
                                                        entity_types=cache.types)},
        {"role": "assistant", "content": first.content, "refusal": None},
        {"role": "user", "content": CONTINUE},
        {"role": "assistant", "content": gleaned.content, "refusal": None},
        {"role": "user", "content": LOOP},
    ]  # fmt: skip
    edit_reply(cache.folder / "extract_graph" / name_of_reply(messages), "N")
    rejects = read(index)["rejects"].set_index("row_id")["message"]
    assert "cache/extract_graph" not in rejects.index
    assert "bell.txt" not in rejects.index
    assert "lamp.txt" in rejects.index, "it has no answer whether there is more"


def test_a_document_with_a_passage_without_a_reply_is_left_out(index: Path):
    remove_replies(index, BELL)
    found = read(index)
    assert document_id("bell.txt") not in set(found["documents"]["id"])
    assert len(found["documents"]) == 5
    told = found["rejects"].set_index("row_id").loc["bell.txt"]
    assert str(told["reason"]) == "unfinished"
    assert "1 passage without a whole reply" in told["message"]
    units = found["rejects"][found["rejects"]["row_id"].str.startswith("text_units[")]
    assert set(units["reason"]) == {"dangling"}
    # GraphRAG's id of the document, a hash, would tell nobody which one it is.
    assert all(
        message.endswith(": of a document that is left out: bell.txt")
        for message in units["message"]
    )
    assert set(found["claims"]["text_unit_id"]) <= set(found["text_units"]["id"])


def test_replies_about_other_passages_of_an_unfinished_document_are_told(index: Path):
    text = str(
        pd.read_parquet(index / "output" / "text_units.parquet", columns=["text"]).iloc[0, 0]
    )
    remove_replies(index, text)
    told = read(index)["rejects"].set_index("row_id")["message"]["cache/extract_graph"]
    assert "not read, about passages of documents that are left out" in told
    assert "about no passage" not in told


def damage_reply(index: Path) -> None:
    reply_of(index).write_text('{"result": ', "utf-8")


def test_a_damaged_reply_is_none(index: Path):
    reply_name = reply_of(index).name
    damage_reply(index)
    found = read(index)
    assert found["rejects"].set_index("row_id").loc["bell.txt", "reason"] == "unfinished"
    message = found["rejects"].set_index("row_id").loc["cache/extract_graph", "message"]
    # The reply to the further question, which is made of the damaged one, is not found either.
    assert "1 file not read, about no passage" in str(message)
    assert f"1 file not read, damaged: {reply_name}" in str(message)


def break_prompt(index: Path) -> None:
    (index / "prompts" / "extract_graph.txt").write_text("{unknown}", "utf-8")


def break_settings(index: Path) -> None:
    (index / "settings.yaml").write_text("a: [", "utf-8")


def remove_cache(index: Path) -> None:
    (index / "cache").rename(index / "elsewhere")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_prompt, "cannot be filled in"),
        (break_settings, "no readable YAML"),
        (remove_cache, "no cache of replies"),
    ],
)
def test_faults_of_a_cache_are_told(index: Path, damage: Callable[[Path], None], message: str):
    damage(index)
    with pytest.raises(DataError, match=message):
        read(index)


def forget_settings(index: Path) -> None:
    (index / "settings.yaml").unlink()


def forget_prompt(index: Path) -> None:
    (index / "prompts" / "extract_graph.txt").unlink()


def keep_cache_in_sqlite(index: Path) -> None:
    (index / "settings.yaml").write_text("cache: {type: sqlite}", "utf-8")


def keep_cache_in_a_cloud(index: Path) -> None:
    (index / "settings.yaml").write_text("cache: {storage: {type: blob}}", "utf-8")


def name_the_cache_by_a_variable(index: Path) -> None:
    (index / "settings.yaml").write_text("cache: {storage: {base_dir: '${CACHE}'}}", "utf-8")


def name_other_tables(index: Path) -> None:
    (index / "settings.yaml").write_text("output_storage: {base_dir: other}", "utf-8")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (forget_settings, "cache/extract_graph, as there is no settings.yaml beside it"),
        (forget_prompt, "cache/extract_graph, as extract_graph.prompt of settings.yaml names no"),
        (keep_cache_in_sqlite, "as only one of type json is read"),
        (keep_cache_in_a_cloud, "as only one in a folder is read"),
        (name_the_cache_by_a_variable, "let cache.storage.base_dir of settings.yaml name the"),
        (name_other_tables, "names another folder of tables than this one"),
        (remove_cache, ""),
    ],
)
def test_a_cache_that_is_not_opened_is_told(
    index: Path, change: Callable[[Path], None], reason: str
):
    change(index)
    assert open_cache(index / "output") is None
    found = explain_closed_cache(index / "output")
    assert reason in found
    assert bool(found) == bool(reason)


def fits(folder: Path) -> bool:
    cache = open_cache(folder)
    assert cache
    return has_replies(cache, folder)


def test_tables_further_below_their_project_have_its_cache(index: Path):
    (index / "data").mkdir()
    tables = (index / "output").rename(index / "data" / "tables")
    settings = index / "settings.yaml"
    text = settings.read_text("utf-8")
    settings.write_text(text.replace('base_dir: "output"', "base_dir: data/tables"), "utf-8")
    assert fits(tables)


def test_another_prompt_fits_no_reply(index: Path):
    assert fits(index / "output")
    (index / "prompts" / "extract_graph.txt").write_text("{input_text}", "utf-8")
    assert not fits(index / "output")


def test_the_stamp_follows_the_replies_and_their_questions(index: Path):
    params = GraphragParams(path=str(index))
    before = digest_with_cache(params)
    assert digest_with_cache(GraphragParams(path=str(index / "output"))) == before
    damage_reply(index)
    after = digest_with_cache(params)
    assert after != before
    break_prompt(index)
    assert digest_with_cache(params) not in (before, after)


@pytest.mark.parametrize(("answer", "number"), [("Y", 3), ("N", 2)])
def test_a_second_gleaning_follows_if_the_model_said_so(tmp_path: Path, answer: str, number: int):
    cache = GraphragCache(tmp_path, "{input_text}{entity_types}", "person", 2)
    (tmp_path / "extract_graph").mkdir()
    messages: list[Message] = [{"role": "user", "content": "Ada.person"}]
    for question, reply in ((CONTINUE, "one"), (LOOP, "two"), (CONTINUE, answer), ("", "three")):
        content = {"result": {"response": {"content": reply}}}
        path = tmp_path / "extract_graph" / name_of_reply(messages)
        path.write_text(json.dumps(content), "utf-8")
        if question != CONTINUE or reply != answer:
            # GraphRAG leaves the answer to this question out of the messages that follow.
            messages.append({"role": "assistant", "content": reply, "refusal": None})
        messages.append({"role": "user", "content": question})
    found = [reply.content for reply in cache.replies_about(" Ada. ").replies]
    assert found == ["one", "two", "three"][:number]
