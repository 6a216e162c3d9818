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
    rejects = read(index)["rejects"].set_index("row_id")["message"]
    assert "1 file not read, damaged or about no passage" in rejects["cache/extract_graph"]
    assert "not read" in rejects["cache/summarize_descriptions"]
    assert not any("extract_claims" in row for row in rejects.index)


def test_answers_whether_there_is_more_are_told_apart_from_damage(index: Path):
    settings = index / "settings.yaml"
    text = settings.read_text("utf-8")
    settings.write_text(text.replace("max_gleanings: 1", "max_gleanings: 2"), "utf-8")
    (index / "cache" / "extract_graph" / "other_v4").write_text("{}", "utf-8")
    message = read(index)["rejects"].set_index("row_id")["message"]["cache/extract_graph"]
    assert "1 file not read, damaged, about no passage, or an answer whether" in message


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
    cache = open_cache(index)
    assert cache is not None
    reply = cache.replies_about(BELL)[0]
    (cache.folder / "extract_graph" / reply.name).write_text('{"result": ', "utf-8")


def test_a_damaged_reply_is_none(index: Path):
    damage_reply(index)
    found = read(index)
    assert found["rejects"].set_index("row_id").loc["bell.txt", "reason"] == "unfinished"
    message = found["rejects"].set_index("row_id").loc["cache/extract_graph", "message"]
    # The reply to the further question, which is made of the damaged one, is not found either.
    assert "2 files not read, damaged" in str(message)


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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (forget_settings, "cache/extract_graph, as there is no settings.yaml beside it"),
        (forget_prompt, "cache/extract_graph, as extract_graph.prompt of settings.yaml names no"),
        (keep_cache_in_sqlite, "as only one of type json is read"),
        (remove_cache, ""),
    ],
)
def test_a_cache_that_is_not_opened_is_told(
    index: Path, change: Callable[[Path], None], reason: str
):
    change(index)
    assert open_cache(index) is None
    found = explain_closed_cache(index / "output")
    assert reason in found
    assert bool(found) == bool(reason)


def fits(folder: Path) -> bool:
    cache = open_cache(folder)
    assert cache
    return has_replies(cache, folder)


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
    found = [reply.content for reply in cache.replies_about(" Ada. ")]
    assert found == ["one", "two", "three"][:number]
