import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SettingsError, StoreError
from pipeline.models.base import ChatRequest
from pipeline.models.cache import repair as compaction
from pipeline.models.cache import replies as cache_module
from pipeline.models.cache.lookup import completion_key, embedding_key
from pipeline.models.cache.replies import Completion, ReplyCache

REPLY = Completion("Bela Quill built the tide clock.", "stop", 120, 9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "cache.sqlite"


@pytest.fixture
def cache(path: Path):
    opened = ReplyCache(f"sqlite:///{path}")
    yield opened
    opened.close()


def request(text: str, row_id: str = "chunk-1") -> ChatRequest:
    return ChatRequest(row_id, ({"role": "user", "content": text},))


def test_nothing_is_opened_before_it_is_used(cache: ReplyCache, path: Path):
    assert not path.parent.exists()
    assert cache.completions(["a"]) == {}
    assert path.is_file()


def test_a_reply_is_kept_unread_then_flagged_then_replaced(cache: ReplyCache):
    cache.store_completion("a", "m", REPLY)
    assert cache.completions(["a", "b"]) == {"a": REPLY}
    cache.flag({"a": False, "b": True})
    assert cache.completions(["a"])["a"].valid is False
    cache.store_completion("a", "m", Completion("again", "length", 1, 2))
    assert cache.completions(["a"]) == {"a": Completion("again", "length", 1, 2, valid=None)}


def test_what_is_stored_outlives_the_process_that_is_killed_at_once(path: Path):
    code = f"""
import itertools
from pipeline.models.cache.replies import Completion, ReplyCache
cache = ReplyCache("sqlite:///{path}")
for i in itertools.count():
    cache.store_completion(str(i), "m", Completion("text", "stop", 1, 1))
    print(i, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    told = [process.stdout.readline().strip() for _ in range(50)]
    os.kill(process.pid, signal.SIGKILL)
    told += process.communicate()[0].split()
    cache = ReplyCache(f"sqlite:///{path}")
    assert set(cache.completions(told)) == set(told)
    cache.close()


def test_processes_that_start_together_share_one_file(path: Path):
    code = f"""
import sys
from pipeline.models.cache.replies import Completion, ReplyCache
cache = ReplyCache("sqlite:///{path}")
sys.stdin.readline()
for i in range(10):
    cache.store_completion(f"{{sys.argv[1]}}-{{i}}", "m", Completion("text", "stop", 1, 1))
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(n)], stdin=subprocess.PIPE, text=True)
        for n in range(3)
    ]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.close()
    assert [process.wait() for process in processes] == [0, 0, 0]
    cache = ReplyCache(f"sqlite:///{path}")
    keys = [f"{n}-{i}" for n in range(3) for i in range(10)]
    assert len(cache.completions(keys)) == 30
    cache.close()


