import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pipeline.errors import ModelError, UsageError
from pipeline.models.base import ChatReply
from pipeline.query.answer import Answer, answer
from pipeline.query.evidence_answer import NOTICE
from pipeline.query.messages import CITE, PREFERRED
from pipeline.query.stream import Done, Failed, Sources, Token, stream_answer
from tests.query.memory_stores import (
    PROMPTS,
    CharacterTokens,
    ScriptedChat,
    empty_village,
    question,
    resources,
    village,
)
from tests.records import column

KEYWORDS = '{"high_level_keywords": ["teaching"], "low_level_keywords": ["Ada", "Bea"]}'
MODES = ["naive", "local", "global", "hybrid", "mix"]


def asked(*replies: ChatReply | str, **wishes: object) -> tuple[Answer, ScriptedChat]:
    chat = ScriptedChat(list(replies))
    return answer(question(**wishes), resources(village(), chat)), chat


def test_a_question_is_answered_from_the_context_it_found():
    given, chat = asked(KEYWORDS, "Ada did [ref:1].", user_prompt="Be brief.")
    system, user = chat.asked[1].messages
    assert (given.text, given.abstained, given.removed_citations) == ("Ada did [1].", False, 0)
    assert system["content"] == f"Answer as Multiple Paragraphs. {PREFERRED} Graph:"
    assert user["content"].startswith(f"{given.context.text}\n{CITE}\n")
    assert user["content"].endswith("\n> wish: Be brief.\nQuestion: Who taught Bea?")
    assert {"Ada", "Bea"} <= set(column(given.context.entities.records, "name"))
    assert given.keywords.low == ("Ada", "Bea")


def test_naive_asks_no_keywords_and_shows_passages_only():
    given, chat = asked("Ada [1].", mode="naive")
    assert [request.row_id for request in chat.asked] == ["answer"]
    assert "Passages:" in chat.asked[0].messages[0]["content"]
    assert "Entities" not in given.context.text


def test_bypass_goes_straight_to_the_model():
    given, chat = asked("I think so [7].", mode="bypass")
    assert [request.messages for request in chat.asked] == [
        ({"role": "user", "content": "Who taught Bea?"},)
    ]
    assert given.abstained is False
    assert given.context.empty


@pytest.mark.parametrize(
    ("said", "text", "removed"),
    [
        ("Ada [ref:1], Bea [ref:2][ref:1].", "Ada [1], Bea [2][1].", 0),
        ("Ada [ref:1], Bea [ref:2][ref:99], Cid [ref:0] too.", "Ada [1], Bea [2], Cid too.", 2),
        ("Ada [ref:9].", "Ada.", 1),
        ("Ada [ref:1, 2] [ref:2, 7,8].", "Ada [1][2] [2].", 2),
        (
            "A list of [x], [], in [0, 100] of [1879].",
            "A list of [x], [], in [0, 100] of (1879).",
            0,
        ),
    ],
)
def test_citations_of_references_that_were_not_shown_are_removed_and_counted(
    said: str, text: str, removed: int
):
    given, _ = asked(KEYWORDS, said)
    assert [reference.id for reference in given.references] == [1, 2, 3]
    assert (given.text, given.removed_citations) == (text, removed)


@pytest.mark.parametrize("mode", ["hybrid", "bypass"])
@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>Who [9]? Ada, I <b>think</b>.</think>\n\nAda.", "Ada."),
        ("\n< thinking >Hm.</ thinking >Ada.", "Ada."),
        ("<think>It is Ada", "It is Ada"),
        ("<b>Ada</b> <think>", "<b>Ada</b> <think>"),
        ("<", "<"),
    ],
)
def test_what_a_model_thinks_is_not_shown(mode: str, said: str, text: str):
    replies = (said,) if mode == "bypass" else (KEYWORDS, said)
    assert asked(*replies, mode=mode)[0].text == text
    *_, done = stream_answer(question(mode=mode), resources(village(), ScriptedChat(list(replies))))
    assert isinstance(done, Done)
    assert done.answer.text == text


