"""Every reply that an earlier version paid for is found, whichever form its request had."""

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pipeline.models.parse.graph_format import ASK_FOR_GRAPH_JSON
from pipeline.settings.init import shipped
from tests.servers.openai_server import OpenAIServer
from tests.verbs.paid_extractions import ARCHIVE, FORMATS, as_rows, chat_model, extract, reply


def unpacked(folder: Path) -> Path:
    """Unpack the earlier cache, the earlier prompts, and what came of them."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def paid(tmp_path: Path) -> Path:
    return unpacked(tmp_path)


def expected_of(paid: Path, format: str) -> dict[str, Any]:
    return json.loads((paid / "expected.json").read_text(encoding="utf-8"))[format]


def flags(paid: Path) -> dict[str, int]:
    with closing(sqlite3.connect(paid / "cache.sqlite")) as cache:
        return dict(cache.execute("SELECT key, valid FROM completions"))


def records(rows: list[dict[str, Any]]) -> list[str]:
    """Return what was extracted, whatever its order: what a cut reply still holds may come before
    its halves. The earlier version had no properties, so there is none."""
    unordered = [{**row, "order": 0} for row in rows]
    assert not any(row.pop("attributes", None) for row in unordered)
    return sorted(json.dumps(row, sort_keys=True) for row in unordered)


def reasons(rows: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Return what was rejected or recovered and why; messages may be worded anew."""
    return {(row["row_id"], row["kind"], row["reason"]) for row in rows}


@pytest.mark.parametrize("prompts", ["earlier", "shipped"])
@pytest.mark.parametrize("format", FORMATS)
def test_no_reply_of_an_earlier_version_is_asked_again(
    paid: Path, openai: OpenAIServer, format: str, prompts: str
):
    """Check openings, a gleaning, a repair and two halves, with old and present prompt files."""
    folder = paid / "prompts" if prompts == "earlier" else shipped() / "prompts"
    before = flags(paid)
    with chat_model(openai.base_url, paid / "cache.sqlite") as chat:
        extractions, rejects = extract(chat, folder, format=format)
    assert openai.count("chat") == 0
    expected = expected_of(paid, format)
    assert records(as_rows(extractions)) == records(expected["extractions"])
    assert reasons(as_rows(rejects)) == reasons(expected["rejects"])
    assert flags(paid) == before


def test_a_row_that_is_asked_again_is_asked_in_the_present_form(paid: Path, openai: OpenAIServer):
    openai.reply = reply
    with chat_model(openai.base_url, paid / "cache.sqlite") as chat:
        again = Again(chat, {"odd"})
        extractions, _ = extract(again, shipped() / "prompts", format="json")
    asked = openai.requests[0].body["messages"]
    assert ASK_FOR_GRAPH_JSON not in asked
    assert len(asked) == 1
    assert records(as_rows(extractions)) == records(expected_of(paid, "json")["extractions"])


def test_an_unusable_earlier_reply_is_asked_for_again_in_the_present_form(
    paid: Path, openai: OpenAIServer
):
    with closing(sqlite3.connect(paid / "cache.sqlite")) as cache, cache:
        cache.execute("UPDATE completions SET valid = 0 WHERE text LIKE 'Once upon%'")
    with chat_model(openai.base_url, paid / "cache.sqlite") as chat:
        _, rejects = extract(chat, shipped() / "prompts", format="json")
    assert [len(request.body["messages"]) for request in openai.requests][:1] == [1]
    assert "odd" not in set(rejects["row_id"])


class Again:
    """A chat model with rows that are to be asked anew."""

    def __init__(self, chat: Any, rows: set[str]):
        self.chat, self.rows, self.identity = chat, rows, chat.identity

    def converse(self, talks: Any, listener: Any = None, repeats: Any = None) -> list[Any]:
        return self.chat.converse(talks, listener, self.rows.__contains__)
