"""Selection of the stored replies that are served, and of those that are requested again."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.contract.prompts import Prompt
from pipeline.contract.schemas import TEXT_UNITS
from pipeline.models.base import ChatReply, ChatRequest, Repeats, Talk
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.text.sentences import split_in_two
from pipeline.verbs.extract_graph import ExtractParams, extract_graph
from tests.servers.openai_server import OpenAIServer, Reply

EXTRACT, GLEAN = (
    Prompt("extract", "Types: $entity_types\nText:\n$text"),
    Prompt("glean", "What else?"),
)
IVO = '("entity"<|>Ivo Brand<|>person<|>The miller.)'
TEXTS = {
    "sound": "Ivo Brand.",
    "long": "Ivo Brand sold it. Ivo Brand left.",
    "odd": "Ivo Brand, oddly.",
}


@dataclass(frozen=True)
class Again:
    """Chat model that requests the bad replies of the given rows again."""

    chat: OpenAIChat
    rows: frozenset[str]
    identity: Any = None

    def converse(
        self, talks: Any, listener: Any = None, repeats: Repeats | None = None
    ) -> list[Any]:
        return self.chat.converse(talks, listener, self.rows.__contains__)


@pytest.fixture
def chat(openai: OpenAIServer, tmp_path: Path) -> Iterator[OpenAIChat]:
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    model = OpenAIChat("m", openai.base_url, "test-key", cache, timeout=10, max_retries=0)
    yield model
    model.endpoint.client.close()
    cache.close()


def weak(messages: Any, body: Any) -> Reply:
    """Answer like a weak model: long texts are cut off, and some first replies are malformed."""
    asked = messages[0]["content"].partition("Text:\n")[2]
    if asked == TEXTS["long"]:
        return Reply(IVO, finish_reason="length")
    if asked == TEXTS["odd"] and len(messages) == 1:
        return Reply("Once upon a time.")
    return Reply(IVO)


def strong(messages: Any, body: Any) -> Reply:
    return Reply(IVO)


def extract(chat: Any, **params: Any) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the records, and the kinds of problems of the rows that are no plain success."""
    units = TEXT_UNITS.frame(
        [(id, text, 1, "doc", 0, 9, i) for i, (id, text) in enumerate(TEXTS.items())]
    )
    found, rejects = extract_graph(units, ExtractParams(**params), EXTRACT, GLEAN, chat)
    return found, dict(zip(rejects["row_id"], rejects["kind"], strict=True))


def test_a_recovered_row_is_served_without_a_call(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = weak
    found, became = extract(chat)
    assert became == {"long": "recovered", "odd": "recovered"}
    assert found["text_unit_id"].unique().tolist() == ["long", "odd", "sound"]
    assert openai.count("chat") == 1 + (1 + len(split_in_two(TEXTS["long"]))) + 2
    openai.forget()
    again, same = extract(chat)
    assert openai.requests == []
    assert again.equals(found)
    assert same == became


def test_only_the_chosen_recovered_rows_are_requested_again(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = weak
    extract(chat)
    openai.forget()
    openai.reply = strong
    found, became = extract(Again(chat, frozenset({"long", "odd"})))
    assert became == {}
    assert openai.count("chat") == 2
    assert extract(chat)[0].equals(found)
    assert openai.count("chat") == 2


def test_rows_requested_again_without_success_keep_their_known_replies(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.reply = weak
    extract(chat)
    openai.forget()
    assert extract(Again(chat, frozenset({"long"})))[1] == {"long": "recovered", "odd": "recovered"}
    assert openai.count("chat") == 1
    assert extract(chat)[1] == {"long": "recovered", "odd": "recovered"}
    assert openai.count("chat") == 1


@pytest.mark.parametrize(
    "worse",
    [
        Reply(""),
        Reply(raw=b'{"choices": [{"message": {"refusal": "Sorry."}, "finish_reason": "stop"}]}'),
        Reply("Once upon another time."),
        Reply("A bad", finish_reason="length"),
        Reply("no", status=400),
        Reply("no", status=500),
    ],
)
def test_a_worse_answer_replaces_no_usable_one(
    chat: OpenAIChat, openai: OpenAIServer, worse: Reply
):
    openai.reply = weak
    found, became = extract(chat)
    openai.forget()
    openai.reply = lambda messages, body: worse
    again, same = extract(Again(chat, frozenset({"long", "odd"})))
    assert again.equals(found)
    assert same == became == {"long": "recovered", "odd": "recovered"}
    assert openai.count("chat") == 2
    assert extract(chat)[0].equals(found)
    assert openai.count("chat") == 2
    openai.reply = strong
    assert extract(Again(chat, frozenset({"long", "odd"})))[1] == {}


def test_a_rejected_row_is_asked_once_more_by_the_next_run(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply(
        IVO if TEXTS["sound"] in messages[0]["content"] else "Once upon a time"
    )
    assert extract(chat)[1] == {"long": "row", "odd": "row"}
    assert openai.count("chat") == 5
    openai.forget()
    openai.reply = strong
    assert extract(chat)[1] == {}
    assert openai.count("chat") == 2
    openai.forget()
    assert extract(chat)[1] == {}
    assert openai.requests == []


def test_a_gleaning_that_failed_is_asked_again_alone(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply(IVO if len(messages) == 1 else "Once upon a time")
    assert set(extract(chat, gleanings=1)[1].values()) == {"record"}
    openai.forget()
    openai.reply = lambda messages, body: Reply("<|COMPLETE|>")
    assert extract(chat, gleanings=1)[1] == {}
    assert [len(request.messages) for request in openai.requests] == [3, 3, 3]


def test_a_stored_reply_that_nobody_has_read_is_checked_first(
    chat: OpenAIChat, openai: OpenAIServer
):
    """Simulate a kill between storing a reply and storing its verdict."""
    openai.reply = weak

    def killed() -> Talk[None]:
        yield [ChatRequest("long", EXTRACT_LONG)]
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        chat.converse([killed()])
    assert openai.count("chat") == 1
    assert extract(chat)[1]["long"] == "recovered"
    assert sum(TEXTS["long"] in request.messages[0]["content"] for request in openai.requests) == 1


EXTRACT_LONG = (
    {"role": "user", "content": EXTRACT.render(
        text=TEXTS["long"], entity_types=", ".join(ExtractParams().entity_types))},
)  # fmt: skip


def test_another_parser_serves_what_it_can_read(chat: OpenAIChat, openai: OpenAIServer):
    request = ChatRequest("row", ({"role": "user", "content": "a"},))
    openai.reply = lambda messages, body: Reply("words")
    strict, lax = (
        replace(request, check=lambda text: "no"),
        replace(request, check=lambda text: None),
    )
    assert chat.complete([strict])[0].message == "no"
    assert not chat.complete([strict])[0].cached
    reply: ChatReply = chat.complete([lax])[0]
    assert reply.cached
    assert reply.good
    assert chat.complete([request])[0].cached
    assert openai.count("chat") == 2