def test_without_a_chat_model_the_evidence_is_the_answer():
    given = answer(question(), resources(village()))
    assert given.text.splitlines()[0] == NOTICE
    assert "Ada taught Bea." in given.text
    assert (given.abstained, given.removed_citations) == (False, 0)


def test_bypass_without_a_chat_model_is_a_usage_error():
    with pytest.raises(UsageError, match="none is configured; set OPENAI_API_KEY"):
        answer(question(mode="bypass"), resources(village()))


@pytest.mark.parametrize("mode", MODES)
def test_where_nothing_is_found_the_model_is_not_asked(mode: str):
    chat = ScriptedChat([KEYWORDS])
    given = answer(question(mode=mode), resources(empty_village(), chat))
    assert (given.text, given.abstained) == (PROMPTS["no_context"].strip(), True)
    assert len(chat.asked) == (mode != "naive")


def test_a_budget_that_nothing_fits_into_is_an_abstention():
    given, _ = asked(KEYWORDS, max_total_tokens=10)
    assert (given.abstention, given.text) == ("no_room", PROMPTS["no_room"].strip())
    assert given.context.chunks.dropped > 0


@pytest.mark.parametrize(
    "said",
    [
        "[NO ANSWER] Nothing is said of it.",
        "**[NO ANSWER]** Nothing is said of it.",
        "[No answer] Nothing is said of it.",
        "NO ANSWER - Nothing is said of it.",
        "NO ANSWER: Nothing is said of it.",
        "# [NO_ANSWER]\n\nNothing is said of it.",
        "`[no-answer]`: Nothing is said of it.",
        "> 【NO ANSWER】Nothing is said of it.",
        "Answer: [NO ANSWER]. Nothing is said of it.",
        "<think>Hm.</think>\n[NO ANSWER] Nothing is said of it.",
    ],
)
def test_every_way_to_say_that_there_is_no_answer_is_seen(said: str):
    given, _ = asked(said, mode="naive")
    assert (given.text, given.abstention) == ("Nothing is said of it.", "not_in_context")
    *_, done = stream_answer(question(mode="naive"), resources(village(), ScriptedChat([said])))
    assert isinstance(done, Done)
    assert (done.answer.text, done.answer.abstention) == (
        "Nothing is said of it.",
        "not_in_context",
    )


@pytest.mark.parametrize(
    "said", ["No answer was sent to Bea.", "Noah taught.", "NO ANSWERS came.", "No."]
)
def test_an_answer_that_begins_alike_is_one(said: str):
    given, _ = asked(said, mode="naive")
    assert (given.text, given.abstention) == (said, "")


def test_each_abstention_has_its_own_words():
    assert asked("[NO ANSWER]", mode="naive")[0].text == PROMPTS["not_in_context"].strip()
    assert asked(mode="naive", min_score=1.0)[0].text == PROMPTS["below_min_score"].strip()
    assert asked(mode="naive", max_total_tokens=10)[0].text == PROMPTS["no_room"].strip()
    empty = answer(question(mode="naive"), resources(empty_village(), ScriptedChat([])))
    assert empty.text == PROMPTS["no_context"].strip()


def test_a_model_that_gives_no_answer_is_an_error():
    with pytest.raises(ModelError, match=r"timeout: no answer within 5 s\); ask again"):
        asked(KEYWORDS, ChatReply("", reason="timeout", message="no answer within 5 s"))


def test_only_the_context_or_only_the_prompt_can_be_had():
    context, chat = asked(KEYWORDS, only_need_context=True)
    assert context.text == context.context.text
    prompt, _ = asked(KEYWORDS, only_need_prompt=True)
    assert prompt.text.endswith(f"{context.text}\n{CITE}\nQuestion: Who taught Bea?")
    assert [request.row_id for request in chat.asked] == ["keywords"]


