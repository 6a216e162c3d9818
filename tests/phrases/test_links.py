"""The links of a text."""

import time

import pytest

from pipeline.phrases.links import find_links, link_targets
from pipeline.phrases.titles import TitleRow, names_of_documents


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("[[Kell Foundry]] and [[Kell Foundry|the works]]", ["kell foundry", "kell foundry"]),
        ("[[Kell Foundry#History]], [[Kell Foundry^note]]", ["kell foundry", "kell foundry"]),
        ("[works](../Firms/Kell%20Foundry.md#history)", ["kell foundry"]),
        ("[planet](Mercury_(planet).md) (seen)", ["mercury_(planet)"]),
        ("[[[Kell Foundry]]]", ["kell foundry"]),
        ("[[]] [[|works]] [[Kell\nFoundry]] [[Kell Foundry] [web](https://kell.example)", []),
    ],
)
def test_the_key_of_a_link_is_the_name_of_its_document(text: str, keys: list[str]):
    assert [link.keys[-1] for link in find_links(text)] == keys


ROWS = [
    TitleRow("1", "Works of Kell", "", (), "a/spec.md"),
    TitleRow("2", "Works of Moor", "", (), "b/spec.md"),
    TitleRow("5", "Works of the Root", "", (), "spec.md"),
    TitleRow("3", "AC/DC", "", (), "bands/acdc.md"),
    TitleRow("4", "Direct Current", "", ("DC",), "physics/direct.md"),
]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[x](../b/spec.md)", "Works of Moor"),
        ("[x](spec.md)", None),
        ("[[spec]]", None),
        ("[x](c/spec.md)", None),
        ("[[a/spec]]", "Works of Kell"),
        ("[[AC/DC]]", "AC/DC"),
        ("[[DC]]", "Direct Current"),
        ("[x](moved/direct.md)", "Direct Current"),
    ],
)
def test_a_link_leads_to_the_file_of_its_folder_or_to_the_title(text: str, name: str | None):
    targets = link_targets(ROWS, names_of_documents(ROWS))
    (link,) = find_links(text)
    assert link.follow(targets) == name


def test_brackets_that_are_never_closed_take_little_time():
    text = ("[[" + "a" * 500) * 4000
    begun = time.process_time()
    assert list(find_links(text)) == []
    # It is 0.1 s. With two parts of the pattern that match the same text it was 2 s.
    assert time.process_time() - begun < 1
