"""Detection of prompts that a server cut silently, and of counts that only leave out a prefix
cache."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.contract.prompts import Prompt
from pipeline.contract.schemas import TEXT_UNITS
from pipeline.engine.bill.counting_models import Tally
from pipeline.models.base import ChatReply, ChatRequest, Talk
from pipeline.models.cache.cut_prompts import tokens_of_cut_text
from pipeline.models.cache.lookup import completion_key
from pipeline.models.cache.replies import Completion, ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.purge.recorded_steps import Missing, SilentChat
from pipeline.text.sentences import split_in_two
from pipeline.text.tokens import DEFAULT_ENCODING, tokenizer
from pipeline.verbs.extract_graph import ExtractParams, extract_graph
from tests.servers.openai_prefixes import PrefixCache
from tests.servers.openai_server import OpenAIServer, Reply
from tests.servers.openai_shapes import Counting

TOKENIZER = tokenizer(DEFAULT_ENCODING)
INSTRUCTIONS = "Name every person, place and thing of the text. " * 45
EXTRACT = Prompt("extract", f"{INSTRUCTIONS}\nTypes: $entity_types\nText:\n$text")
GLEAN = Prompt("glean", "What else?")
GRAPH = '("entity"<|>Ivo Brand<|>person<|>The miller.)##\n<|COMPLETE|>'
CUT_GRAPH = '("entity"<|>Ivo Brand<|>person<|>The miller.)##\n("entity"<|>Ivo'
UNITS = [128, 308, 608, 1808]
"""Sizes of text units in tokens."""


@pytest.fixture
def chat(openai: OpenAIServer, tmp_path: Path) -> Iterator[OpenAIChat]:
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    openai.reply = lambda messages, body: Reply(GRAPH)
    model = OpenAIChat(
        "m", openai.base_url, "test-key", cache, timeout=10, max_retries=0, concurrency=1
    )
    yield model
    model.endpoint.client.close()
    cache.close()


def text_of(tokens: int, first_word: str = "So") -> str:
    """Return sentences with at least this many tokens, and at most one sentence more."""
    sentences = [f"{first_word} it began."]
    while TOKENIZER.count(" ".join(sentences)) < tokens:
        sentences.append(f"Ivo Brand sold mill number {len(sentences)} to the miller.")
    return " ".join(sentences)


def extract(chat: OpenAIChat, *texts: str) -> dict[str, tuple[str, str]]:
    """Return (kind, reason) of each text unit whose extraction is not a plain success."""
    units = TEXT_UNITS.frame([(f"u{i}", text, 1, "doc", 0, 9, i) for i, text in enumerate(texts)])
    rejects: pd.DataFrame = extract_graph(units, ExtractParams(), EXTRACT, GLEAN, chat)[1]
    return {
        row: (kind, why)
        for row, kind, why in rejects[["row_id", "kind", "reason"]].itertuples(index=False)
    }


@pytest.mark.parametrize("tokens", UNITS)
def test_a_server_that_counts_only_uncached_tokens_is_asked_once_and_never_again(
    chat: OpenAIChat, openai: OpenAIServer, tokens: int
):
    openai.prefix_cache, openai.counting = PrefixCache(), Counting(TOKENIZER.count)
    assert extract(chat, text_of(60, "Before")) == {}
    openai.forget()
    text = text_of(tokens)
    assert extract(chat, text) == {}
    [request] = openai.requests
    assert abs(request.prompt_tokens - tokens) < 20
    openai.forget()
    assert extract(chat, text) == {}
    assert openai.requests == []


@pytest.mark.parametrize("tokens", UNITS)
def test_a_cached_reply_whose_count_lacks_the_instructions_leads_to_no_call(
    chat: OpenAIChat, openai: OpenAIServer, tokens: int
):
    """Simulate a reply that an earlier version paid for and counted as whole."""
    text = text_of(tokens)
    extract(chat, text)
    [request] = openai.requests
    key = completion_key(chat.identity, ChatRequest("", tuple(request.messages)))
    chat.cache.store_completion(key, "m", Completion(GRAPH, "stop", TOKENIZER.count(text), 20))
    chat.cache.flag({key: True})
    openai.forget()
    assert extract(chat, text) == {}
    assert openai.requests == []


def test_the_first_half_of_a_text_in_the_prefix_cache_is_not_taken_for_cut(
    chat: OpenAIChat, openai: OpenAIServer
):
    text = text_of(1208)

    def cut_reply_to_the_whole(messages: Any, body: Mapping[str, Any]) -> Reply:
        return Reply(CUT_GRAPH if text in messages[0]["content"] else GRAPH)

    openai.prefix_cache, openai.reply = PrefixCache(), cut_reply_to_the_whole
    assert extract(chat, text) == {"u0": ("recovered", "truncated")}
    first_half = next(
        one for one in openai.requests if one.messages[0]["content"].endswith(split_in_two(text)[0])
    )
    assert first_half.prompt_tokens < 20
    openai.forget()
    assert extract(chat, text) == {"u0": ("recovered", "truncated")}
    assert openai.requests == []


def test_a_text_sent_again_after_a_failure_is_not_taken_for_cut(
    chat: OpenAIChat, openai: OpenAIServer
):
    text = text_of(608)
    openai.prefix_cache = PrefixCache()
    openai.script("chat", [Reply("no", status=500)])
    assert extract(chat, text)["u0"][0] == "row"
    assert extract(chat, text) == {}
    assert openai.requests[-1].prompt_tokens == 1


def test_a_text_of_3000_tokens_that_is_cut_to_a_window_of_2048_is_found(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.context_tokens = 2048
    assert extract(chat, text_of(3000)) == {"u0": ("recovered", "unread")}
    assert openai.requests[0].prompt_tokens <= 2048
    assert openai.count("chat") == 3


@pytest.mark.parametrize(
    ("tokens", "reported", "is_cut"),
    [
        (3000, 2047, True),  # Ollama fills the window with the end of the prompt
        (3000, 1452, True),  # llama.cpp drops blocks of half a window
        (3000, 2150, False),
        (
            1808,
            1390,
            False,
        ),  # a tokenizer that is 1.3 times as economical, without the instructions
        (608, 430, False),  # too few tokens are missing
        (608, 1, False),  # the prefix cache held the whole prompt
        (608, 0, False),  # no count
    ],
)
def test_only_a_count_far_below_the_tokens_of_the_text_is_a_cut(
    tokens: int, reported: int, is_cut: bool
):
    text = text_of(tokens)
    expected = TOKENIZER.count(text) if is_cut else None
    assert tokens_of_cut_text(text, reported) == expected


def test_without_a_text_no_prompt_is_taken_for_cut():
    assert tokens_of_cut_text("", 300) is None


@pytest.mark.parametrize("reported", [300, 1900])
def test_a_purge_judges_a_stored_reply_as_a_run_does(
    chat: OpenAIChat, openai: OpenAIServer, reported: int
):
    text = text_of(1808)
    request = ChatRequest(
        "row", ({"role": "user", "content": text},), text=text, check=lambda reply: None
    )
    key = completion_key(chat.identity, request)
    chat.cache.store_completion(key, "m", Completion("fine", "stop", reported, 1))

    def talk() -> Talk[ChatReply]:
        (reply,) = yield (request,)
        return reply

    purge = SilentChat(chat.identity, chat.cache, Tally(TOKENIZER), Missing())
    [judged_by_purge] = purge.converse([talk()])
    [judged_by_run] = chat.converse([talk()])
    assert judged_by_purge == judged_by_run
    assert judged_by_purge.prompt_cut == (reported == 300)
    assert openai.requests == []
