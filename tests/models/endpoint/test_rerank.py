"""Rerankers against a real server: the protocols, their variants, and failures."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from pipeline.errors import AuthError, GraphmillError, ModelError, NoSuchModelError, SettingsError
from pipeline.models.base import IdleListener, Reranker, Usage
from pipeline.models.endpoint.rerank import EndpointReranker
from pipeline.runs.adapters import reranker
from pipeline.settings.schema import Settings
from pipeline.text.tokens import tokenizer
from tests.servers.rerank_server import RerankReply, RerankServer, rerank_server

KEY = "sk-canary-77"
QUESTION = "who counted the ships"
DOCUMENTS = ["rye bread", "the keeper counted the ships", "ships of the line", "", "who counted"]
SCORES = [0.0, 0.75, 0.5, 0.0, 0.5]
NOW = {"retry-after-ms": "1"}


@pytest.fixture
def server() -> Iterator[RerankServer]:
    with rerank_server(KEY) as server:
        yield server


@pytest.fixture
def model(server: RerankServer) -> Iterator[EndpointReranker]:
    model = EndpointReranker("best", server.base_url, KEY, timeout=5, max_retries=2)
    yield model
    model.endpoint.client.close()


def results(*entries: tuple[object, object], name: str = "relevance_score") -> RerankReply:
    return RerankReply(
        raw=json.dumps({"results": [{"index": index, name: score} for index, score in entries]})
    )


def test_each_document_has_its_relevance_in_the_order_of_the_documents(
    model: EndpointReranker, server: RerankServer
):
    assert isinstance(model, Reranker)
    assert model.rerank(QUESTION, DOCUMENTS) == SCORES
    (request,) = server.requests
    assert request.body == {"model": "best", "query": QUESTION, "documents": DOCUMENTS, "top_n": 5}
    assert model.rerank(QUESTION, []) == []
    assert len(server.requests) == 1


def test_the_address_may_end_with_rerank(model: EndpointReranker, server: RerankServer):
    whole = replace(model, base_url=f"{server.base_url}/rerank/")
    assert whole.rerank(QUESTION, DOCUMENTS) == SCORES
    whole.endpoint.client.close()


def test_many_documents_are_asked_in_batches(model: EndpointReranker, server: RerankServer):
    documents = [f"ship number {number} who" if number % 7 == 3 else "rye" for number in range(45)]
    small = replace(model, batch_size=10)
    assert small.rerank("who", documents) == [float(number % 7 == 3) for number in range(45)]
    assert sorted(len(request.texts) for request in server.requests) == [5, 10, 10, 10, 10]
    small.endpoint.client.close()


def test_text_embeddings_inference_is_asked_in_its_own_protocol():
    with rerank_server(KEY, "tei") as server:
        model = EndpointReranker(base_url=server.base_url, api_key=KEY)
        assert model.rerank(QUESTION, DOCUMENTS) == SCORES
        assert model.rerank(QUESTION, DOCUMENTS) == SCORES
        assert [sorted(request.body) for request in server.requests] == [
            ["documents", "query", "top_n"], *[["query", "texts", "truncate"]] * 2,
        ]  # fmt: skip
        model.endpoint.client.close()


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (results((2, 3), (0, -1.5), (1, 2)), [-1.5, 2.0, 3.0]),
        (results((2, 0.25), (0, 0.5), (1, 1), name="score"), [0.5, 1.0, 0.25]),
        (RerankReply(raw='[{"index": 1, "score": 1}, {"index": 0, "score": 0.5}, {"index": 2, "score": 0}]'),  # noqa: E501
         [0.5, 1.0, 0.0]),
        (RerankReply(raw='{"data": [{"index": 1, "relevance_score": 1}, {"index": 0, "score": 0}, '
                         '{"index": 2, "score": 3}]}'),
         [0.0, 1.0, 3.0]),
    ],
)  # fmt: skip
def test_answers_may_come_in_any_order_and_form(
    model: EndpointReranker, server: RerankServer, told: RerankReply, expected: list[float]
):
    server.script.append(told)
    assert model.rerank("q", ["a", "b", "c"]) == expected


def test_documents_without_a_readable_score_come_last(
    model: EndpointReranker, server: RerankServer
):
    server.keep = 2
    scores = model.rerank(QUESTION, DOCUMENTS)
    assert scores[1] == 0.75
    assert max(scores[0], scores[2], scores[3]) < scores[4] == 0.5
    server.script.append(
        results((0, -4), (1, float("nan")), (2, None), (9, 1), (-1, 1), ("3", 1), (True, 1))
    )
    scores = model.rerank(QUESTION, DOCUMENTS)
    assert scores[0] == -4
    assert len(scores) == 5
    assert max(scores[1:]) < -4


def test_of_two_batches_what_one_leaves_out_is_below_what_the_other_names(
    model: EndpointReranker, server: RerankServer
):
    server.script.extend([results((0, 5)), results((0, -2), (1, 1))])
    in_turn = replace(model, batch_size=2, concurrency=1)
    scores = in_turn.rerank("q", list("abcd"))
    assert [scores[0], *scores[2:]] == [5, -2, 1]
    assert scores[1] < -2
    in_turn.endpoint.client.close()


@pytest.mark.parametrize(
    "raw", ["{}", "[]", '{"results": []}', '{"results": 7}', '"no"', "<html>", "7"]
)
def test_an_answer_without_scores_is_an_error(
    model: EndpointReranker, server: RerankServer, raw: str
):
    server.script.extend([RerankReply(raw=raw)] * 3)
    impatient = replace(model, max_retries=0)
    with pytest.raises(ModelError, match=r"models\.rerank\.default: .*; "):
        impatient.rerank("q", ["a"])
    impatient.endpoint.client.close()


def test_a_document_is_cut_and_cut_again_where_the_endpoint_finds_it_too_long(
    model: EndpointReranker, server: RerankServer
):
    server.longest = 600
    assert replace(model, max_characters=500).rerank(QUESTION, [f"{QUESTION} " * 99, "rye"]) == [
        1.0,
        0.0,
    ]
    assert [len(text) for text in server.requests[0].texts] == [500, 3]
    assert model.rerank(QUESTION, [f"{QUESTION} " * 99, "rye"]) == [1.0, 0.0]
    assert [max(map(len, request.texts)) for request in server.requests[1:]] == [2178, 1089, 544]
    server.longest = 10
    with pytest.raises(
        ModelError, match=r"HTTP 413: the input is too long; lower batch_size or max_characters"
    ):
        model.rerank(QUESTION, ["x" * 150])


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_transient_failure_is_retried(model: EndpointReranker, server: RerankServer, status: int):
    server.script.extend([RerankReply(status, headers=NOW)] * 2)
    assert model.rerank(QUESTION, DOCUMENTS) == SCORES
    assert len(server.requests) == 3


def test_it_waits_as_long_as_it_is_told_but_not_longer_than_a_call_may_take(
    model: EndpointReranker, server: RerankServer
):
    server.script.append(RerankReply(429, headers={"Retry-After": "1"}))
    model.rerank(QUESTION, DOCUMENTS)
    first, second = server.requests
    assert second.at - first.at >= 0.99
    server.script.append(
        RerankReply(429, '{"detail": "slow down"}', headers={"Retry-After": "600"})
    )
    with pytest.raises(ModelError, match=r"HTTP 429: .*slow down"):
        model.rerank(QUESTION, DOCUMENTS)


@pytest.mark.parametrize(
    ("told", "kind", "message"),
    [
        (RerankReply(400, '{"detail": "no such field"}'), ModelError, r"HTTP 400: .*no such field"),
        (
            RerankReply(404, '{"detail": "Not Found"}'),
            NoSuchModelError,
            r"no model 'best'.*correct models\.rerank\.default\.model or base_url",
        ),
        (RerankReply(402, '{"message": "out of credit"}'), ModelError, "requires payment"),
        (
            RerankReply(422, '{"error": "batch size 60 > maximum allowed batch size 32"}'),
            ModelError,
            "lower batch_size",
        ),
        (
            RerankReply(403, f'{{"detail": "{KEY} may not"}}'),
            AuthError,
            r"refused the key \(403\); set api_key",
        ),
    ],
)
def test_a_permanent_failure_is_an_error_at_once(
    model: EndpointReranker,
    server: RerankServer,
    told: RerankReply,
    kind: type[GraphmillError],
    message: str,
):
    server.script.append(told)
    with pytest.raises(kind, match=message) as raised:
        model.rerank(QUESTION, DOCUMENTS)
    assert KEY not in str(raised.value)
    assert len(server.requests) == 1


def test_a_server_that_does_not_answer(model: EndpointReranker, server: RerankServer):
    server.script.append(RerankReply(hold=True))
    impatient = replace(model, timeout=0.3, max_retries=0)
    with pytest.raises(ModelError, match=r"no answer within 0\.3 s"):
        impatient.rerank(QUESTION, DOCUMENTS)
    impatient.endpoint.client.close()
    for attempt in (lambda m: m.preflight(), lambda m: m.rerank(QUESTION, DOCUMENTS)):
        lonely = replace(model, base_url="http://me:hush@127.0.0.1:1/v1")
        with pytest.raises(ModelError, match="does not answer") as raised:
            attempt(lonely)
        assert "hush" not in str(raised.value)


def test_a_wrong_key_is_told_without_it(model: EndpointReranker):
    model.preflight()
    stranger = replace(model, api_key="sk-other-canary")
    for attempt in (stranger.preflight, lambda: stranger.rerank(QUESTION, DOCUMENTS)):
        with pytest.raises(
            AuthError, match=r"models\.rerank\.default: the endpoint refused the key \(401\)"
        ) as raised:
            attempt()
        assert "canary" not in str(raised.value)
    assert "canary" not in repr(stranger)
    assert "canary" not in str(stranger.identity)
    stranger.endpoint.client.close()


@dataclass
class Heard(IdleListener):
    """Listener that keeps the calls that it receives."""

    expected: list[Usage] = field(default_factory=list)
    ended_calls: list[Usage] = field(default_factory=list)

    def begun(self, expected: Usage) -> str:
        self.expected.append(expected)
        return ""

    def ended(self, usage: Usage, call: str | None = None) -> None:
        self.ended_calls.append(usage)


PASSAGE = "rye " * 15
OWN_COUNT = sum(tokenizer("best").count(text) for text in (QUESTION, PASSAGE))


def billed(**told: object) -> RerankReply:
    return RerankReply(raw=json.dumps({"results": [{"index": 0, "relevance_score": 1}], **told}))


@pytest.mark.parametrize(
    ("told", "tokens", "cost"),
    [
        (billed(usage={"total_tokens": 1500}), 1500, 1500 * 20 / 1e6 + 0.002),
        (billed(meta={"billed_units": {"search_units": 3}}), 20, 20 * 20 / 1e6 + 0.006),
        (billed(meta={"billed_units": {"search_units": 3.0}}), 20, 20 * 20 / 1e6 + 0.006),
        (
            billed(meta={"billed_units": {"search_units": math.nan}}),
            OWN_COUNT,
            OWN_COUNT * 20 / 1e6 + 0.002,
        ),
        (billed(), OWN_COUNT, OWN_COUNT * 20 / 1e6 + 0.002),
        (billed(usage={"total_tokens": 0}), OWN_COUNT, OWN_COUNT * 20 / 1e6 + 0.002),
        (billed(usage={"total_tokens": "many"}, meta=[]), OWN_COUNT, OWN_COUNT * 20 / 1e6 + 0.002),
    ],
)
def test_a_call_has_its_price_as_the_endpoint_counts_it(
    model: EndpointReranker, server: RerankServer, told: RerankReply, tokens: int, cost: float
):
    server.script.append(told)
    priced, heard = replace(model, input_price=20.0, search_price=2.0), Heard()
    priced.rerank(QUESTION, [PASSAGE], heard)
    priced.endpoint.client.close()
    [expected], [usage] = heard.expected, heard.ended_calls
    assert (usage.input_tokens, usage.texts, usage.cost) == (tokens, 1, pytest.approx(cost))
    assert expected.cost == pytest.approx(20 * 20 / 1e6 + 0.002)
    assert usage.estimated is (tokens == OWN_COUNT)


def test_the_reranker_has_the_values_of_the_settings(server: RerankServer):
    assert reranker(Settings()) is None
    model = {
        "base_url": server.base_url,
        "api_key": KEY,
        "model": "best",
        "timeout": 3,
        "batch_size": 7,
    }
    made = reranker(
        Settings.model_validate(
            {"models": {"rerank": {"default": {**model, "price": {"search": 2}}}}}
        )
    )
    assert isinstance(made, EndpointReranker)
    assert (made.input_price, made.search_price) == (0, 2)
    assert (made.model, made.timeout, made.batch_size, made.where) == (
        "best",
        3,
        7,
        "models.rerank.default",
    )


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"default": {"model": "best"}}, r"models\.rerank\.default: no base_url"),
        ({"default": {"base_url": "localhost:80"}}, "no web address"),
        ({"other": {"base_url": "http://h"}}, r"models\.rerank: no model 'default'; have: other"),
    ],
)
def test_invalid_settings_of_a_reranker_are_refused(section: dict[str, object], message: str):
    with pytest.raises(SettingsError, match=message):
        reranker(Settings.model_validate({"models": {"rerank": section}}))
