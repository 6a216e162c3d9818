"""A conversation leaves room for evidence, and the search follows it."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.contract.prompts import Prompt
from pipeline.query.request import FOLLOWED, build_request
from pipeline.query.request_limits import shorten_conversation
from pipeline.query.search.keywords import Keywords, choose_search_text, find_keywords
from pipeline.settings.query_options import QuerySettings
from tests.query.memory_stores import CharacterTokens, ScriptedChat, question

PROMPT = Prompt("extract_keywords", "Keywords of: $query")
TOKENS = CharacterTokens()


def turns(*texts: str) -> list[dict[str, str]]:
    """Return questions and answers, the oldest first."""
    return [
        {"role": ("user", "assistant")[place % 2], "content": text}
        for place, text in enumerate(texts)
    ]


def test_the_oldest_turns_are_cut_and_that_is_told():
    history = turns(*(f"{place:04}" * 25 for place in range(40)))
    request, said = shorten_conversation(
        question(conversation_history=history, max_total_tokens=4_000), TOKENS
    )
    kept = [turn.content for turn in request.conversation_history]
    assert kept == [turn["content"] for turn in history[-10:]]
    assert said == ("the oldest 30 of 40 turns are left out (history_turns, history_share)",)


def test_what_has_room_is_whole_and_nothing_is_said():
    wish = question(conversation_history=turns("a", "b", "c", "d"))
    assert shorten_conversation(wish, TOKENS) == (wish, ())
    bypass = question(mode="bypass", conversation_history=turns(*["x" * 5_000] * 40))
    assert shorten_conversation(bypass, TOKENS) == (bypass, ())


@given(
    st.lists(st.integers(0, 300), max_size=12),
    st.integers(0, 5),
    st.floats(0, 1),
    st.integers(1, 3000),
    st.booleans(),
)
def test_a_conversation_is_within_its_share_and_begins_with_a_question(
    lengths: list[int], most: int, share: float, total: int, system: bool
):
    history = [
        *([{"role": "system", "content": "s"}] * system),
        *turns(*("x" * length for length in lengths)),
    ]
    wish = question(
        conversation_history=history,
        history_turns=most,
        history_share=share,
        max_total_tokens=total,
    )
    request, said = shorten_conversation(wish, TOKENS)
    kept = [turn.model_dump() for turn in request.conversation_history]
    assert kept == history[len(history) - len(kept) :]
    assert bool(said) == (len(kept) < len(history))
    assert sum(len(turn["content"]) for turn in kept) <= share * total
    assert sum(turn["role"] == "user" for turn in kept) <= most
    assert not said or not kept or kept[0]["role"] != "assistant"


def test_the_search_follows_the_questions_before():
    wish = question(
        "And where did she study?",
        conversation_history=turns("Old?", "Yes.", "Ada?", "A.", "When?"),
    )
    assert FOLLOWED == 2
    assert choose_search_text(wish, Keywords()) == "Ada?\nWhen?\nAnd where did she study?"
    assert choose_search_text(question("Where?"), Keywords()) == "Where?"
    assert find_keywords(wish, None, PROMPT).low == (wish.searched,)


def test_the_keyword_call_sees_the_conversation_and_gives_a_question_that_stands_alone():
    reply = (
        '{"high_level_keywords": ["study"], "low_level_keywords": ["Ada"], "question": "Where did'
        ' Ada study?"}'
    )
    chat = ScriptedChat([reply])
    wish = question(
        "And where did she study?", conversation_history=turns("Who is Ada?", "A\nteacher.")
    )
    keywords = find_keywords(wish, chat, PROMPT)
    (asked,) = chat.asked
    assert (
        asked.messages[0]["content"]
        == "Keywords of: And where did she study?\nConversation before it, the oldest turn first:\n"
        "user: Who is Ada?\nassistant: A teacher."
    )
    assert choose_search_text(wish, keywords) == "Where did Ada study?"


def test_a_question_without_a_conversation_is_searched_for_as_it_is():
    reply = (
        '{"high_level_keywords": ["study"], "low_level_keywords": ["Ada"], "question": "Anything'
        ' else?"}'
    )
    wish = question("Where did Ada study?")
    assert (
        choose_search_text(wish, find_keywords(wish, ScriptedChat([reply]), PROMPT))
        == "Where did Ada study?"
    )


def test_turns_and_keywords_have_no_characters_that_a_store_refuses():
    asked = build_request(
        "Where did\0 she study?",
        QuerySettings(),
        {
            "conversation_history": [{"role": "user", "content": "Who is\0 Ada\ud800?\r\n"}],
            "hl_keywords": ["study\x1b"],
            "ll_keywords": ["\0Ada"],
        },
    )
    assert asked.searched == "Who is Ada?\n\nWhere did she study?"
    assert (asked.hl_keywords, asked.ll_keywords) == (("study",), ("Ada",))
