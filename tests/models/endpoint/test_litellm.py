"""Models through LiteLLM, against the test endpoint.

`.ci/litellm` runs these tests in an environment where LiteLLM can be installed.
"""

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pipeline.errors import AuthError, ModelError, SettingsError
from pipeline.models.base import ChatRequest
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.embedding import OpenAIEmbedding
from pipeline.runs.adapters import chat_model, embedding_model
from pipeline.settings.file import read_settings
from tests.servers.openai_server import OpenAIServer, Reply
from tests.talking import Hearer

THERE = find_spec("litellm") is not None
if not THERE and os.environ.get("GRAPHMILL_REQUIRE_LITELLM") == "1":
    pytest.fail("no LiteLLM in this environment", pytrace=False)
needs_litellm = pytest.mark.skipif(
    not THERE, reason="LiteLLM is not installed: it needs an older openai (.ci/litellm)"
)
quiet = pytest.mark.filterwarnings("ignore")
"""LiteLLM's own warnings are not ours to mend."""


def asked(*texts: str) -> list[ChatRequest]:
    return [
        ChatRequest(f"row-{number}", ({"role": "user", "content": text},))
        for number, text in enumerate(texts)
    ]


def models(root: Path, **own: Any) -> tuple[OpenAIChat, OpenAIEmbedding]:
    common = {"provider": "litellm", "max_retries": 0, "timeout": 10, **own}
    content = {
        "models": {
            "chat": {"default": {"model": "openai/gpt-4o-mini", **common}},
            "embedding": {"default": {"model": "openai/text-embedding-3-small", **common}},
        }
    }
    (root / "settings.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    read = read_settings(root)
    embedding = embedding_model(read, "default", lambda: NO_CACHE, root=root)
    assert isinstance(embedding, OpenAIEmbedding)
    return chat_model(read, "default", NO_CACHE, root=root), embedding


@pytest.fixture
def both(tmp_path: Path, openai: OpenAIServer) -> tuple[OpenAIChat, OpenAIEmbedding]:
    openai.reply = lambda messages, body: Reply(f"reply to {messages[-1]['content']}")
    return models(tmp_path, base_url=openai.base_url, api_key=openai.key)


@pytest.fixture
def chat(both: tuple[OpenAIChat, OpenAIEmbedding]) -> OpenAIChat:
    return both[0]


@pytest.mark.skipif(THERE, reason="LiteLLM is installed")
def test_without_the_extra_it_is_said_how_to_install_it(chat: OpenAIChat):
    for ask in (chat.preflight, lambda: chat.complete(asked("one"))):
        with pytest.raises(
            SettingsError, match=r"models\.chat\.default: .*install the extra 'litellm'"
        ):
            ask()


@needs_litellm
@quiet
def test_replies_come_with_their_tokens_and_our_price(chat: OpenAIChat, openai: OpenAIServer):
    heard = Hearer()
    chat.preflight()
    replies = replace(chat, input_price=1.0, output_price=2.0).complete(asked("one", "two"), heard)
    assert [reply.text for reply in replies] == ["reply to one", "reply to two"]
    by_row = {request.messages[-1]["content"]: request for request in openai.requests}
    first = by_row["one"]
    assert (replies[0].input_tokens, replies[0].output_tokens) == (
        first.prompt_tokens,
        first.completion_tokens,
    )
    costs = {usage.row_id: usage.cost for usage in heard.usages}
    assert costs["row-0"] == pytest.approx(
        (first.prompt_tokens + 2 * first.completion_tokens) / 1e6
    )
    assert chat.identity == {"model": "openai/gpt-4o-mini"}


@needs_litellm
@quiet
def test_options_and_formats_are_handed_on(chat: OpenAIChat, openai: OpenAIServer):
    form = {"type": "json_object"}
    request = replace(asked("one")[0], response_format=form)
    replace(
        chat, options={"temperature": 0.5, "max_tokens": 9, "extra_body": {"seed": 4}}
    ).complete([request])
    body = openai.requests[-1].body
    assert (body["model"], body["response_format"], body["temperature"], body["max_tokens"], body["seed"]) == (  # noqa: E501
        "gpt-4o-mini", form, 0.5, 9, 4,
    )  # fmt: skip


@needs_litellm
@quiet
def test_a_reply_is_streamed_with_its_tokens(chat: OpenAIChat, openai: OpenAIServer):
    stream, pieces = chat.stream(asked("a longer question")[0]), []
    try:
        while True:
            pieces.append(next(stream))
    except StopIteration as end:
        reply = end.value
    assert "".join(pieces) == reply.text == "reply to a longer question"
    assert len(pieces) > 1
    assert (reply.finish_reason, reply.input_tokens) == ("stop", openai.requests[-1].prompt_tokens)


@needs_litellm
@quiet
def test_a_reply_that_was_cut_off_says_so(chat: OpenAIChat, openai: OpenAIServer):
    openai.script("chat", [Reply("half", finish_reason="length")])
    assert chat.complete(asked("one"))[0].finish_reason == "length"


@needs_litellm
@quiet
def test_vectors_are_those_of_the_endpoint(
    both: tuple[OpenAIChat, OpenAIEmbedding], openai: OpenAIServer
):
    by_litellm = both[1].embed(["a text", "another"])
    directly = OpenAIEmbedding("text-embedding-3-small", openai.base_url, openai.key).embed(
        ["a text", "another"]
    )
    assert np.allclose(by_litellm, directly)


@needs_litellm
@quiet
@pytest.mark.parametrize(
    ("status", "message", "reason"),
    [
        (
            400,
            (
                "This model's maximum context length is 8192 tokens, however you requested 9000"
                " tokens."
            ),
            "too_long",
        ),
        (
            400,
            "Your request was rejected as a result of our safety system: content_policy_violation",
            "content_filter",
        ),
        (400, "Invalid value for 'temperature'", "bad_request"),
        (500, "The server had an error", "server_error"),
        (503, "Overloaded", "server_error"),
    ],
)
def test_a_refusal_has_the_reason_of_any_endpoint(
    status: int, message: str, reason: str, chat: OpenAIChat, openai: OpenAIServer
):
    openai.script("chat", [Reply(message, status=status)])
    (reply,) = chat.complete(asked("one"))
    assert reply.reason == reason
    assert len(openai.requests) == 1  # LiteLLM itself tries nothing again


@needs_litellm
@quiet
def test_too_many_calls_are_waited_for(chat: OpenAIChat, openai: OpenAIServer):
    openai.script("chat", [Reply("slow down", status=429, headers={"retry-after": "1"})])
    heard = Hearer()
    assert chat.complete(asked("one"), heard)[0].reason is None
    assert heard.outcomes == ["throttled", "ok"]


@needs_litellm
@quiet
def test_a_slow_server_is_a_timeout(chat: OpenAIChat, openai: OpenAIServer):
    openai.script("chat", [Reply(hold=True), Reply(hold=True)])
    (reply,) = replace(chat, timeout=0.5).complete(asked("one"))
    assert reply.reason == "timeout"


@needs_litellm
@quiet
def test_a_wrong_key_ends_the_work_and_is_not_shown(tmp_path: Path, openai: OpenAIServer):
    chat, embedding = models(tmp_path, base_url=openai.base_url, api_key="canary-key-5521")
    for ask in (
        lambda: chat.complete(asked("one")),
        lambda: embedding.embed(["a"]),
        lambda: [*chat.stream(asked("x")[0])],
    ):
        with pytest.raises(AuthError, match=r"refused the key \(401\)") as told:
            ask()
        assert "canary-key-5521" not in str(told.value)


@needs_litellm
@quiet
def test_a_server_that_is_not_there_ends_the_work(tmp_path: Path):
    chat, _ = models(tmp_path, base_url="http://127.0.0.1:9/v1", api_key="k")
    with pytest.raises(ModelError, match=r"http://127\.0\.0\.1:9/v1 does not answer"):
        chat.complete(asked("one"))


@needs_litellm
@quiet
def test_a_model_without_a_provider_is_refused_before_the_work(tmp_path: Path):
    chat, _ = models(tmp_path, model="no-such-model-at-all")
    with pytest.raises(
        SettingsError, match="knows no provider of the model 'no-such-model-at-all'; write it as"
    ):
        chat.preflight()


@needs_litellm
@quiet
def test_a_key_that_is_missing_is_named_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    chat, _ = models(tmp_path, model="anthropic/claude-sonnet-4-5")
    with pytest.raises(
        AuthError, match="no api_key for anthropic; set api_key, or ANTHROPIC_API_KEY"
    ):
        chat.preflight()


@needs_litellm
@quiet
def test_headers_and_arguments_are_handed_on_and_not_shown(tmp_path: Path, openai: OpenAIServer):
    secrets = {
        "headers": {"X-Team": "canary-header-1"},
        "arguments": {"organization": "canary-argument-1"},
    }
    chat, _ = models(tmp_path, base_url=openai.base_url, api_key=openai.key, **secrets)
    assert chat.complete(asked("one"))[0].reason is None
    openai.script(
        "chat", [Reply("X-Team canary-header-1 of canary-argument-1 is unknown", status=400)]
    )
    (refused,) = chat.complete(asked("two"))
    told = [refused.message, repr(chat), repr(chat.endpoint), repr(read_settings(tmp_path))]
    assert not [text for text in told if "canary" in text]
    assert chat.identity == {"model": "openai/gpt-4o-mini"}


@needs_litellm
@quiet
def test_a_known_reply_needs_no_call(chat: OpenAIChat, openai: OpenAIServer, tmp_path: Path):
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    cached = replace(chat, cache=cache)
    cached.complete(asked("one"))
    assert cached.complete(asked("one"))[0].cached
    assert len(openai.requests) == 1
    cache.close()


@needs_litellm
def test_the_import_of_litellm_asks_nothing_of_the_network_and_reads_no_env_file(tmp_path: Path):
    (tmp_path / ".env").write_text("FROM_ENV_FILE=1", encoding="utf-8")
    script = (
        "import os, socket\n"
        "def refuse(*args, **kwargs): raise SystemExit('asked the network')\n"
        "socket.getaddrinfo = socket.socket.connect = refuse\n"
        "from pipeline.models.endpoint.litellm import library\n"
        "library()\n"
        "print(os.environ.get('FROM_ENV_FILE', 'not read'))\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "not read\n", "")
