from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.usage.run_budget import Meter, MeteredChat, MeteredEmbedding
from pipeline.models.base import ChatModel, ChatRequest, EmbeddingModel, Usage
from pipeline.models.here.builtin import TEXTS_AT_ONCE, BuiltinEmbedding
from tests.engine.small_project import NoEmbedding, ScriptedChat


def usage(cached: bool, cost: float | None) -> Usage:
    return Usage("row", "model", 10, 2, cached, 0.1, calls=0 if cached else 1, cost=cost)


@given(st.lists(st.booleans()))
def test_a_meter_counts_what_was_paid_for(cached: list[bool]):
    meter = Meter("describe", lambda done, expected: None)
    for known in cached:
        meter.ended(usage(known, 0.0 if known else 0.25))
    paid = cached.count(False)
    assert (meter.calls, meter.cached_calls) == (paid, len(cached) - paid)
    assert (meter.input_tokens, meter.output_tokens, meter.cost) == (
        10 * paid,
        2 * paid,
        0.25 * paid,
    )


def test_a_cost_is_unknown_as_soon_as_one_price_is():
    meter = Meter("describe", lambda done, expected: None)
    meter.ended(usage(cached=False, cost=0.25))
    meter.ended(usage(cached=False, cost=None))
    assert meter.cost is None


def test_a_metered_model_is_the_model_and_counts_its_calls():
    meter = Meter("describe", lambda done, expected: None)
    chat = MeteredChat(ScriptedChat(), meter)
    assert isinstance(chat, ChatModel)
    assert chat.identity == ScriptedChat().identity
    requests = [
        ChatRequest("row", ({"role": "user", "content": text},)) for text in ("hello", "hullo")
    ]
    replies = chat.complete(requests)
    assert [reply.text for reply in replies] == ["hello", "hullo"]
    assert (meter.calls, meter.input_tokens, meter.output_tokens, meter.cost) == (2, 20, 4, 1.0)
    assert (meter.done, meter.expected) == (2, 2)
    embedding = MeteredEmbedding(NoEmbedding(), meter)
    assert isinstance(embedding, EmbeddingModel)
    assert not isinstance(embedding, ChatModel)
    assert embedding.embed(["a", "b"]).shape == (2, 2)


def test_embedding_says_how_many_texts_are_done_while_it_goes_on():
    seen: list[tuple[int, int]] = []
    embedding = MeteredEmbedding(
        BuiltinEmbedding(), Meter("embed", lambda done, expected: seen.append((done, expected)))
    )
    embedding.embed(["", *(f"text {number}" for number in range(2 * TEXTS_AT_ONCE))])
    everything = 2 * TEXTS_AT_ONCE + 1
    assert seen == [
        (0, everything),
        (TEXTS_AT_ONCE, everything),
        (2 * TEXTS_AT_ONCE, everything),
        (everything,) * 2,
    ]
