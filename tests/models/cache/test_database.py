"""Compatibility of the cache: an older database is served, and a newer one is refused."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import StoreError
from pipeline.models.cache.database import SCHEMA_VERSION
from pipeline.models.cache.replies import Completion, ReplyCache

FIRST_VERSION = """
CREATE TABLE completions (key VARCHAR(64) NOT NULL PRIMARY KEY, model TEXT NOT NULL, text TEXT NOT NULL,
    finish_reason TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, valid BOOLEAN,
    created DATETIME NOT NULL);
CREATE TABLE embeddings (key VARCHAR(64) NOT NULL PRIMARY KEY, model TEXT NOT NULL, vector BLOB NOT NULL);
INSERT INTO completions VALUES ('good', 'm', 'a reply', 'stop', 12, 3, 1, '2025-01-01 00:00:00'),
    ('bad', 'm', 'nonsense', 'stop', 12, 3, 0, '2025-01-01 00:00:00'),
    ('unread', 'm', 'who knows', 'length', 12, 3, NULL, '2025-01-01 00:00:00');
"""  # noqa: E501


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Create a database as the first version did."""
    path = tmp_path / "cache.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(FIRST_VERSION)
    connection.execute(
        "INSERT INTO embeddings VALUES ('v', 'e', ?)", [np.ones(3, dtype="<f4").tobytes()]
    )
    connection.commit()
    connection.close()
    return path


def version_in(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT schema_version FROM graphmill_cache").fetchall()
    connection.close()
    return [version for (version,) in rows]


def test_replies_stored_by_the_first_version_are_served(old: Path):
    for _ in range(2):
        cache = ReplyCache(f"sqlite:///{old}", owner="mill")
        assert cache.completions(["good", "bad", "unread"]) == {
            "good": Completion("a reply", "stop", 12, 3, valid=True),
            "bad": Completion("nonsense", "stop", 12, 3, valid=False),
            "unread": Completion("who knows", "length", 12, 3, valid=None),
        }
        assert cache.vectors(["v"])["v"].tolist() == [1, 1, 1]
        cache.store_completion("new", "m", Completion("new", "stop", 1, 1))
        cache.close()
        assert version_in(old) == [SCHEMA_VERSION]


def test_processes_that_upgrade_together(old: Path):
    code = """
import sys
from pipeline.models.cache.replies import ReplyCache
cache = ReplyCache(sys.argv[1])
sys.stdin.readline()
assert len(cache.completions(["good"])) == 1
cache.close()
"""
    command = [sys.executable, "-c", code, f"sqlite:///{old}"]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.close()
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert version_in(old) == [SCHEMA_VERSION]


def test_replies_without_an_owner_are_left_where_others_store_theirs(old: Path):
    cache = ReplyCache(f"sqlite:///{old}", owner="mill")
    assert cache.forget_all_but([]) == 0
    assert cache.unowned() == 4
    assert set(cache.completions(["good", "bad"])) == {"good", "bad"}
    cache.close()


def test_replies_without_an_owner_go_from_a_cache_of_ones_own(old: Path):
    cache = ReplyCache(f"sqlite:///{old}", owner="mill", private=True)
    other = ReplyCache(f"sqlite:///{old}", owner="another")
    other.store_completion("theirs", "m", Completion("theirs", "stop", 1, 1))
    assert cache.forget_all_but(["good"]) == 3
    assert cache.unowned() == 1
    assert set(cache.completions(["good", "bad", "unread", "theirs"])) == {"good", "theirs"}
    cache.close()
    other.close()
    assert b"nonsense" not in old.read_bytes()


def test_a_cache_of_a_newer_version_is_refused_and_not_changed(old: Path):
    ReplyCache(f"sqlite:///{old}").completions(["good"])
    connection = sqlite3.connect(old)
    connection.execute("UPDATE graphmill_cache SET schema_version = ?", [SCHEMA_VERSION + 1])
    connection.commit()
    connection.close()
    for _ in range(2):
        with pytest.raises(
            StoreError,
            match=rf"cache: .*newer graphmill \(schema {SCHEMA_VERSION + 1}; .*upgrade, or",
        ):
            ReplyCache(f"sqlite:///{old}").completions(["good"])
    assert version_in(old) == [SCHEMA_VERSION + 1]
