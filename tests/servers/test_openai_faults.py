import http.client
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai as openai_library
import pytest
from openai import OpenAI

from tests.servers.openai_faults import TRANSPORT
from tests.servers.openai_replies import count_tokens
from tests.servers.openai_server import Faults, Limits, OpenAIServer, openai_server

SERVER = Path(__file__).with_name("openai_server.py")
FAULTS = Faults(seed=3, error=0.2, malformed=0.2, truncated=0.2)

RECORDS = "End with <|COMPLETE|>\nText:\nAda met Bo. Bo met Cy. Cy met Di. Di met Ada."
ERRORS: dict[str, type[Exception]] = {
    "error": openai_library.InternalServerError,
    "bad_gateway": openai_library.InternalServerError,
    "unavailable": openai_library.InternalServerError,
    "gateway_timeout": openai_library.InternalServerError,
    "loading": openai_library.InternalServerError,
    "too_many": openai_library.RateLimitError,
    "too_many_until": openai_library.RateLimitError,
    "dropped": openai_library.APIConnectionError,
    "broken": openai_library.APIConnectionError,
    "garbage": AttributeError,  # the client hands the words of the page over, which have no choices
}


@pytest.fixture
def client(openai: OpenAIServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=openai.base_url, api_key="test-key", max_retries=0) as client:
        yield client


def ask(
    client: OpenAI, prompt: str, model: str = "m", options: Any = openai_library.omit
) -> tuple[str, str]:
    messages: list[Any] = [{"role": "user", "content": prompt}]
    answer = client.chat.completions.create(model=model, messages=messages, response_format=options)
    return answer.choices[0].message.content or "", answer.choices[0].finish_reason


def outcome(client: OpenAI, prompt: str) -> tuple[str, str]:
    try:
        return ask(client, prompt)
    except openai_library.InternalServerError:
        return "", "error"


