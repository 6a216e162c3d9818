"""Behaviour on a full disk: no paid reply is lost, and no call begins whose reply cannot be
stored."""

import errno
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.event import listens_for

from pipeline.errors import CacheFullError
from pipeline.models.base import ChatRequest
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.cache.reserve import BYTES_OF_A_REPLY, bytes_of_vectors
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.embedding import OpenAIEmbedding
from tests.servers.openai_server import OpenAIServer, Reply
from tests.small_disks import SmallDisk, small_disk

CONCURRENCY = 4
LONG_REPLY = "so many words " * 2500
"""About 35 kB."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", megabytes=4) as mounted:
        yield mounted


@pytest.fixture
def new_chat(openai: OpenAIServer) -> Iterator[Callable[..., OpenAIChat]]:
    """Create chat models, each with a cache of its own, as a new process would."""
    made: list[OpenAIChat] = []

    def make(folder: Path, **more: Any) -> OpenAIChat:
        cache = ReplyCache(f"sqlite:///{folder}/cache.sqlite")
        options = {
            "concurrency": CONCURRENCY,
            "timeout": 20,
            "where": "models.chat.default",
            **more,
        }
        made.append(OpenAIChat("m", openai.base_url, openai.key, cache, **options))
        return made[-1]

    yield make
    for chat in made:
        chat.endpoint.client.close()
        chat.cache.close()


def requests(number: int) -> list[ChatRequest]:
    return [
        ChatRequest(f"row-{n}", ({"role": "user", "content": f"question {n}"},))
        for n in range(number)
    ]


def test_a_disk_that_becomes_full_loses_no_reply(
    disk: SmallDisk, openai: OpenAIServer, new_chat: Callable[..., OpenAIChat]
):
    openai.reply = lambda messages, body: Reply(LONG_REPLY)
    openai.delay = 0.05
    new_chat(disk.root).complete(requests(1))
    disk.fill(leave=(CONCURRENCY + 2) * BYTES_OF_A_REPLY)
    with pytest.raises(
        CacheFullError, match="no further call was made; make space on that disk"
    ) as full:
        new_chat(disk.root).complete(requests(60))
    assert "nothing is lost" not in str(full.value)
    assert "must be paid for again" not in str(full.value)
    paid = openai.count("chat", 200)
    assert CONCURRENCY < paid < 60

    with pytest.raises(
        CacheFullError, match=r"at once may bring replies of 0\.3 MB.* no call was made"
    ):
        new_chat(disk.root).complete(requests(60))
    assert openai.count("chat") == paid

    disk.make_space()
    replies = new_chat(disk.root).complete(requests(60))
    assert all(reply.good for reply in replies)
    assert openai.count("chat") == 60  # every reply was paid for once


def test_a_stream_is_refused_before_it_is_paid_for(
    disk: SmallDisk, openai: OpenAIServer, new_chat: Callable[..., OpenAIChat]
):
    new_chat(disk.root).complete(requests(1))
    disk.fill(leave=BYTES_OF_A_REPLY // 2)
    asked = openai.count("chat")
    with pytest.raises(CacheFullError, match="no call was made"):
        list(new_chat(disk.root).stream(requests(2)[1]))
    assert openai.count("chat") == asked
    assert "".join(new_chat(disk.root).stream(requests(1)[0]))  # a known reply needs no room


def test_no_paid_vector_is_lost_when_the_disk_becomes_full(disk: SmallDisk, openai: OpenAIServer):
    openai.dimensions = 1024
    texts = [f"text {n}" for n in range(400)]

    def embedding() -> OpenAIEmbedding:
        cache = ReplyCache(f"sqlite:///{disk.root}/cache.sqlite")
        return OpenAIEmbedding(
            "e",
            openai.base_url,
            openai.key,
            cache,
            concurrency=2,
            timeout=20,
            batch_size=8,
            dimensions=1024,
        )

    models = [embedding() for _ in range(3)]
    models[0].embed(texts[:8])
    disk.fill(leave=4 * bytes_of_vectors(8, 1024))
    with pytest.raises(CacheFullError, match="make space"):
        models[1].embed(texts)
    disk.make_space()
    models[2].embed(texts)
    assert openai.count("embeddings", 200) == 400 / 8
    for model in models:
        model.endpoint.client.close()
        model.cache.close()


def test_replies_that_are_lost_all_the_same_are_counted(
    tmp_path: Path, openai: OpenAIServer, new_chat: Callable[..., OpenAIChat]
):
    """Limit the size of the database although the disk has space, so that the reserve does not
    help."""
    openai.reply = lambda messages, body: Reply(LONG_REPLY)
    openai.delay = 0.2  # all calls are under way before the first reply comes
    chat = new_chat(tmp_path)
    chat.complete(requests(1))

    @listens_for(chat.cache.database.engine, "begin")
    def limit_the_pages(connection: Any) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")

    with pytest.raises(
        CacheFullError,
        match=r"\(4 replies under way could not be stored and must be paid for again\)",
    ):
        chat.complete(requests(60))
    assert openai.count("chat") == 1 + CONCURRENCY


KILLED = """
import os, signal, sys
from pathlib import Path
from pipeline.models.cache.replies import ReplyCache

reserve = ReplyCache(f"sqlite:///{sys.argv[1]}/cache.sqlite").database.reserve(4, 65536, "models.chat.default")
before = os.statvfs(sys.argv[1]).f_bavail
reserve.begin()
assert os.statvfs(sys.argv[1]).f_bavail < before
os.kill(os.getpid(), signal.SIGKILL)
"""  # noqa: E501


def test_a_kill_leaves_nothing_of_the_reserve(disk: SmallDisk):
    before = disk.free
    killed = subprocess.run([sys.executable, "-c", KILLED, str(disk.root)], check=False)
    assert killed.returncode == -9
    assert disk.free == before
    assert not list(disk.root.iterdir())


def test_work_that_ends_gives_its_room_back(disk: SmallDisk, new_chat: Callable[..., OpenAIChat]):
    chat = new_chat(disk.root)
    chat.complete(requests(1))
    before = disk.free
    chat.complete(requests(2))
    assert before - disk.free < CONCURRENCY * BYTES_OF_A_REPLY
    assert not chat.cache.database.reserves.held


def test_a_folder_in_which_nothing_new_can_be_made_reserves_nothing(
    tmp_path: Path, new_chat: Callable[..., OpenAIChat], monkeypatch: pytest.MonkeyPatch
):
    def refuse(**options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    (reply,) = new_chat(tmp_path).complete(requests(1))
    assert reply.good
