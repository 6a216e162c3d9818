import json
import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import AuthError, ModelError, NoSuchModelError, SettingsError
from pipeline.models.base import ChatModel, ChatRequest, Check, Usage
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from tests.servers.openai_server import OpenAIServer, Reply
from tests.talking import Hearer

KEY = "sk-canary-1234567890"
NOW = {"retry-after-ms": "1"}
FULL = "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."


@pytest.fixture
def cache(tmp_path: Path):
    opened = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def chat(openai: OpenAIServer, cache: ReplyCache):
    openai.key = KEY
    openai.reply = lambda messages, body: Reply(f"reply to {messages[-1]['content']}")
    model = OpenAIChat("gpt-4o-mini", openai.base_url, KEY, cache, timeout=5, max_retries=2)
    yield model
    model.endpoint.client.close()


def ask(*texts: str, check: Check | None = None) -> list[ChatRequest]:
    return [
        ChatRequest(f"row-{i}", ({"role": "user", "content": text},), None, check)
        for i, text in enumerate(texts)
    ]


def silent_address() -> str:
    return "http://127.0.0.1:1/v1"


def test_replies_keep_the_order_of_the_requests_and_run_side_by_side(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.delay = 0.02
    replies = chat.complete(ask(*map(str, range(60))))
    assert [reply.text for reply in replies] == [f"reply to {i}" for i in range(60)]
    assert 4 < openai.peak <= 16
    sent = openai.requests[0]
    first = next(
        reply for reply in replies if reply.text == f"reply to {sent.messages[-1]['content']}"
    )
    assert (first.input_tokens, first.output_tokens) == (sent.prompt_tokens, sent.completion_tokens)
    assert isinstance(chat, ChatModel)


def test_one_slow_call_holds_up_no_other(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply(
        "x", delay=1.0 if messages[-1]["content"] == "0" else 0
    )
    heard = Hearer()
    replace(chat, concurrency=2).complete(ask(*map(str, range(20))), heard)
    assert heard.usages[-1].row_id == "row-0"


def test_equal_requests_are_sent_once_and_known_ones_never(chat: OpenAIChat, openai: OpenAIServer):
    heard = Hearer()
    first = chat.complete(ask("a", "b", "a"), heard)
    assert openai.count("chat") == 2
    assert [(reply.text, reply.cached) for reply in first][0::2] == [
        ("reply to a", False),
        ("reply to a", True),
    ]
    assert sorted((u.row_id, u.cached, u.calls) for u in heard.usages) == [
        ("row-0", False, 1), ("row-1", False, 1), ("row-2", True, 0),
    ]  # fmt: skip
    heard = Hearer()
    again = chat.complete(ask("a", "b", "c"), heard)
    assert openai.count("chat") == 3
    assert [reply.cached for reply in again] == [True, True, False]
    assert sum(usage.calls for usage in heard.usages) == 1


def test_a_reply_is_stored_before_it_is_read(chat: OpenAIChat, openai: OpenAIServer):
    def check(text: str) -> str | None:
        raise RuntimeError("the parser has a bug")

    with pytest.raises(RuntimeError):
        chat.complete(ask("a", check=check))
    assert chat.complete(ask("a", check=lambda text: None))[0].cached
    assert openai.count("chat") == 1


def test_a_reply_that_cannot_be_read_is_asked_again_unless_the_reader_has_learnt(
    chat: OpenAIChat, openai: OpenAIServer
):
    bad = chat.complete(ask("a", check=lambda text: "no records"))[0]
    assert (bad.text, bad.reason, bad.message) == ("reply to a", None, "no records")
    assert openai.count("chat") == 1
    chat.complete(ask("a", check=lambda text: "no records"))
    chat.complete(ask("a"))
    assert openai.count("chat") == 3
    chat.complete(ask("b", check=lambda text: "no records"))
    learnt = chat.complete(ask("b", check=lambda text: None))[0]
    assert (learnt.text, learnt.cached) == ("reply to b", True)
    assert chat.complete(ask("b"))[0].cached
    assert openai.count("chat") == 4


def test_an_exception_of_the_listener_ends_the_work_and_keeps_the_reply(
    chat: OpenAIChat, openai: OpenAIServer
):
    class BudgetSpentError(Exception):
        pass

    class Miser(Hearer):
        def begun(self, expected: Usage) -> str:
            if self.usages:
                raise BudgetSpentError
            return super().begun(expected)

    with pytest.raises(BudgetSpentError):
        replace(chat, concurrency=1).complete(ask("a", "b", "c"), Miser())
    assert openai.count("chat") == 1
    assert chat.complete(ask("a"))[0].cached


def test_identity_has_what_changes_a_reply_and_nothing_else(chat: OpenAIChat, openai: OpenAIServer):
    model = replace(chat, options={"temperature": 0, "seed": 7, "extra_body": {"top_k": 5}})
    assert model.identity == {
        "model": "gpt-4o-mini",
        "temperature": 0,
        "seed": 7,
        "extra_body": {"top_k": 5},
    }
    model.complete([replace(ask("a")[0], response_format={"type": "json_object"})])
    body = openai.requests[0].body
    assert (body["temperature"], body["seed"], body["top_k"]) == (0, 7, 5)
    assert body["response_format"] == {"type": "json_object"}
    assert "extra_body" not in body
    with pytest.raises(
        SettingsError, match=r"models\.chat\.default: unknown options temprature; known: .*temper"
    ):
        replace(chat, options={"temprature": 0})


@pytest.mark.parametrize(("status", "times"), [(408, 1), (409, 2), (429, 2), (500, 2), (503, 2)])
def test_transient_failures_are_retried(
    chat: OpenAIChat, openai: OpenAIServer, status: int, times: int
):
    openai.script("chat", [Reply(status=status, headers=NOW)] * times)
    assert chat.complete(ask("a"))[0].text == "reply to a"
    assert openai.count("chat") == times + 1


def test_broken_connections_are_tried_again(chat: OpenAIChat, openai: OpenAIServer):
    openai.script("chat", [Reply(drop=True)])
    assert chat.complete(ask("a"))[0].text == "reply to a"
    assert openai.count("chat", status=0) == 1


def test_retry_after_is_honoured(chat: OpenAIChat, openai: OpenAIServer):
    openai.script("chat", [Reply(status=429, headers={"Retry-After": "1"})])
    started = time.monotonic()
    chat.complete(ask("a"))
    assert 1 <= time.monotonic() - started < 3


@pytest.mark.parametrize(
    ("scripted", "reason", "text"),
    [
        (Reply("it broke", status=500), "server_error", ""),
        (Reply(drop=True), "server_error", ""),
        (Reply(raw=b"<html>gateway</html>"), "server_error", ""),
        (Reply(raw=b'{"error": "odd"}'), "server_error", ""),
        (Reply(delay=1), "timeout", ""),
        (Reply(FULL, status=400), "too_long", ""),
        (Reply("input is too large to process", status=500), "too_long", ""),
        (
            Reply("Your request was rejected by our content_filter.", status=400),
            "content_filter",
            "",
        ),
        (Reply("The content policy forbids this.", status=403), "content_filter", ""),
        (Reply("Unsupported value: 'seed'.", status=400), "bad_request", ""),
        (Reply("half of", finish_reason="content_filter"), "content_filter", "half of"),
        (Reply(" \n"), "empty", " \n"),
        (Reply("cut o", finish_reason="length"), None, "cut o"),
    ],
)
def test_a_row_that_fails_has_a_reason_and_the_rest_goes_on(
    chat: OpenAIChat, openai: OpenAIServer, scripted: Reply, reason: str | None, text: str
):
    model = replace(chat, concurrency=1, max_retries=0, timeout=0.4)
    openai.script("chat", [200, scripted])
    heard = Hearer()
    replies = model.complete(ask("a", "b", "c"), heard)
    assert [reply.reason for reply in replies] == [None, reason, None]
    assert replies[1].text == text
    assert bool(replies[1].message) == bool(reason)
    answered = scripted.status == 200 and not (scripted.drop or scripted.raw or scripted.delay)
    at_a_limit = scripted.finish_reason == "length"
    answered_as = "truncated" if at_a_limit else "ok"
    assert heard.outcomes == ["ok", answered_as if answered else reason, "ok"]
    asked_again = openai.count("chat")
    openai.reply = lambda messages, body: Reply("better")
    assert model.complete(ask("a", "b", "c"))[1].text == ("better" if reason else "cut o")
    assert openai.count("chat") - asked_again == (1 if reason else 0)
    model.endpoint.client.close()


def test_a_refusal_is_a_reply_with_a_reason_and_is_not_cached(
    chat: OpenAIChat, openai: OpenAIServer
):
    message = {"role": "assistant", "content": None, "refusal": "I will not."}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    openai.script("chat", [Reply(raw=json.dumps(body).encode())])
    (reply,) = chat.complete(ask("a"))
    assert (reply.reason, reply.message) == ("refusal", "the model refused: I will not.")
    assert not chat.complete(ask("a"))[0].cached


def test_a_server_that_reports_no_usage(chat: OpenAIChat, openai: OpenAIServer):
    openai.script("chat", [Reply("fine", usage=False)])
    (reply,) = chat.complete(ask("a"))
    assert (reply.text, reply.input_tokens, reply.output_tokens) == (
        "fine",
        chat.count(ask("a")[0]),
        1,
    )


def test_a_call_costs_what_its_reported_tokens_cost_and_a_known_reply_nothing(
    chat: OpenAIChat, openai: OpenAIServer
):
    heard = Hearer()
    priced = replace(chat, input_price=2.0, output_price=10.0)
    priced.complete(ask("one two three"), heard)
    priced.complete(ask("one two three"), heard)
    (sent,) = openai.requests
    usages = heard.usages
    assert usages[0].cost == pytest.approx(
        (sent.prompt_tokens * 2 + sent.completion_tokens * 10) / 1e6
    )
    assert usages[1].cost == 0
    chat.complete(ask("no price"), heard)
    assert usages[2].cost is None


def test_a_refused_key_ends_everything_at_once(chat: OpenAIChat, openai: OpenAIServer):
    openai.key = "another"
    started = time.monotonic()
    with pytest.raises(
        AuthError, match=r"models\.chat\.default: the endpoint refused the key \(401\); set OPENAI"
    ):
        chat.complete(ask(*map(str, range(500))))
    with pytest.raises(AuthError, match="the endpoint refused the key"):
        chat.preflight()
    assert time.monotonic() - started < 5
    assert openai.count("chat") < 100
    with pytest.raises(AuthError, match="the endpoint requires a key"):
        replace(chat, api_key="").preflight()


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (Reply("Insufficient Balance", status=402), "requires payment"),
        (Reply("Region is closed", status=403), r"refused the key \(403\)"),
    ],
)
def test_an_error_that_concerns_all_rows_is_raised(
    chat: OpenAIChat, openai: OpenAIServer, failure: Reply, message: str
):
    openai.script("chat", [failure])
    with pytest.raises((ModelError, AuthError), match=message):
        chat.complete(ask("a"))


