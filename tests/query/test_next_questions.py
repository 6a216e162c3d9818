import pytest

from pipeline.errors import UsageError
from pipeline.query.next_questions import ask_next_questions
from tests.query.memory_stores import question, resources
from tests.query.reported import reader, reported_village


@pytest.mark.parametrize("mode", ["naive", "local", "community", "drift"])
def test_questions_lead_on_from_the_context_of_any_mode(mode: str):
    chat = reader()
    wish = question(mode=mode, conversation_history=[{"role": "user", "content": "Why?"}])
    found = ask_next_questions(wish, 3, resources(reported_village(), chat))
    assert found.questions == ("Who is Cid?",)
    system, before, asked = chat.asked[-1].messages
    assert (system["content"], before["content"]) == ("3 questions from:", "Why?")
    assert asked["content"].startswith("-----")
    assert asked["content"].endswith("\nQuestion: Who taught Bea?")
    assert found.to_json()["usage"]["calls"] == len(chat.asked)


def test_no_more_next_questions_than_asked_for_are_returned():
    chat = reader(questions=lambda _: "Here they are:\n1. Who is Cid?\n2. Who is Dov?\n- And Ada?")
    found = ask_next_questions(question(mode="naive"), 2, resources(reported_village(), chat))
    assert found.questions == ("Who is Cid?", "Who is Dov?")


def test_next_questions_without_a_chat_model_are_a_usage_error():
    with pytest.raises(UsageError, match="none is configured"):
        ask_next_questions(question(), 3, resources(reported_village()))