@pytest.mark.parametrize("mode", MODES)
def test_the_prompt_is_within_the_total_budget(mode: str):
    for total in range(100, 2500, 150):
        replies = ["answer"] if mode == "naive" else [KEYWORDS, "answer"]
        given, _ = asked(*replies, mode=mode, max_total_tokens=total)
        assert given.abstained or given.tokens["prompt"] <= total


@pytest.mark.parametrize("mode", [*MODES, "bypass"])
def test_an_answer_is_json(mode: str):
    given, _ = asked(
        *(["Ada [1]."] if mode in ("naive", "bypass") else [KEYWORDS, "Ada [1]."]), mode=mode
    )
    content = json.loads(json.dumps(given.to_json(), allow_nan=False))
    assert list(content) == [
        "mode", "question", "keywords", "answer", "abstained", "reason", "entities",
        "relationships", "chunks",
        "references", "annotations", "cited", "tokens", "usage", "cost", "question_id",
        "most_calls", "timings_ms",
        "dropped", "removed_citations", "unsupported_citations", "cites_nothing", "notes",
    ]  # fmt: skip
    assert content["mode"] == mode
    assert set(content["tokens"]) == {"prompt", "entities", "relationships", "chunks"}
    assert {"total", "model", "retrieval"} <= set(content["timings_ms"])
    assert all(
        set(entry)
        == {"id", "chunk_id", "document_id", "source", "title", "metadata", "start", "end"}
        for entry in content["references"]
    )
    for chunk in content["chunks"]:
        assert set(chunk) == {
            "id", "document_id", "source", "start", "end", "content", "metadata", "score",
            "lane", "frequency", "place",
            "number",
        }  # fmt: skip


def test_an_answer_says_which_passages_it_cites():
    given, _ = asked(KEYWORDS, "Cid sued [ref:3], Ada taught [ref:2][ref:3].")
    assert [entry.id for entry in given.cited] == [3, 2]
    assert given.to_json()["cited"] == [3, 2]
    by_id = {entry.id: entry for entry in given.references}
    assert (by_id[3].chunk_id, by_id[3].content) == ("c3", "Cid sued Dov.")


def test_tokens_are_those_of_what_was_sent():
    given, chat = asked(KEYWORDS, "Ada.")
    sent = chat.asked[1].messages
    assert given.tokens["prompt"] == sum(
        CharacterTokens().count(message["content"]) for message in sent
    )


def test_a_stream_is_sources_then_tokens_then_the_whole():
    chat = ScriptedChat([KEYWORDS, "Ada taught Bea [ref:1][ref:9]."])
    events = list(stream_answer(question(), resources(village(), chat)))
    sources, *tokens, done = events
    assert isinstance(sources, Sources)
    assert [reference.id for reference in sources.references] == [1, 2, 3]
    assert len(tokens) > 1
    assert all(isinstance(token, Token) for token in tokens)
    assert (
        "".join(token.text for token in tokens if isinstance(token, Token)) == "Ada taught Bea [1]."
    )
    assert isinstance(done, Done)
    assert (done.answer.text, done.answer.removed_citations) == ("Ada taught Bea [1].", 1)
    assert {"total", "model", "retrieval"} <= set(done.answer.timings_ms)


@pytest.mark.parametrize("wishes", [{"only_need_context": True}, {"only_need_prompt": True}, {}])
def test_a_stream_ends_with_what_answer_gives(wishes: dict[str, bool]):
    request = question(**wishes)
    streamed = list(stream_answer(request, resources(village())))
    assert isinstance(streamed[-1], Done)
    assert streamed[-1].answer.text == answer(request, resources(village())).text
    assert len(streamed) == 3


@pytest.mark.parametrize(
    "reply", [ChatReply("", reason="empty"), ChatReply("No", reason="content_filter")]
)
def test_a_stream_without_an_answer_fails_as_an_answer_does(reply: ChatReply):
    *_, last = stream_answer(question(mode="naive"), resources(village(), ScriptedChat([reply])))
    assert isinstance(last, Failed)
    with pytest.raises(ModelError):
        answer(question(mode="naive"), resources(village(), ScriptedChat([reply])))


