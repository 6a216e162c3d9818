"""Phrases in messages: counts with their nouns, and the exceptions of other libraries."""

import json
import sqlite3

import pytest

from pipeline.errors import counted, in_words


def test_a_count_has_its_noun_in_singular_or_plural():
    assert [counted(number, "night") for number in (0, 1, 2000)] == [
        "0 nights",
        "1 night",
        "2,000 nights",
    ]
    assert [counted(number, "reply", "replies") for number in (1, 2)] == ["1 reply", "2 replies"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            FileNotFoundError(2, "No such file or directory", "a.txt"),
            "a.txt: No such file or directory",
        ),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (TimeoutError(), "no answer in time"),
        (ConnectionResetError(), "the connection broke"),
        (KeyError("model"), "'model' is missing"),
        (
            json.JSONDecodeError("Expecting value", "", 0),
            "Expecting value: line 1 column 1 (char 0)",
        ),
        (sqlite3.DatabaseError("file is not\na database"), "file is not a database"),
        (ZeroDivisionError(), "an unexpected fault"),
    ],
)
def test_an_exception_becomes_a_sentence_without_the_name_of_its_class(error: Exception, said: str):
    assert in_words(error) == said
    assert type(error).__name__ not in in_words(error)
