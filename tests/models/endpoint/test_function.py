"""User's own chat and embedding models: Python functions and classes in the project's folder."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pipeline import Reply
from pipeline.errors import AuthError, ModelError, SettingsError
from pipeline.models.base import ChatRequest
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.embedding import OpenAIEmbedding
from pipeline.runs.adapters import batched_chat, chat_model, embedding_model
from pipeline.settings.file import read_settings
from pipeline.settings.own_models import with_own_models
from pipeline.settings.schema import Settings
from tests.talking import Hearer

OWN = """
import asyncio

from pipeline import Reply
from pipeline.errors import ModelError

CALLS = []


def chat(messages, *, response_format=None, max_tokens=None):
    CALLS.append((messages, response_format, max_tokens))
    return f"reply to {messages[-1]['content']}"


async def later(messages):
    await asyncio.sleep(0)
    return Reply(f"later: {messages[-1]['content']}", input_tokens=7, output_tokens=3)


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, messages, **options):
        self.calls += 1
        return f"call {self.calls} with {sorted(options)}"


class NeedsArguments:
    def __init__(self, key):
        self.key = key


def embed(texts):
    return [[float(len(text)), 1.0] for text in texts]


no_function = 3
"""


def asked(*texts: str) -> list[ChatRequest]:
    return [
        ChatRequest(f"row-{number}", ({"role": "user", "content": text},))
        for number, text in enumerate(texts)
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "my_models.py").write_text(OWN, encoding="utf-8")
    return tmp_path


def named(root: Path, kind: str, function: str, **own: Any) -> Settings:
    section = {"provider": "python", "function": function, **own}
    content = {"models": {kind: {"default": section}}}
    (root / "settings.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return read_settings(root)


def chat_of(root: Path, function: str, **own: Any) -> OpenAIChat:
    return chat_model(named(root, "chat", function, **own), "default", NO_CACHE, root=root)


def embedding_of(root: Path, function: str, **own: Any) -> OpenAIEmbedding:
    made = embedding_model(
        named(root, "embedding", function, **own), "default", lambda: NO_CACHE, root=root
    )
    assert isinstance(made, OpenAIEmbedding)
    return made


def chat_by(function: Callable[..., Any], **changes: Any) -> OpenAIChat:
    """Return a chat model of a Python function, without retries."""
    model = chat_model(with_own_models(Settings(), chat=function), "default", NO_CACHE)
    return replace(model, **{"max_retries": 0, **changes})


def embedding_by(function: Callable[..., Any]) -> OpenAIEmbedding:
    made = embedding_model(
        with_own_models(Settings(), embedding=function), "default", lambda: NO_CACHE
    )
    assert isinstance(made, OpenAIEmbedding)
    return replace(made, max_retries=0)


@pytest.mark.parametrize("function", ["my_models:chat", "my_models.py:chat"])
def test_a_function_in_the_projects_folder_answers(function: str, root: Path):
    chat = chat_of(root, function)
    chat.preflight()
    heard = Hearer()
    replies = chat.complete(asked("one", "two"), heard)
    assert [reply.text for reply in replies] == ["reply to one", "reply to two"]
    assert heard.outcomes == ["ok", "ok"]
    assert chat.identity == {
        "provider": "python",
        "function": "my_models:chat",
        "version": "",
        "model": "my_models:chat",
    }


def test_a_function_gets_messages_as_a_list_and_the_options_that_it_takes(root: Path):
    chat = chat_of(root, "my_models:chat", max_tokens=50)
    form = {"type": "json_object"}
    chat.complete([replace(asked("one")[0], response_format=form)])
    ((messages, response_format, max_tokens),) = chat.endpoint._callable.__globals__["CALLS"]  # type: ignore[attr-defined]
    assert messages == [{"role": "user", "content": "one"}]
    assert (response_format, max_tokens) == (form, 50)


def test_an_option_that_is_set_and_not_taken_is_refused_before_the_work(root: Path):
    chat = chat_of(root, "my_models:chat", temperature=0.5)
    with pytest.raises(
        SettingsError,
        match=r"models\.chat\.default: temperature is set, and my_models:chat has no such",
    ):
        chat.preflight()


def test_an_asynchronous_function_tells_its_tokens(root: Path):
    (reply,) = chat_of(root, "my_models:later").complete(asked("one"))
    assert (reply.text, reply.input_tokens, reply.output_tokens) == ("later: one", 7, 3)


def test_all_asynchronous_calls_share_an_event_loop():
    loops = []

    async def chat(messages: list[dict[str, str]]) -> str:
        loops.append(asyncio.get_running_loop())
        return "x"

    chat_by(chat).complete(asked("one", "two", "three"))
    assert len(loops) == 3
    assert len(set(loops)) == 1


def test_a_class_is_made_once_and_its_instance_called(root: Path):
    chat = chat_of(root, "my_models:Counting", temperature=0.5, concurrency=1)
    chat.preflight()
    replies = chat.complete(asked("one", "two"))
    assert [reply.text for reply in replies] == [
        "call 1 with ['temperature']",
        "call 2 with ['temperature']",
    ]


def test_a_reply_is_streamed_as_one_piece(root: Path):
    stream = chat_of(root, "my_models:chat").stream(asked("one")[0])
    pieces = []
    try:
        while True:
            pieces.append(next(stream))
    except StopIteration as end:
        reply = end.value
    assert (pieces, reply.finish_reason) == (["reply to one"], "stop")


def test_a_reply_that_was_cut_off_says_so():
    (reply,) = chat_by(lambda messages: Reply("half", finish_reason="length")).complete(
        asked("one")
    )
    assert (reply.text, reply.finish_reason) == ("half", "length")


def test_replies_are_remembered_until_the_version_is_raised(root: Path):
    calls: list[int] = []

    def chat(messages: list[dict[str, str]]) -> str:
        calls.append(1)
        return "x"

    cache = ReplyCache(f"sqlite:///{root}/cache.sqlite")
    first = replace(chat_by(chat), cache=cache)
    assert not first.complete(asked("one"))[0].cached
    assert first.complete(asked("one"))[0].cached
    chat.version = "2"  # type: ignore[attr-defined]
    assert not replace(chat_by(chat), cache=cache).complete(asked("one"))[0].cached
    assert len(calls) == 2
    cache.close()


def test_prices_limits_and_concurrency_are_those_of_any_model(root: Path):
    under_way, most = [0], [0]
    lock = threading.Lock()

    def chat(messages: list[dict[str, str]]) -> Reply:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(0.01)
        with lock:
            under_way[0] -= 1
        return Reply("x", input_tokens=1_000_000, output_tokens=1_000_000)

    heard = Hearer()
    priced = chat_by(chat, concurrency=2, input_price=1.0, output_price=2.0)
    priced.complete(asked(*map(str, range(8))), heard)
    assert most[0] == 2
    assert [usage.cost for usage in heard.usages] == [3.0] * 8


def test_vectors_are_made_in_batches_and_brought_to_length_one(root: Path):
    embedding = embedding_of(root, "my_models:embed", batch_size=2)
    embedding.preflight()
    vectors = embedding.embed(["a", "bb", "ccc", ""])
    assert vectors.shape == (4, 2)
    assert np.allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0])
    assert embedding.identity["function"] == "my_models:embed"


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        (lambda texts: None, "gave nothing for 2 texts instead of a vector"),
        (lambda texts: [[1.0, 2.0]], r"gave 1x2 for 2 texts"),
        (lambda texts: [1.0, 2.0], r"gave 2 for 2 texts"),
        (lambda texts: [[1.0, 2.0], [1.0]], "gave list instead of a vector"),
        (lambda texts: [["x"], ["y"]], "gave list instead of a vector"),
        (lambda texts: [[float("nan")], [1.0]], "values that are no numbers"),
        (lambda texts: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_an_embedding_function_that_goes_wrong_ends_the_work_with_its_name(
    gives: Callable[..., Any], said: str
):
    with pytest.raises(ModelError, match=rf"models\.embedding\.default: .*{said}"):
        embedding_by(gives).embed(["a", "b"])


class BusyError(Exception):
    status_code = 429


def failing(error: BaseException) -> Callable[..., str]:
    def chat(messages: list[dict[str, str]]) -> str:
        raise error

    return chat


@pytest.mark.parametrize(
    ("error", "reason", "said"),
    [
        (ValueError("no such thing"), "bad_request", "raised ValueError: no such thing"),
        (KeyError("text"), "bad_request", "raised KeyError: 'text'"),
        (OSError("the network is down"), "server_error", "raised OSError: the network is down"),
        (RuntimeError(), "server_error", "raised RuntimeError"),
        (SystemExit(3), "server_error", "raised RuntimeError: SystemExit"),
        (TimeoutError("slow"), "server_error", "raised TimeoutError: slow"),
    ],
)
def test_an_exception_rejects_the_row_with_the_functions_name(
    error: BaseException, reason: str, said: str
):
    (reply,) = chat_by(failing(error)).complete(asked("one"))
    assert reply.reason == reason
    assert reply.message.endswith(said)
    assert "failing.<locals>.chat" in reply.message


def test_messages_of_a_function_do_not_show_the_key_of_its_section():
    key = "sk-of-the-section"
    (reply,) = chat_by(failing(OSError(f"refused: {key}")), api_key=key).complete(asked("one"))
    assert reply.message.endswith("raised OSError: refused: ***")
    with pytest.raises(AuthError, match=r"the key \*\*\* is old"):
        chat_by(failing(AuthError(f"the key {key} is old")), api_key=key).complete(asked("one"))


def test_the_key_of_a_functions_section_is_known_to_its_endpoint(root: Path):
    assert (
        chat_of(root, "my_models:chat", api_key="sk-of-the-section").endpoint.api_key
        == "sk-of-the-section"
    )


@pytest.mark.parametrize("gives", [None, 3, b"bytes", Reply(None)])  # type: ignore[arg-type]
def test_a_result_that_is_no_text_rejects_the_row(gives: Any):
    (reply,) = chat_by(lambda messages: gives).complete(asked("one"))
    assert reply.reason == "bad_request"
    assert "instead of a text or a Reply" in reply.message


def test_an_exception_that_may_pass_is_tried_again_and_a_programming_error_is_not():
    calls: list[str] = []

    def chat(messages: list[dict[str, str]]) -> str:
        text = messages[-1]["content"]
        calls.append(text)
        if text == "passing" and calls.count(text) == 1:
            raise ConnectionError
        return {"passing": "fine"}[text]

    replies = chat_by(chat, max_retries=3).complete(asked("passing", "wrong"))
    assert (replies[0].text, replies[1].reason) == ("fine", "bad_request")
    assert (calls.count("passing"), calls.count("wrong")) == (2, 1)


def test_too_many_calls_are_waited_for():
    calls: list[int] = []

    def chat(messages: list[dict[str, str]]) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise BusyError("slow down")
        return "x"

    heard = Hearer()
    assert chat_by(chat).complete(asked("one"), heard)[0].text == "x"
    assert heard.outcomes == ["throttled", "ok"]


def test_an_error_of_graphmill_ends_the_work():
    with pytest.raises(AuthError, match="get a new token"):
        chat_by(failing(AuthError("my model: the token is old; get a new token"))).complete(
            asked("one")
        )


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_that_never_returns_is_a_timeout(is_async: bool):
    release = threading.Event()

    async def never(messages: list[dict[str, str]]) -> str:
        await asyncio.sleep(3600)
        return "x"

    def blocked(messages: list[dict[str, str]]) -> str:
        release.wait(60)
        return "x"

    (reply,) = chat_by(never if is_async else blocked, timeout=0.2).complete(asked("one"))
    release.set()
    assert (reply.reason, reply.message) == ("timeout", "no answer within 0.2 s")


def test_a_lone_surrogate_in_a_reply_is_accepted():
    (reply,) = chat_by(lambda messages: "a\ud800b").complete(asked("one"))
    assert reply.reason is None


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            "nowhere:chat",
            r"neither a file .*nowhere\.py nor an installed module 'nowhere'; put the file there",
        ),
        ("my_models:chatt", "my_models has no 'chatt'"),
        ("my_models:no_function", "my_models:no_function cannot be called"),
        ("my_models:NeedsArguments", "my_models:NeedsArguments cannot be made without arguments"),
        ("broken:chat", r"broken\.py: SyntaxError"),
        ("leaving:chat", r"leaving\.py: SystemExit"),
        ("lacking:chat", r"lacking\.py: ModuleNotFoundError: No module named 'no_such_library'"),
        ("json.nowhere:chat", "neither a file"),
    ],
)
def test_a_function_that_cannot_be_had_is_told_before_the_work(
    function: str, said: str, root: Path
):
    (root / "broken.py").write_text("def chat(:", encoding="utf-8")
    (root / "leaving.py").write_text("raise SystemExit", encoding="utf-8")
    (root / "lacking.py").write_text("import no_such_library", encoding="utf-8")
    with pytest.raises(SettingsError, match=rf"models\.chat\.default\.function: .*{said}"):
        chat_of(root, function).preflight()


def test_a_module_may_import_its_neighbour_and_be_in_a_folder_or_installed(root: Path):
    (root / "own_helper.py").write_text("GREETING = 'hello'", encoding="utf-8")
    (root / "own_chat.py").write_text(
        "import own_helper\nchat = lambda messages: own_helper.GREETING", encoding="utf-8"
    )
    (root / "package").mkdir()
    (root / "package" / "inner.py").write_text(
        "def chat(messages):\n    return 'inner'", encoding="utf-8"
    )
    texts = [
        chat_of(root, name).complete(asked("x"))[0].text
        for name in ("own_chat:chat", "package.inner:chat")
    ]
    assert texts == ["hello", "inner"]
    chat_of(root, "json:dumps").preflight()


def test_a_module_of_another_project_is_not_found(root: Path):
    chat_of(root, "my_models:chat").preflight()
    other = root / "other"
    other.mkdir()
    with pytest.raises(SettingsError, match="neither a file"):
        chat_of(other, "my_models:chat").preflight()


def test_an_edited_file_is_imported_again(root: Path):
    chat_of(root, "my_models:chat").preflight()
    (root / "my_models.py").write_text("chat = lambda messages: 'edited'", encoding="utf-8")
    assert chat_of(root, "my_models:chat").complete(asked("one"))[0].text == "edited"


def test_batches_are_refused(root: Path):
    settings = named(root, "chat", "my_models:chat")
    batched = batched_chat(
        settings, "default", chat_model(settings, "default", NO_CACHE, root=root)
    )
    with pytest.raises(
        SettingsError, match="execution: batch is not available with provider: python"
    ):
        batched.preflight()


def test_an_object_that_cannot_be_called_is_refused_in_python():
    with pytest.raises(SettingsError, match="chat=default: int cannot be called"):
        with_own_models(Settings(), chat=3)  # type: ignore[arg-type]


def test_several_models_are_given_by_name_and_keep_the_limits_of_their_sections(root: Path):
    (root / "settings.yaml").write_text(
        "models: {chat: {small: {concurrency: 3, model: x, api_key: k, price: {input: 1}}}}"
    )

    def chat(messages: list[dict[str, str]]) -> Iterator[str]:
        raise NotImplementedError

    settings = with_own_models(read_settings(root), chat={"small": chat, "new": chat})
    small = settings.models.chat["small"]
    assert (small.concurrency, small.named_model, small.configured) == (
        3,
        f"{__name__}:{chat.__qualname__}",
        True,
    )
    assert settings.models.chat["new"].concurrency == 16
    assert small.price is None