def test_an_answer_that_was_cut_off_says_so():
    given, _ = asked(ChatReply("Half of", finish_reason="length"), mode="naive")
    assert given.notes[0] == "the answer was cut off at the model's output limit"


def test_an_answer_that_cites_nothing_says_so():
    uncited = (
        "the answer cites nothing of what the model was shown: it may rest on something else",
    )
    assert asked("Ada did.", mode="naive")[0].notes == uncited
    assert asked("Ada did [ref:99].", mode="naive")[0].notes == uncited
    assert asked("Ada did [ref:1].", mode="naive")[0].notes == ()
    assert asked("[NO ANSWER] Nobody.", mode="naive")[0].notes == ()
    assert asked("Hello.", mode="bypass")[0].notes == ()
    assert asked("Hello.", mode="naive", system_prompt="Say hello.")[0].notes == ()


def test_a_question_that_no_prompt_holds_is_refused_before_the_search():
    stores = village()
    with pytest.raises(UsageError, match=r"2,000 tokens; shorten it"):
        answer(question("x" * 2000, max_total_tokens=1500), resources(stores))
    assert stores.reads == []


class Backwards:
    """A reranker that prefers what the search ranked last."""

    identity: Mapping[str, str] = {"model": "backwards"}

    def rerank(self, query: str, documents: Sequence[str], listener: object = None) -> list[float]:
        return [float(place) for place in range(len(documents))]

    def preflight(self) -> None: ...


class Broken(Backwards):
    def rerank(self, query: str, documents: Sequence[str], listener: object = None) -> list[float]:
        raise ModelError("models.rerank.default: no answer")


def shown(reranker: Backwards | None, fused: bool = False, **wishes: object) -> Answer:
    chosen = {"mode": "naive", **wishes}
    at_hand = replace(resources(village()), reranker=reranker, fuses_ranks=fused)
    return answer(question(**chosen), at_hand)


def test_a_reranker_chooses_among_three_times_the_text_units():
    found = column(shown(None, chunk_top_k=3).context.chunks.records, "id")
    best = shown(Backwards(), chunk_top_k=1).context.chunks.records
    assert column(best, "id") == found[-1:]
    assert column(best, "rerank_score") == [2.0]


def test_orders_are_fused_in_naive_and_mix_alone_and_other_modes_do_not_ask_the_reranker():
    plain = column(shown(None).context.chunks.records, "id")
    # The two orders are opposite: the first of each has the greatest sum of reciprocals.
    fused = column(shown(Backwards(), fused=True).context.chunks.records, "id")
    assert sorted(fused) == sorted(plain)
    assert fused[:2] == [plain[0], plain[-1]]
    for mode, asks in (("naive", True), ("mix", True), ("graph", False), ("hybrid", False)):
        notes = shown(Broken(), fused=True, mode=mode).notes
        assert any(note.startswith("not reranked") for note in notes) is asks, mode


def test_reranking_can_be_left_out_and_may_fail():
    plain = column(shown(None).context.chunks.records, "id")
    assert column(shown(Backwards(), enable_rerank=False).context.chunks.records, "id") == plain
    broken = shown(Broken())
    assert column(broken.context.chunks.records, "id") == plain
    assert broken.notes == ("not reranked: models.rerank.default: no answer",)


def test_evidence_as_json_has_the_sentence_most_likely_to_answer_in_each_form():
    asked_for = question(query="Who taught Bea?", mode="naive", only_need_context=True)
    found = answer(asked_for, resources(village()))
    likely = found.data_json()["most_likely"]
    assert "Bea" in likely["text"]
    assert found.to_json()["most_likely"] == likely
    assert "most_likely" not in found.to_json(evidence=False)
    without = answer(
        asked_for.model_copy(update={"include_references": False}), resources(village())
    )
    assert "most_likely" not in without.to_json()