@pytest.mark.parametrize("status", [404, 400])
def test_a_model_that_the_endpoint_does_not_have_is_a_fault_of_settings(
    chat: OpenAIChat, openai: OpenAIServer, status: int
):
    openai.script("chat", [Reply("The model `gpt-4o-mini` does not exist", status=status)] * 2)
    for attempt in (lambda: chat.complete(ask("a")), lambda: list(chat.stream(ask("a")[0]))):
        with pytest.raises(
            NoSuchModelError,
            match=r"has no model 'gpt-4o-mini'.*correct models\.chat\.default\.model",
        ):
            attempt()


def test_an_address_without_a_server_is_a_model_error(chat: OpenAIChat):
    lonely = replace(chat, base_url="http://user:hush@127.0.0.1:1/v1", max_retries=0)
    for attempt in (
        lonely.preflight,
        lambda: lonely.complete(ask("a", "b")),
        lambda: list(lonely.stream(ask("a")[0])),
    ):
        with pytest.raises(
            ModelError,
            match=r"models\.chat\.default: http://127\.0\.0\.1:1/v1 does not answer \(\[Errno",
        ) as e:
            attempt()
        assert "hush" not in str(e.value)
    with pytest.raises(ModelError, match="does not answer"):
        replace(chat, base_url="http://no-such-host.invalid/v1", max_retries=0).preflight()


