import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ModelError, NothingLoadedError
from pipeline.models.base import ChatReply
from pipeline.query.answer import answer
from pipeline.query.evidence_answer import NOTICE
from pipeline.query.stream import Done, Sources, Token, stream_answer
from tests.query.memory_stores import PROMPTS, ScriptedChat, question, resources, village
from tests.query.reported import many_reports, points, reader, reported_village, rows_of
from tests.records import column
from tests.sizes import size

COMMUNITY = {"mode": "community"}
WINDOW = """-----Reports-----
```csv
id,title,rating,content
2,Visit,5,"Cid met Bea, then sued Dov."
1,Lesson,5,Ada taught Bea for years.
3,Court,5,Dov was sued by Cid.
```
"""
POINTS = """-----Points-----
```csv
score,point
30,Row 3 [Data: Reports (3)].
20,Row 2 [Data: Reports (2)].
10,Row 1 [Data: Reports (1)].
```
"""


def test_points_of_all_reports_become_an_answer():
    chat = reader()
    given = answer(question(**COMMUNITY), resources(reported_village(), chat))
    rules = [request.messages[0]["content"] for request in chat.asked]
    assert rules == ["Points of:", "Answer as Multiple Paragraphs.  Points:"]
    shown = [request.messages[-1]["content"] for request in chat.asked]
    assert shown == [f"{WINDOW}\nQuestion: Who taught Bea?", f"{POINTS}\nQuestion: Who taught Bea?"]
    assert given.context.text == WINDOW
    assert given.text == "So it is [Data: Reports (1)]. (1)"
    assert (given.removed_citations, given.abstained, given.most_calls) == (3 + 1, False, 3)
    assert (given.usage["calls"], given.notes) == (2, ())


def test_level_0_is_the_coarsest():
    found = answer(
        question(**COMMUNITY, community_level=0, only_need_context=True),
        resources(reported_village()),
    )
    assert column(found.context.reports.records, "title") == ["School", "Court"]


def test_a_stream_says_the_same_and_its_sources_come_before_any_call():
    chat = reader()
    events = stream_answer(question(**COMMUNITY), resources(reported_village(), chat))
    sources = next(events)
    assert isinstance(sources, Sources)
    assert (len(sources.context.reports.records), sources.most_calls, chat.asked) == (3, 3, [])
    *tokens, done = events
    assert isinstance(done, Done)
    whole = answer(question(**COMMUNITY), resources(reported_village(), reader()))
    assert (
        "".join(token.text for token in tokens if isinstance(token, Token))
        == done.answer.text
        == whole.text
    )
    assert done.answer.removed_citations == whole.removed_citations


@pytest.mark.parametrize(
    "reply",
    [
        '{"points": []}',
        '{"points": [{"description": "Nothing is said of it.", "score": 0}]}',
        "I do not know.",
    ],
)
def test_without_a_point_that_helps_there_is_no_answer(reply: str):
    chat = ScriptedChat([reply, reply])
    given = answer(question(**COMMUNITY), resources(reported_village(), chat))
    assert (given.text, given.abstention) == (PROMPTS["not_in_context"].strip(), "not_in_context")
    assert len(chat.asked) == (1 if "points" in reply else 2) <= given.most_calls


def test_a_reply_that_cannot_be_read_is_asked_for_once_more():
    chat = ScriptedChat(["I do not know.", points(["1"]), "So [Data: Reports (1)]."])
    given = answer(question(**COMMUNITY), resources(reported_village(), chat))
    assert (given.text, given.notes, given.usage["calls"]) == ("So [Data: Reports (1)].", (), 3)
    again = chat.asked[1].messages
    assert [message["role"] for message in again] == ["system", "user", "assistant", "user"]
    assert "could not be read" in again[-1]["content"]


def test_nothing_is_asked_twice_beyond_max_calls():
    chat = ScriptedChat(["I do not know."])
    given = answer(question(**COMMUNITY, max_calls=2), resources(reported_village(), chat))
    assert (given.abstention, len(chat.asked), given.most_calls) == ("not_in_context", 1, 2)


def test_a_window_that_was_not_read_is_told_and_all_of_them_are_an_error():
    store, wish = many_reports(12), question(**COMMUNITY, max_map_tokens=600)
    replies: list[ChatReply | str] = [ChatReply("", reason="timeout", message="none")]
    given = answer(wish, resources(store, ScriptedChat([*replies, *[points(["1"])] * 2, "So."])))
    assert (
        given.notes[0]
        == "1 of 3 windows of reports were not, or not wholly, read by the model (timeout)"
    )
    with pytest.raises(ModelError, match="timeout"):
        answer(wish, resources(store, ScriptedChat(replies * 3)))


def test_only_the_context_or_the_prompts_take_no_call():
    chat = reader()
    context = answer(
        question(**COMMUNITY, only_need_context=True), resources(reported_village(), chat)
    )
    prompt = answer(
        question(**COMMUNITY, only_need_prompt=True), resources(reported_village(), chat)
    )
    assert (context.text, context.most_calls) == (WINDOW, 3)
    assert prompt.text == f"Points of:\n\n{WINDOW}\nQuestion: Who taught Bea?"
    assert chat.asked == []


