"""Rules are in the system message, the text of documents in the user's message."""

import pytest

from pipeline.contract.prompts import read_prompt
from pipeline.query.answer import answer
from pipeline.query.messages import CITE, ELSEWHERE, find_form_rule
from pipeline.settings.init import shipped
from pipeline.settings.query_fields import Mode
from tests.query.memory_stores import ScriptedChat, question, resources, village
from tests.query.reported import reader, reported_village

TELLING = ("answer_chunks", "answer_graph", "answer_mixed", "community_map", "community_rate", "community_reduce",  # noqa: E501
           "drift_local", "drift_primer", "drift_reduce", "next_questions")  # fmt: skip


@pytest.mark.parametrize("mode", ["naive", "local", "mix", "graph", "community", "drift"])
def test_no_document_speaks_in_the_system_role(mode: Mode):
    chat = reader()
    answer(question(mode=mode), resources(reported_village(), chat))
    inquiries = [request.messages for request in chat.asked if request.row_id != "keywords"]
    assert inquiries
    for rules, *_, asked in inquiries:
        assert rules["role"] == "system"
        assert "-----" not in rules["content"]
        assert "-----" in asked["content"]
        assert asked["content"].rpartition("\n")[2].startswith("Question: ")


@pytest.mark.parametrize("name", TELLING)
def test_the_form_of_the_reply_is_told_once_more_after_the_data(name: str):
    prompt = read_prompt(shipped() / "prompts", name, {"language": "English"})
    assert "context" not in prompt.fields
    form = find_form_rule(prompt.text)
    assert form in prompt.text
    assert any(sign in form for sign in ("[ref:n]", "[Data: ", 'JSON object and nothing else: {"'))


def test_a_prompt_of_before_is_pointed_to_the_context_and_told_how_to_cite():
    chat = ScriptedChat(["So."])
    old = resources(village(), chat)
    before = "Cite as [n].\n\nContext (to the end of this message):\n$context"
    prompt = old.prompt("answer_chunks")
    with_old = type(old)(**{**old.__dict__, "prompt": lambda name: type(prompt)(name, before)})
    answer(question(mode="naive"), with_old)
    rules, asked = chat.asked[0].messages
    assert rules["content"].endswith(ELSEWHERE)
    assert f"\n{CITE}\nQuestion: " in asked["content"]