def test_a_server_that_goes_away_for_good_ends_the_work(chat: OpenAIChat, openai: OpenAIServer):
    model = replace(chat, concurrency=2, max_retries=0)
    openai.script("chat", [200, *[Reply(drop=True)] * 100])
    with pytest.raises(ModelError, match="is the server running"):
        model.complete(ask(*map(str, range(100))))
    assert openai.count("chat") < 20


def test_preflight_minds_only_the_key(chat: OpenAIChat, openai: OpenAIServer):
    for status in (404, 403, 500):
        openai.script("models", [status])
        chat.preflight()
    assert openai.count("models") == 3
    chat.preflight()


def test_the_key_is_in_no_message(chat: OpenAIChat, openai: OpenAIServer):
    assert KEY not in repr(chat)
    assert KEY not in repr(chat.endpoint)
    openai.script("chat", [Reply(f"no such key: {KEY}", status=401)])
    with pytest.raises(AuthError) as caught:
        chat.complete(ask("a"))
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    openai.script("chat", [Reply(f"{KEY} sent nonsense", status=400)])
    assert KEY not in chat.complete(ask("a"))[0].message
    with pytest.raises(SettingsError) as refused:
        replace(chat, api_key=KEY + "\n")
    assert KEY not in str(refused.value)
    with pytest.raises(
        SettingsError, match="base_url 'localhost:8000/v1' is no web address"
    ) as address:
        replace(chat, base_url="me:hush@localhost:8000/v1")
    assert "hush" not in str(address.value)


