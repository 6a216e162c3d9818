"""Token ids equal to those of tiktoken: token_ids.jsonl was made with tiktoken and its own rank
files."""

import hashlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from tiktoken_ext import openai_public

from pipeline.models.base import Tokenizer
from pipeline.text.tokens import encoding_for, tokenizer

ENCODINGS = ["cl100k_base", "o200k_base"]


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


ROWS = read_rows(Path(__file__).with_name("token_ids.jsonl"))


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("row", ROWS, ids=[str(number) for number, _ in enumerate(ROWS)])
def test_ids_are_those_of_tiktoken(row: dict[str, Any], name: str) -> None:
    assert tokenizer(name).encode(row["text"]) == row[name]
    assert tokenizer(name).count(row["text"]) == len(row[name])


@pytest.mark.parametrize("name", ENCODINGS)
def test_ids_are_those_of_the_golden_set(name: str) -> None:
    folder = os.environ.get("GRAPHMILL_DATASETS")
    if not folder:
        pytest.skip("GRAPHMILL_DATASETS names no datasets folder")
    rows = read_rows(Path(folder, "token_golden", "golden.jsonl"))
    assert [tokenizer(name).encode(row["text"]) for row in rows] == [row[name] for row in rows]


@pytest.mark.parametrize("name", ENCODINGS)
def test_token_ids_agree_with_tiktoken_if_its_ranks_are_on_this_machine(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: str) -> bytes:
        raise FileNotFoundError(address)

    monkeypatch.setattr("tiktoken.load.read_file", refuse)
    try:
        original = tiktoken.get_encoding(name)
    except FileNotFoundError:
        pytest.skip(f"tiktoken's ranks of {name} are not on this machine")
    for row in ROWS:
        assert tokenizer(name).encode(row["text"]) == original.encode_ordinary(row["text"])


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("gpt-4o-2024-08-06", "o200k_base"),
        ("gpt-oss-120b", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("openai/gpt-3.5-turbo", "cl100k_base"),
        ("text-embedding-3-small", "cl100k_base"),
        ("cl100k_base", "cl100k_base"),
        ("o200k_base", "o200k_base"),
        ("llama3.1:8b", "o200k_base"),
        ("", "o200k_base"),
    ],
)
def test_the_encoding_depends_on_the_model(name: str, encoding: str) -> None:
    assert encoding_for(name) == encoding
    assert tokenizer(name).name == encoding


def test_an_older_encoding_is_tiktokens_only_when_its_file_is_cached_and_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    assert encoding_for("text-davinci-003") == "o200k_base"
    cached = tmp_path / hashlib.sha1(_address("p50k_base").encode()).hexdigest()
    cached.write_bytes(b"cut off")
    assert encoding_for("text-davinci-003") == "o200k_base"
    assert cached.exists()


def _address(encoding: str) -> str:
    constants = openai_public.ENCODING_CONSTRUCTORS[encoding].__code__.co_consts
    return next(c for c in constants if isinstance(c, str) and c.startswith("https://"))


def test_a_lone_surrogate_reads_as_the_replacement_character() -> None:
    assert tokenizer("o200k_base").encode("a\ud800b") == tokenizer("o200k_base").encode("a\ufffdb")
    assert tokenizer("o200k_base").count("\ud800") == tokenizer("o200k_base").count("\ufffd")


def test_a_tokenizer_can_be_sent_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(tokenizer("cl100k_base")))
    assert isinstance(copy, Tokenizer)
    assert copy.name == "cl100k_base"


@pytest.mark.parametrize("unit", ["a", " ", "\n", "中", "😀", "=", "ab"])
def test_megabytes_without_a_break_are_counted(unit: str) -> None:
    assert tokenizer("o200k_base").count(unit * (400_000 // len(unit.encode()))) > 0