def test_many_threads_can_store_replies_at_the_same_time(cache: ReplyCache):
    def store(n: int) -> None:
        for i in range(10):
            cache.store_completion(f"{n}-{i}", "m", REPLY)

    threads = [threading.Thread(target=store, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache.completions(f"{n}-{i}" for n in range(16) for i in range(10))) == 160


def test_thousands_of_keys_are_looked_up_and_flagged_in_slices(cache: ReplyCache, path: Path):
    cache.completions(["make the tables"])
    keys = [str(i) for i in range(2500)]
    with sqlite3.connect(path) as connection:
        rows = [
            (key, "m", "t", "stop", 0, 0, None, "2030-01-01 00:00:00", "", None) for key in keys
        ]
        connection.executemany("INSERT INTO completions VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
    connection.close()
    cache.flag(dict.fromkeys(keys, True))
    found = cache.completions(keys)
    assert len(found) == 2500
    assert all(reply.valid for reply in found.values())


def test_vectors_come_back_bit_by_bit(cache: ReplyCache):
    vectors = {
        str(i): np.random.default_rng(i).normal(size=64).astype(np.float32) for i in range(700)
    }
    cache.store_vectors("m", vectors)
    found = cache.vectors([*vectors, "unknown"])
    assert set(found) == set(vectors)
    assert all(np.array_equal(found[key], vectors[key]) for key in vectors)
    found["0"][0] = 7  # a caller may write into it


def test_an_empty_url_remembers_nothing():
    cache = ReplyCache("")
    cache.store_completion("a", "m", REPLY)
    cache.store_vectors("m", {"a": np.ones(2, dtype=np.float32)})
    cache.flag({"a": True})
    assert cache.completions(["a"]) == {}
    assert cache.vectors(["a"]) == {}


def test_a_file_that_is_no_database(path: Path):
    path.parent.mkdir()
    path.write_text("dear diary, " * 1000)
    with pytest.raises(
        StoreError, match=r"cache: .*cache\.sqlite is not a working SQLite .*; run 'graphmill run'"
    ):
        ReplyCache(f"sqlite:///{path}").completions(["a"])


def test_a_path_that_cannot_be_opened(path: Path):
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match="unable to open database file"):
        ReplyCache(f"sqlite:///{path}").completions(["a"])
    (path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        ReplyCache(f"sqlite:///{path}/file/cache.sqlite").completions(["a"])


@pytest.mark.parametrize(
    "url", ["mysql://u:secret@host/db", "sqlite://", "sqlite:///:memory:", "data/cache"]
)
def test_urls_that_cannot_be_a_cache(url: str):
    with pytest.raises(SettingsError, match="cache: ") as caught:
        ReplyCache(url)
    assert "secret" not in str(caught.value)


def test_a_postgresql_that_is_down_is_named_without_its_password():
    with pytest.raises(StoreError, match=r"cache: .*127\.0\.0\.1:1/db does not work") as caught:
        ReplyCache("postgresql://user:secret@127.0.0.1:1/db").completions(["a"])
    assert "secret" not in str(caught.value)


def test_the_key_is_made_of_the_whole_request_and_the_model_but_not_of_the_row():
    key = completion_key({"model": "m", "seed": 1}, request("a"))
    assert key == completion_key({"seed": 1, "model": "m"}, request("a", row_id="chunk-2"))
    others = [
        completion_key({"model": "m", "seed": 2}, request("a")),
        completion_key({"model": "m", "seed": 1}, request("b")),
        completion_key(
            {"model": "m", "seed": 1}, ChatRequest("", request("a").messages, {"type": "json"})
        ),
        completion_key(
            {"model": "m", "seed": 1}, ChatRequest("", ({"role": "system", "content": "a"},))
        ),
        embedding_key({"model": "m", "seed": 1}, "a"),
    ]
    assert len({key, *others}) == 6


@given(
    st.lists(
        st.text(alphabet=st.characters(categories=["Cs", "L", "P"])),
        min_size=2,
        max_size=2,
        unique=True,
    )
)
def test_different_texts_have_different_keys(texts: list[str]):
    first, second = (embedding_key({"model": "m"}, text) for text in texts)
    assert first != second


def test_nothing_that_was_asked_is_stored(cache: ReplyCache, path: Path):
    key = completion_key({"model": "m"}, request("the secret document"))
    cache.store_completion(key, "m", REPLY)
    cache.close()
    assert b"secret document" not in path.read_bytes()


CANARY = Completion("Zyxomandrel", "stop", 1, 1)


def files_with_the_canary(path: Path) -> list[str]:
    return [
        file.name for file in path.parent.iterdir() if CANARY.text.encode() in file.read_bytes()
    ]


def test_forgotten_while_another_program_reads_it_is_said_and_the_next_time_goes_on(
    cache: ReplyCache, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compaction, "SECONDS_TO_WAIT", 0)
    cache.store_completion("a", "m", CANARY)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM completions").fetchall()
        with pytest.raises(
            StoreError, match=r"cache\.sqlite is read by another.*close the other runs, purge again"
        ):
            cache.forget_all_but([])
        reader.execute("COMMIT")
    assert cache.forget_all_but([]) == 0
    assert files_with_the_canary(path) == []


def test_forgotten_while_another_program_writes_it_is_a_store_error(
    cache: ReplyCache, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compaction, "SECONDS_TO_WAIT", 0)
    cache.store_completion("a", "m", CANARY)
    compact = cache_module.compact

    def with_a_writer(*arguments: object) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            compact(*arguments)

    monkeypatch.setattr(cache_module, "compact", with_a_writer)
    with pytest.raises(StoreError, match="close the other runs, purge again"):
        cache.forget_all_but([])


def test_forgotten_on_a_server_while_a_transaction_can_still_see_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compaction, "SECONDS_TO_WAIT", 0)
    cache = ReplyCache(postgres_url, f"owner-{os.getpid()}")
    cache.store_completion("f" * 64, "m", CANARY)
    with psycopg.connect(postgres_url) as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")
        with pytest.raises(StoreError, match="is read by another program"):
            cache.forget_all_but([])
    assert cache.forget_all_but([]) == 0
    cache.close()


def test_an_owner_forgets_its_own(cache: ReplyCache, path: Path):
    first, second = (ReplyCache(f"sqlite:///{path}", owner) for owner in ("first", "second"))
    first.store_completion("a", "m", REPLY)
    second.store_completion("b", "m", REPLY)
    second.store_vectors("m", {"c": np.ones(2, dtype=np.float32)})
    assert set(second.completions(["a", "b"])) == {"a", "b"}
    assert first.forget_all_but([]) == 1
    assert set(second.completions(["a", "b"])) == {"b"}
    assert set(second.vectors(["c"])) == {"c"}
    first.close()
    second.close()


def filled(path: Path, rows: int = 400) -> dict[str, Completion]:
    cache = ReplyCache(f"sqlite:///{path}", "me")
    replies = {
        f"{number:064x}": Completion(f"reply {number} " * 40, "stop", number, 2, True)
        for number in range(rows)
    }
    cache.store_completions("m", replies)
    cache.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return replies


@pytest.mark.parametrize("damage", ["page", "end", "text"])
def test_of_a_damaged_cache_what_can_be_read_is_kept_and_nothing_wrong_is_served(
    path: Path, damage: str, capsys: pytest.CaptureFixture[str]
):
    replies = filled(path)
    whole = path.read_bytes()
    middle = whole.index(b"reply 200 reply 200") // 4096 * 4096
    if damage == "page":
        path.write_bytes(whole[:middle] + b"\xaa" * 4096 + whole[middle + 4096 :])
    elif damage == "end":
        path.write_bytes(whole[: len(whole) * 9 // 10])
    else:
        place = whole.index(b"reply 7 reply 7")
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
    cache = ReplyCache(f"sqlite:///{path}", "me")
    cache.mend()
    kept = cache.completions(replies)
    assert kept.items() <= replies.items()
    assert len(kept) > len(replies) // 2
    assert len(kept) < len(replies)
    aside = list(path.parent.glob("cache.sqlite.damaged-*"))
    assert len(aside) == (0 if damage == "text" else 1)
    if aside:
        assert f"graphmill: {path}: damaged" in capsys.readouterr().err
        cache.mend()
        assert cache.completions(replies) == kept


def test_of_a_file_that_is_no_database_nothing_is_kept_but_the_file(path: Path):
    path.parent.mkdir()
    path.write_text("dear diary, " * 1000)
    cache = ReplyCache(f"sqlite:///{path}", "me")
    cache.mend()
    assert cache.completions(["a"]) == {}
    [aside] = path.parent.glob("cache.sqlite.damaged-*")
    assert aside.read_text().startswith("dear diary")


def test_a_damaged_vector_is_not_served(path: Path):
    cache = ReplyCache(f"sqlite:///{path}", "me")
    cache.store_vectors("m", {"a": np.ones(8, np.float32), "b": np.ones(8, np.float32)})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE embeddings SET vector = zeroblob(32) WHERE key = 'a'")
    assert set(cache.vectors(["a", "b"])) == {"b"}