@pytest.mark.parametrize(
    "url", ["http://me:hush@host:abc/v1", "http://me:hush@[::1/v1", "http://me:hu/sh@host:99999/v1"]
)
def test_an_address_whose_host_or_port_cannot_be_read_is_refused_before_any_call(
    chat: OpenAIChat, url: str
):
    with pytest.raises(
        SettingsError, match="base_url has a host or a port that cannot be read"
    ) as refused:
        replace(chat, base_url=url)
    assert not {"hu", "hush"} & set(re.findall(r"\w+", str(refused.value)))
    assert refused.value.__context__ is None


def test_no_secret_and_no_question_is_on_disk(
    chat: OpenAIChat, openai: OpenAIServer, tmp_path: Path
):
    openai.reply = lambda messages, body: Reply("fine")
    chat.complete(ask("a private question"))
    chat.cache.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"fine" in stored
    assert not any(part in stored for part in (KEY.encode(), b"private question", b"127.0.0.1"))


def test_ctrl_c_sends_no_more_and_keeps_what_is_under_way(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply("x", delay=1.0)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        chat.complete(ask(*map(str, range(40))))
    sent = {request.messages[-1]["content"] for request in openai.requests}
    assert 0 < len(sent) <= chat.concurrency
    assert all(reply.cached for reply in chat.complete(ask(*sorted(sent))))


def test_stream_gives_pieces_then_the_whole(chat: OpenAIChat, openai: OpenAIServer):
    (request,) = ask("what is the tide clock")
    pieces = list(chat.stream(request))
    assert len(pieces) > 1
    assert "".join(pieces) == "reply to what is the tide clock"
    assert list(chat.stream(request)) == ["reply to what is the tide clock"]
    (whole,) = chat.complete([request])
    assert whole.cached
    (sent,) = openai.requests
    assert (whole.input_tokens, whole.output_tokens) == (sent.prompt_tokens, sent.completion_tokens)


def test_a_stream_that_breaks_is_an_error_and_is_not_remembered(
    chat: OpenAIChat, openai: OpenAIServer
):
    (request,) = ask("a b c d e f g h i j k l m n o p q r s t u v w x y z")
    openai.script("chat", [Reply(drop=True)])
    got: list[str] = []
    with pytest.raises(ModelError, match="the connection broke"):
        got.extend(chat.stream(request))
    assert "".join(chat.stream(request)).endswith("x y z")


def test_a_stream_holds_its_place_to_its_end(chat: OpenAIChat, openai: OpenAIServer):
    one_place = replace(chat, concurrency=1)
    first, second = ask("the first of two", "the second of two")
    stream = one_place.stream(first)
    next(stream)
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(one_place.complete, [second])
        with pytest.raises(TimeoutError):
            other.result(0.3)
        assert openai.count("chat") == 1
        list(stream)
        assert other.result(5)[0].text == "reply to the second of two"


def test_a_stream_is_counted_when_it_ends_with_what_it_took(chat: OpenAIChat, openai: OpenAIServer):
    heard = Hearer()
    stream = replace(chat, input_price=1.0, output_price=2.0).stream(ask("what is it")[0], heard)
    next(stream)
    assert heard.begun_calls == 1
    assert not heard.usages
    list(stream)
    [usage], [sent] = heard.usages, openai.requests
    assert (usage.outcome, usage.input_tokens, usage.output_tokens) == (
        "ok",
        sent.prompt_tokens,
        sent.completion_tokens,
    )
    assert usage.cost == pytest.approx((sent.prompt_tokens + 2 * sent.completion_tokens) / 1e6)
    list(replace(chat, input_price=1.0).stream(ask("what is it")[0], heard))
    assert heard.usages[-1].cached


@pytest.mark.parametrize("ends", ["closed", "dropped"])
def test_a_stream_that_is_cut_is_counted_and_gives_its_place_back(
    chat: OpenAIChat, openai: OpenAIServer, ends: str
):
    openai.script("chat", [Reply(drop=ends == "dropped")])
    one_place, heard = replace(chat, concurrency=1), Hearer()
    stream = one_place.stream(ask("a b c d e f g h i j k l m n o p q r s t u v w x y z")[0], heard)
    next(stream)
    if ends == "closed":
        stream.close()
    else:
        with pytest.raises(ModelError):
            list(stream)
    [usage] = heard.usages
    assert usage.outcome == ("cut" if ends == "closed" else "server_error")
    assert usage.input_tokens > 0
    assert not heard.under_way
    assert one_place.complete(ask("another"))[0].text == "reply to another"


def test_a_reply_of_one_caller_is_served_to_nobody_else(chat: OpenAIChat, openai: OpenAIServer):
    [shared] = ask("what is it")
    [mine] = [replace(shared, caller="mine")]
    assert [reply.cached for request in (mine, shared, mine, shared) for reply in chat.complete([request])] == [  # noqa: E501
        False, False, True, True,
    ]  # fmt: skip
    list(chat.stream(replace(shared, caller="other")))
    assert openai.count("chat") == 3


def test_odd_characters_are_sent_and_stored(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply("nul \x00 and lone \ud800 in a reply")
    (reply,) = chat.complete(ask("lone \udcff surrogate"))
    assert reply.text == "nul  and lone  in a reply"
    assert openai.requests[0].messages[-1]["content"] == "lone \ufffd surrogate"
