"""The links of a text."""

import time

import pytest

from pipeline.phrases.links import find_links


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("[[Kell Foundry]] and [[Kell Foundry|the works]]", ["kell foundry", "kell foundry"]),
        ("[[Kell Foundry#History]], [[Kell Foundry^note]]", ["kell foundry", "kell foundry"]),
        ("[works](../Firms/Kell%20Foundry.md#history)", ["kell foundry"]),
        ("[[[Kell Foundry]]]", ["kell foundry"]),
        ("[[]] [[|works]] [[Kell\nFoundry]] [[Kell Foundry] [web](https://kell.example)", []),
    ],
)
def test_the_key_of_a_link_is_the_name_of_its_document(text: str, keys: list[str]):
    assert [link.key for link in find_links(text)] == keys


def test_brackets_that_are_never_closed_take_little_time():
    text = ("[[" + "a" * 500) * 4000
    begun = time.process_time()
    assert list(find_links(text)) == []
    # It is 0.1 s. With two parts of the pattern that match the same text it was 2 s.
    assert time.process_time() - begun < 1