def test_faults_hit_their_shares_of_requests_the_same_ones_each_time(
    openai: OpenAIServer, client: OpenAI
):
    prompts = [f"Question: who was Ada {n}?" for n in range(60)]
    usual = ask(client, "Question: who was Ada 7?")[0]

    def draw(order: list[str]) -> dict[str, list[tuple[str, str]]]:
        openai.forget()
        openai.faults = FAULTS
        first = {prompt: [outcome(client, prompt)] for prompt in order}
        for prompt in order[:20]:
            first[prompt].append(outcome(client, prompt))
        return first

    drawn = draw(prompts)
    hit = Counter(request.fault for request in openai.requests)
    assert all(8 <= hit[fault] <= 32 for fault in ("error", "malformed", "truncated"))
    assert {request.status for request in openai.requests if request.fault == "error"} == {500}
    cut = next(told for told in drawn.values() if told[0][1] == "length")[0][0]
    assert usual.startswith(cut[: len(usual) // 2 - 1])
    again = draw(prompts[:20] + prompts[:19:-1])
    assert again == drawn
    openai.faults = replace(FAULTS, seed=4)
    assert [outcome(client, prompt) for prompt in prompts] != [told[0] for told in drawn.values()]
    openai.faults = None
    assert ask(client, "Question: who was Ada 7?") == (usual, "stop")


def test_a_request_that_was_hit_is_drawn_anew_when_it_is_repeated(
    openai: OpenAIServer, client: OpenAI
):
    openai.faults = Faults(seed=1, error=0.5)
    told = [outcome(client, "the same")[1] for _ in range(30)]
    assert {"error", "stop"} == set(told)


def test_a_malformed_reply_is_no_records_and_a_malformed_summary_is_empty(
    openai: OpenAIServer, client: OpenAI
):
    openai.faults = Faults(malformed=1.0)
    said, reason = ask(client, "End with <|COMPLETE|>\nText:\nAda met Bo.")
    assert reason == "stop"
    assert said
    assert not set('<|>{}[]()"#') & set(said)
    assert ask(client, "Summarize the descriptions.\nDescription List:\nOne.") == ("", "stop")


def test_one_row_never_gets_an_answer_and_the_others_do(openai: OpenAIServer, client: OpenAI):
    openai.faults = Faults(never=lambda prompt: "Zeno" in prompt)
    with pytest.raises(openai_library.APITimeoutError):
        ask(client.with_options(timeout=0.2), "Zeno")
    assert ask(client, "Ada")[1] == "stop"
    assert [(request.fault, request.status) for request in openai.requests] == [
        ("never", 0),
        ("", 200),
    ]


def test_the_end_of_the_server_ends_the_wait():
    with openai_server() as server:
        server.faults = Faults(never=lambda prompt: True)
        client = OpenAI(base_url=server.base_url, api_key="test-key", max_retries=0)
        failed: list[Exception] = []

        def wait() -> None:
            try:
                ask(client, "Zeno")
            except openai_library.APIConnectionError as error:
                failed.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        while not server.requests:
            time.sleep(0.005)
    thread.join(10)
    client.close()
    assert len(failed) == 1


def test_requests_above_the_limit_are_told_when_to_come_again(openai: OpenAIServer, client: OpenAI):
    openai.limits = Limits(requests_per_minute=2, minute=1.0)
    openai.delay = 0.05
    ask(client, "one")
    ask(client, "two")
    with pytest.raises(
        openai_library.RateLimitError, match="Rate limit reached for m on requests"
    ) as refused:
        ask(client, "three")
    assert refused.value.code == "rate_limit_exceeded"
    wait = float(refused.value.response.headers["Retry-After"])
    assert 0 < wait <= 1
    assert int(refused.value.response.headers["retry-after-ms"]) == round(wait * 1000)
    ask(client, "another model has its own", model="n")
    time.sleep(wait)
    ask(client, "three")
    first, *_, last = openai.requests
    assert [request.status for request in openai.requests] == [200, 200, 429, 200, 200]
    assert 1.0 <= last.at - first.at < 10


def test_tokens_count_with_those_of_the_reply(openai: OpenAIServer, client: OpenAI):
    openai.limits = Limits(tokens_per_minute=100, minute=30.0)
    ask(client, "x" * 200)
    [request] = openai.requests
    left = 100 - request.prompt_tokens - request.completion_tokens
    with pytest.raises(openai_library.RateLimitError, match=f"requested {left + 1}"):
        ask(client, "x" * left * 4)
    ask(client, "x" * (left - 1) * 4)
    with pytest.raises(openai_library.RateLimitError, match="Request too large"):
        ask(client, "x" * 400)
    openai.limits = None
    ask(client, "x" * 400)


def test_a_client_that_waits_as_told_gets_all_its_answers_at_the_pace_of_the_limit(
    openai: OpenAIServer,
):
    openai.limits = Limits(requests_per_minute=5, minute=0.2)
    with OpenAI(base_url=openai.base_url, api_key="test-key", max_retries=20) as client:
        for n in range(12):
            ask(client, f"{n}")
    answered = [request.at for request in openai.requests if request.status == 200]
    assert len(answered) == 12
    assert all(later - first >= 0.2 for first, later in zip(answered, answered[5:], strict=False))


def test_a_long_prompt_loses_its_start_without_a_word(openai: OpenAIServer, client: OpenAI):
    seen: list[Any] = []
    usual = openai.reply
    openai.reply = lambda messages, body: seen.append(messages) or usual(messages, body)
    openai.context_tokens = 50
    messages: list[Any] = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Quorin " + "é" * 300 + " end"},
    ]
    answer = client.chat.completions.create(model="m", messages=messages)
    [[left]] = seen
    assert left["content"].endswith("éé end")
    assert count_tokens(left["content"]) == 50
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == openai.requests[0].prompt_tokens == 50
    ask(client, "short")
    assert seen[1][0]["content"] == "short"


def test_weak_models_think_aloud_and_know_no_json(openai: OpenAIServer, client: OpenAI):
    plain = ask(client, "Who was Ada?")[0]
    openai.thinking = True
    thought = ask(client, "Who was Ada?")[0]
    assert thought.startswith("<think>")
    assert thought.endswith(f"</think>\n\n{plain}")
    openai.thinking = False
    as_json = {"type": "json_object"}
    assert ask(client, "Who was Ada?", options=as_json)[0].startswith("{")
    openai.json_ability = "ignored"
    assert ask(client, "Who was Ada?", options=as_json)[0] == plain
    openai.json_ability = False
    with pytest.raises(openai_library.BadRequestError, match="response_format"):
        ask(client, "Who was Ada?", options=as_json)


def test_it_runs_as_a_process_of_its_own_with_limits():
    command = [
        sys.executable,
        SERVER,
        "--port",
        "0",
        "--limits-rpm",
        "1",
        "--limits-tpm",
        "1000",
        "--delay",
        "0.01",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[0].removeprefix("OPENAI_BASE_URL=")
            with OpenAI(base_url=url, api_key="test-key", max_retries=0) as client:
                ask(client, "one")
                with pytest.raises(openai_library.RateLimitError):
                    ask(client, "two")
        finally:
            process.terminate()
        assert process.stdout.read() == "2 requests answered\n"
    assert process.returncode == 0


def test_the_ledger_can_be_read_over_http(openai: OpenAIServer, client: OpenAI):
    ask(client, "hello")
    connection = http.client.HTTPConnection("127.0.0.1", openai.server_address[1])
    connection.request("GET", "/ledger")
    ledger = json.loads(connection.getresponse().read())
    connection.close()
    [row] = ledger["requests"]
    assert dict(zip(ledger["columns"], row, strict=True))["status"] == 200
    assert (ledger["peak"], ledger["cpu"] > 0) == (1, True)


def test_a_drawn_fault_of_each_kind_looks_as_such_servers_do(openai: OpenAIServer, client: OpenAI):
    def told(fault: str) -> tuple[str, str]:
        openai.faults = Faults(shares={fault: 1.0})
        return ask(client, RECORDS)

    usual, _ = ask(client, RECORDS)
    assert told("cut_inside")[1] == told("cut_between")[1] == told("plain")[1] == "stop"
    inside, between = told("cut_inside")[0], told("cut_between")[0]
    assert usual.startswith(inside)
    assert inside.count("<|>") > inside.count("##\n") * 3 - 1
    assert not inside.endswith(")")
    assert usual.startswith(between)
    assert between.endswith(")")
    assert told("empty")[0] == told("content_filter")[0] == ""
    assert told("truncated")[1] == "length"
    for fault, error in ERRORS.items():
        with pytest.raises(error):
            told(fault)
    assert {request.fault for request in openai.requests} > set(ERRORS)


def test_json_that_is_cut_does_not_close(openai: OpenAIServer, client: OpenAI):
    for fault in ("cut_inside", "cut_between"):
        openai.faults = Faults(shares={fault: 1.0})
        said, _ = ask(client, RECORDS, options={"type": "json_object"})
        assert said.startswith('{"entities"')
        with pytest.raises(json.JSONDecodeError):
            json.loads(said)


@pytest.mark.parametrize(("fault", "usage"), [("no_usage", None), ("zero_usage", 0)])
def test_usage_is_missing_or_zero_and_the_ledger_knows_the_tokens(
    openai: OpenAIServer, client: OpenAI, fault, usage
):
    openai.faults = Faults(shares={fault: 1.0}, embeddings=True)
    answer = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Who was Ada?"}]
    )
    assert (answer.usage and answer.usage.total_tokens) == usage
    vectors = client.embeddings.create(model="e", input="Who was Ada?")
    assert (vectors.usage and vectors.usage.total_tokens) == usage
    assert all(request.prompt_tokens > 0 for request in openai.requests)


def test_a_request_for_a_stream_gets_one_json_object(openai: OpenAIServer, client: OpenAI):
    openai.faults = Faults(shares={"plain": 1.0})
    create = client.chat.completions.with_streaming_response.create
    with create(
        model="m", messages=[{"role": "user", "content": "Who was Ada?"}], stream=True
    ) as response:
        assert response.headers["Content-Type"] == "application/json"
        assert response.json()["choices"][0]["message"]["content"]


def test_faults_that_a_prompt_may_not_get_are_not_drawn(openai: OpenAIServer, client: OpenAI):
    openai.faults = Faults(
        shares={"empty": 1.0}, only=lambda prompt: TRANSPORT if "Ada" in prompt else None
    )
    assert ask(client, "Who was Ada?")[0]
    assert not ask(client, "Who was Bo?")[0]
    assert client.embeddings.create(model="e", input="Bo").data


def test_with_one_slot_requests_wait_and_those_whose_client_hung_up_are_passed_over(
    openai: OpenAIServer, client: OpenAI
):
    openai.slots.limit, openai.delay = 1, 0.3
    impatient = client.with_options(timeout=0.1)

    def wait() -> None:
        with pytest.raises(openai_library.APITimeoutError):
            ask(impatient, "Who was Bo?")

    threads = [threading.Thread(target=ask, args=(client, f"Who was Ada {n}?")) for n in range(2)]
    threads[0].start()
    while not openai.requests:
        time.sleep(0.005)
    threads.append(threading.Thread(target=wait))
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert openai.peak == 1
    entries = sorted(
        (request.fault, request.status, request.prompt_tokens > 0) for request in openai.requests
    )
    assert entries == [("", 200, True), ("", 200, True), ("abandoned", 0, False)]


def test_a_server_that_starts_says_so_and_one_that_is_down_refuses_connections(
    openai: OpenAIServer, client: OpenAI
):
    openai.loading = True
    with pytest.raises(openai_library.InternalServerError, match="Loading model"):
        ask(client, "Who was Ada?")
    openai.loading = False
    openai.stop_listening()
    with pytest.raises(openai_library.APIConnectionError):
        ask(client, "Who was Ada?")
    openai.listen_again()
    assert ask(client, "Who was Ada?")[1] == "stop"
    assert [request.status for request in openai.requests] == [503, 200]
