"""How a picture is sent, and how many tokens are counted for it."""

import base64
import hashlib
from pathlib import Path

import pytest

from pipeline.models.base import ChatRequest, Picture
from pipeline.models.cache.lookup import completion_key
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.ollama import OllamaChat, OllamaEndpoint
from pipeline.models.endpoint.pictures import tokens_of_picture

CONTENT = b"the bytes of a picture"


def picture(path: Path, width: int = 1024, height: int = 1024) -> Picture:
    path.write_bytes(CONTENT)
    return Picture(path, hashlib.sha256(CONTENT).hexdigest(), "image/png", width, height)


def request_with(shown: Picture | None) -> ChatRequest:
    messages = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "What?"})
    return ChatRequest("a.png", messages, picture=shown)


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        # Both examples of OpenAI's documentation.
        ("gpt-4o", 1024, 1024, 765),
        ("gpt-4o", 2048, 4096, 1105),
        ("gpt-4o", 100, 100, 255),
        ("gpt-4o", 512, 513, 425),
        ("llava", 1024, 1024, 765),
        ("gpt-4o-mini", 100, 100, 8500),
        ("openai/gpt-4o-mini-2024-07-18", 1024, 1024, 25501),
        ("gpt-4o", 100_000, 1, 765),
    ],
)
def test_the_tokens_of_a_picture_are_estimated_by_tiles(
    tmp_path: Path, model: str, width: int, height: int, tokens: int
):
    assert tokens_of_picture(model, picture(tmp_path / "a", width, height)) == tokens


def test_the_last_message_has_the_picture_as_a_data_url(tmp_path: Path):
    chat = OpenAIChat(model="gpt-4o", base_url="http://127.0.0.1:9/v1", api_key="k")
    request = request_with(picture(tmp_path / "a"))
    system, user = chat.body(request)["messages"]
    url = f"data:image/png;base64,{base64.b64encode(CONTENT).decode()}"
    assert system["content"] == "Be brief."
    assert user["content"] == [
        {"type": "text", "text": "What?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    assert chat.count(request) == chat.count(request_with(None)) + 765


def test_ollama_gets_the_picture_beside_the_text(tmp_path: Path):
    chat = OllamaChat(model="llava", base_url="http://127.0.0.1:9", connect=OllamaEndpoint)
    _, user = chat.body(request_with(picture(tmp_path / "a")))["messages"]
    assert (user["content"], user["images"]) == ("What?", [base64.b64encode(CONTENT).decode()])


def test_the_key_of_a_reply_has_the_content_of_the_picture_and_not_its_name(tmp_path: Path):
    identity = {"model": "m"}
    here, there = picture(tmp_path / "a"), picture(tmp_path / "b", 30, 20)
    assert completion_key(identity, request_with(here)) == completion_key(
        identity, request_with(there)
    )
    other = Picture(here.path, "0" * 64, "image/png", 1024, 1024)
    keys = {completion_key(identity, request_with(one)) for one in (None, here, other)}
    assert len(keys) == 3
