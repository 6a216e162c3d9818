import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.documents.front_matter import split_front_matter, taken_title
from pipeline.verbs.filter_documents import FilterParams, filter_documents
from pipeline.verbs.load_documents import LoadParams, load_documents

GUIDE = """---
title: Deploy Guide
tags: [mill, river]
date: 2026-03-01
draft: false
---

# install the mill

```bash
# not a title
```
"""


def test_front_matter_is_title_and_metadata_and_the_text_begins_after_it(tmp_path: Path):
    for name in ("guide.md", "guide.markdown", "guide.txt"):
        (tmp_path / name).write_text(GUIDE)
    documents, rejects = load_documents(LoadParams(path=str(tmp_path)))
    assert rejects.empty
    assert len(documents) == 3
    assert set(documents["title"]) == {"Deploy Guide"}
    assert set(documents["title_from"]) == {"given"}
    assert all(text.startswith("# install the mill\n") for text in documents["text"])
    fields = {"tags": ["mill", "river"], "date": "2026-03-01", "draft": False}
    assert list(map(json.loads, documents["metadata"])) == [fields] * 3
    wanted = FilterParams.model_validate({"where": {"date": {">": "2026-01-01"}, "draft": False}})
    assert len(filter_documents(documents, wanted)) == 3


def test_three_files_with_front_matter_are_three_titles(tmp_path: Path):
    for name in ("Ada", "Berta", "Cora"):
        (tmp_path / f"{name}.md").write_text(f"---\ntitle: {name} Holm\n---\nA letter.\n")
    documents, _ = load_documents(LoadParams(path=str(tmp_path)))
    assert sorted(documents["title"]) == ["Ada Holm", "Berta Holm", "Cora Holm"]


@pytest.mark.parametrize(
    "text",
    [
        "No front matter\n---\ntitle: later\n---\n",
        "---\nnever closed: yes\n\ntext",
        "---\njust a line between rules\n---\nmore",
        "---\n- a\n- b\n---\nmore",
        "---\ntitle: [unclosed\n---\nmore",
        "---\ndate: 2020-13-45\n---\nmore",
        "---\nn: 0x" + "f" * 9000 + "\n---\nmore",
        "---\na: &a [x]\nb: *a\n---\nmore",
        "---\nx: !!python/object/apply:os.system [ls]\n---\nmore",
        "---\nx: " + "[" * 5000 + "\n---\nmore",
        "---\nx: " + "[" * 30 + "]" * 30 + "\n---\nmore",
        "---\n? [a, b]\n: c\n---\nmore",
        "----\ntitle: no\n----\n",
        "---\n---\nnothing between",
        "",
    ],
)
def test_text_that_is_no_front_matter_stays_in_the_text(text: str):
    assert split_front_matter(text) == ({}, text)


def test_a_text_that_is_front_matter_alone_keeps_it():
    text = "---\ntitle: Alone\n---\n\n"
    assert split_front_matter(text) == ({"title": "Alone"}, text)


def test_a_set_is_written_in_sorted_order():
    fields, _ = split_front_matter("---\nkinds: !!set {b, a, 3}\n---\ntext")
    assert fields == {"kinds": ["3", "a", "b"]}


@pytest.mark.parametrize(
    ("title", "taken"),
    [(" A\n  b ", "A b"), (1984, "1984"), (True, ""), (["a"], ""), (None, ""), ("", "")],
)
def test_a_title_is_a_text_or_number_on_one_line(title: object, taken: str):
    found, rest = taken_title({"title": title, "year": 3})
    assert (found, rest.get("title")) == (
        taken,
        None if isinstance(title, str | int) and title is not True else title,
    )


@given(st.text(st.sampled_from("-: \n.[]{}&*!|>#'\"ab1"), max_size=200))
def test_nothing_is_lost_in_a_text_without_fields(body: str):
    text = f"---\n{body}"
    fields, rest = split_front_matter(text)
    assert text.endswith(rest)
    assert fields or rest == text
    json.dumps(fields, allow_nan=False)
