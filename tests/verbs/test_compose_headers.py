"""Headers of text units: title, headings, date and metadata, in few tokens, without repeats."""

import json
from typing import Any

import pytest

from pipeline.contract.schemas import DATED_DOCUMENTS, UNIT_HEADINGS
from pipeline.text.tokens import tokenizer
from pipeline.verbs.compose_headers import HeaderParams, compose_headers

METADATA = {"status": "approved", "version": 2, "tags": ["a", "b"], "deep": {"x": 1}, "draft": True}


def header_of(text: str, heading: str = "", **document: Any) -> str:
    """Return the header of a text unit of a document, "" if it has none."""
    params = HeaderParams.model_validate(document.pop("params", {}))
    units = UNIT_HEADINGS.frame([("u", text, "doc", 0, heading)])
    given = {"id": "doc", "title": "Plant Manual", "metadata": "{}", "title_from": "heading"}
    documents = DATED_DOCUMENTS.frame([{**given, "date": "", **document}])
    headers = compose_headers(units, documents, params)["header"].tolist()
    return headers[0] if headers else ""


def test_title_and_headings_are_one_line_and_date_and_chosen_metadata_the_next():
    params = {"metadata": ["version", "status", "tags", "deep", "draft", "absent"]}
    header = header_of(
        "Apt.", "Setup > Linux", date="2024-05", metadata=json.dumps(METADATA), params=params
    )
    assert header == (
        "Plant Manual > Setup > Linux\n"
        "2024-05; version: 2; status: approved; tags: a, b; draft: true"
    )
    assert header_of("Apt.", date="2024", params={"date": False}) == "Plant Manual"


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("# Plant Manual\n\n## Setup\n\nwords", ""),
        ("## Setup\n\nwords", "Plant Manual"),
        ("**Plant manual**: words", "Setup"),
        ("Setups differ.", "Plant Manual > Setup"),
        ("Plant Manuals", "Plant Manual > Setup"),
    ],
)
def test_what_the_text_begins_with_is_not_repeated(text: str, header: str):
    assert header_of(text, "Setup") == header


def test_lists_that_are_nested_deeply_are_no_value():
    nested = f'{{"tags": ["a", {"[" * 500}1{"]" * 500}]}}'
    assert header_of("Apt.", metadata=nested, params={"metadata": ["tags"]}) == (
        "Plant Manual\ntags: a"
    )


def test_the_metadata_of_a_document_are_read_once_for_all_its_text_units(
    monkeypatch: pytest.MonkeyPatch,
):
    read: list[str] = []
    load = json.loads

    def loads(text: str) -> Any:
        read.append(text)
        return load(text)

    monkeypatch.setattr(json, "loads", loads)
    units = UNIT_HEADINGS.frame([(f"u{place}", "Apt.", "doc", place, "") for place in range(5)])
    document = {"id": "doc", "title": "T", "metadata": '{"version": 1}', "title_from": "heading"}
    documents = DATED_DOCUMENTS.frame([{**document, "date": ""}])
    compose_headers(units, documents, HeaderParams(metadata=("version",)))
    assert read == ['{"version": 1}']


def test_the_source_of_a_record_is_no_title():
    assert header_of("words", title="a.jsonl#3f", title_from="file_name") == ""
    assert header_of("words", title="table cars, row #3", title_from="file_name") == ""
    assert header_of("words", title="Quarterly", title_from="file_name") == "Quarterly"
    assert header_of("words", title="C# guide", title_from="file_name") == "C# guide"


def test_a_title_without_spaces_between_words_is_not_repeated():
    assert header_of("長城は長い。", title="長城") == ""
    assert header_of("山は長城より高い。", title="長城") == "長城"


def test_aliases_come_before_the_date_and_are_few():
    assert header_of("Apt.", date="2024", aliases=["KeFo", "the Owl"]) == (
        "Plant Manual\nKeFo, the Owl; 2024"
    )
    assert len(header_of("Apt.", title="", aliases=["KeFo"] * 50)) == 60


def test_aliases_and_date_can_be_left_out():
    params = {"aliases": False, "date": False}
    assert header_of("Apt.", heading="Setup", date="2024", aliases=["KeFo"], params=params) == (
        "Plant Manual > Setup"
    )


@pytest.mark.parametrize(
    ("title", "date", "header"),
    [
        ("2024-05-03", "2024-05-03", "2024-05-03"),
        ("Minutes 2024-05", "2024-05", "Minutes 2024-05"),
        ("Minutes 2024", "2024-05", "Minutes 2024\n2024-05"),
        ("Room 12024", "2024", "Room 12024\n2024"),
    ],
)
def test_a_date_that_the_title_has_is_not_repeated(title: str, date: str, header: str):
    assert header_of("Apt.", title=title, date=date) == header


def test_a_header_that_is_too_long_loses_metadata_then_the_date_then_outer_headings():
    document = {"date": "2024", "metadata": json.dumps({"status": "approved and signed"})}
    headings = "One heading of some words > Two headings > Three"
    count = tokenizer("o200k_base").count
    headers = []
    for most in range(40, 0, -1):
        params = {"metadata": ["status"], "max_tokens": most}
        headers.append(header_of("words", headings, **document, params=params))
        assert count(headers[-1]) <= most
    assert list(dict.fromkeys(headers))[:5] == [
        f"Plant Manual > {headings}\n2024; status: approved and signed",
        f"Plant Manual > {headings}\n2024",
        f"Plant Manual > {headings}",
        "Plant Manual > Two headings > Three",
        "Plant Manual > Three",
    ]