def test_without_a_chat_model_the_reports_are_the_answer():
    given = answer(question(**COMMUNITY), resources(reported_village()))
    assert given.text.splitlines()[0] == NOTICE
    assert "Report 1: Lesson. Lesson in short." in given.text


@pytest.mark.parametrize("mode", ["community", "drift"])
@pytest.mark.parametrize("dynamic", [True, False])
def test_without_reports_it_says_what_to_run(mode: str, dynamic: bool):
    wish = question(mode=mode, dynamic_community_selection=dynamic)
    with pytest.raises(
        NothingLoadedError,
        match="no community reports in this workspace; run the workflow 'communiti",
    ):
        answer(wish, resources(village(), reader()))


def test_a_report_that_tells_of_other_documents_too_is_not_shown():
    wish = question(**COMMUNITY, where={"id": "doc-2"})
    given = answer(wish, resources(reported_village(), reader()))
    assert column(given.context.reports.records, "title") == ["Visit", "Court"]
    nowhere = answer(
        question(**COMMUNITY, where={"id": "doc-3"}), resources(reported_village(), reader())
    )
    assert nowhere.abstention == "nothing_found"


def test_history_is_seen_by_every_call():
    chat = reader()
    history = [{"role": "user", "content": "Tell me of Ada."}]
    answer(question(**COMMUNITY, conversation_history=history), resources(reported_village(), chat))
    assert all(request.messages[1]["content"] == "Tell me of Ada." for request in chat.asked)


def test_the_model_may_add_its_own_knowledge_where_it_is_asked_to():
    chat = reader(answer=lambda _: "Bea is a name [LLM: verify].")
    given = answer(
        question(**COMMUNITY, general_knowledge=True), resources(reported_village(), chat)
    )
    assert given.text == "Bea is a name [LLM: verify]."
    assert (
        chat.asked[-1].messages[0]["content"].startswith("You may add [LLM: verify].\nAnswer as ")
    )


@settings(max_examples=size(20, 200))
@given(
    number=st.integers(1, 60),
    map_tokens=st.integers(1, 3000),
    total=st.integers(150, 4000),
    calls=st.integers(2, 9),
    dynamic=st.booleans(),
)
def test_no_budget_is_exceeded(number: int, map_tokens: int, total: int, calls: int, dynamic: bool):
    chat = reader()
    given = answer(
        question(
            **COMMUNITY, max_map_tokens=map_tokens, max_total_tokens=total, max_calls=calls,
            dynamic_community_selection=dynamic,
        ),
        resources(many_reports(number), chat),
    )  # fmt: skip
    prompts = [
        sum(len(message["content"]) for message in request.messages) for request in chat.asked
    ]
    assert max(prompts, default=0) <= total
    assert len(prompts) <= given.most_calls <= calls
    assert all(len(window) <= map_tokens for window in given.context.windows)
    shown = [row for window in given.context.windows for row in rows_of(window)]
    assert len(shown) == len(set(shown)) == number - given.context.reports.dropped
    assert given.abstained == ("answer" not in chat.asked_for)


def rating(**rated: int):
    """Rate a report by the first words of its text; other reports get 0."""
    titles = {"Court": 0, "Lesson": 0, "School": 0, "Visit": 0} | rated

    def reply(request_text: str) -> str:
        rows = [line.split(",") for line in request_text.splitlines() if line[:1].isdigit()]
        return json.dumps(
            {"ratings": [{"id": int(row[0]), "rating": titles[row[1]]} for row in rows]}
        )

    return reply


class RatingChat(ScriptedChat):
    def __init__(self, **rated: int):
        super().__init__([])
        self.reply = rating(**rated)

    def _next(self, request):
        self.asked.append(request)
        text = request.messages[-1]["content"]
        ways = {
            "rate": self.reply,
            "map": lambda text: points(rows_of(text)),
            "answer": lambda _: "So.",
        }
        return ChatReply(ways[request.row_id](text))


@pytest.mark.parametrize(
    ("rated", "level", "chosen", "calls"),
    [
        ({"School": 4, "Lesson": 5}, 2, ["Lesson"], ["rate", "rate", "map", "answer"]),
        ({"School": 4}, 2, ["School"], ["rate", "rate", "map", "answer"]),
        ({"School": 4, "Lesson": 5}, 0, ["School"], ["rate", "map", "answer"]),
        ({"Court": 1, "Lesson": 5}, 2, ["Court"], ["rate", "map", "answer"]),
        ({}, 2, [], ["rate"]),
    ],
)
def test_dynamic_selection_descends_only_below_what_is_relevant(
    rated, level: int, chosen: list[str], calls: list[str]
):
    chat = RatingChat(**rated)
    wish = question(**COMMUNITY, dynamic_community_selection=True, community_level=level)
    given = answer(wish, resources(reported_village(), chat))
    assert column(given.context.reports.records, "title") == chosen
    assert chat.asked_for == calls
    assert given.usage["calls"] == len(calls) <= given.most_calls == 100


def test_what_no_call_is_left_to_rate_counts_as_relevant():
    chat = RatingChat(Lesson=5)
    wish = question(**COMMUNITY, dynamic_community_selection=True, max_calls=2)
    given = answer(wish, resources(reported_village(), chat))
    assert column(given.context.reports.records, "title") == ["School", "Court"]
    assert given.notes[0] == "max_calls left 2 reports without a rating"
    assert chat.asked_for == ["map", "answer"]
