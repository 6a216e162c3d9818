import pytest
from pydantic import ValidationError

from pipeline.contract.prompts import Prompt
from pipeline.models.base import ChatReply
from pipeline.query.request import QueryRequest
from pipeline.query.search.keywords import SHORT_QUESTION, Keywords, find_keywords
from tests.query.memory_stores import ScriptedChat, question

PROMPT = Prompt("extract_keywords", "Keywords of: $query")
LONG = "What, when all is said and done, is to be thought of it?"


def find(reply: ChatReply | str, text: str = "Who taught Bea?", **given: object) -> Keywords:
    return find_keywords(question(text, **given), ScriptedChat([reply]), PROMPT)


def test_the_models_two_lists_are_taken():
    reply = (
        '```json\n{"high_level_keywords": ["teaching"], "low_level_keywords": ["Bea",'
        ' "school"]}\n```'
    )
    keywords = find(reply)
    assert (keywords.high, keywords.low, keywords.notes) == (("teaching",), ("Bea", "school"), ())
    assert keywords.reply == ChatReply(reply)


def test_the_question_is_put_into_the_prompt_as_it_is():
    chat = ScriptedChat(['{"high_level_keywords": [], "low_level_keywords": []}'])
    find_keywords(question("{a} $query %s?"), chat, PROMPT)
    (request,) = chat.asked
    assert request.messages == ({"role": "user", "content": "Keywords of: {a} $query %s?"},)


@pytest.mark.parametrize("given", [{"hl_keywords": ("a",)}, {"ll_keywords": ("b",)}])
def test_the_callers_keywords_spare_the_call(given: dict[str, tuple[str, ...]]):
    chat = ScriptedChat([])
    keywords = find_keywords(question(**given), chat, PROMPT)
    assert (keywords.high, keywords.low) == (
        given.get("hl_keywords", ()),
        given.get("ll_keywords", ()),
    )
    assert chat.asked == []


def test_without_a_model_the_question_is_both():
    keywords = find_keywords(question("Who taught Bea?"), None, PROMPT)
    assert keywords == Keywords(("Who taught Bea?",), ("Who taught Bea?",))


@pytest.mark.parametrize(
    "reply", [ChatReply("", reason="timeout", message="no answer"), "I cannot say.", ""]
)
def test_where_the_model_fails_the_question_is_both_and_it_is_told(reply: ChatReply | str):
    keywords = find(reply)
    assert (keywords.high, keywords.low) == (("Who taught Bea?",), ("Who taught Bea?",))
    assert keywords.notes[0].startswith(
        "no keywords from the chat model, the question is searched for ("
    )


def test_empty_lists_make_a_short_question_its_own_keyword():
    reply = '{"high_level_keywords": [], "low_level_keywords": []}'
    assert find(reply, "Bea?").low == ("Bea?",)
    assert find(reply, "Bea?").notes
    assert find(reply, "Bea?", mode="global").low == ()
    assert len(LONG) >= SHORT_QUESTION
    assert find(reply, LONG).low == ()


@pytest.mark.parametrize(
    "request_",
    [
        {"query": ""},
        {"query": "?!"},
        {"query": "qqq", "mode": "best"},
        {"query": "qqq", "top_k": 0},
        {"query": "qqq", "topk": 1},
        {"query": "qqq", "min_score": 1.1},
        {"query": "qqq", "kg_chunk_pick_method": "BEST"},
        {"query": "qqq", "conversation_history": [{"content": "no role"}]},
        {"query": "qqq", "conversation_history": [{"role": "tool", "content": ""}]},
        {"query": "qqq", "where": {"year": {"~": 1}}},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(request_: dict[str, object]):
    with pytest.raises(ValidationError):
        QueryRequest.model_validate(request_)
