import json
import time
from pathlib import Path

import pytest

from pipeline.corrections.decisions import Scoped
from pipeline.corrections.file import FILE, file_digest, make_decision, read_lines, write_decisions
from pipeline.errors import SettingsError
from pipeline.text.ids import document_id


def written(folder: Path, *lines: dict | str) -> Path:
    """Write lines into a file of corrections and return its path."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path = folder / FILE
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


STATEMENT = {"kind": "add_statement", "source": "A", "target": "B", "description": "x"}
RENAME = {"kind": "rename", "entity": "Acme", "to": "Acme Corporation"}


def test_a_project_without_the_file_has_no_corrections(tmp_path: Path):
    assert read_lines(tmp_path / FILE) == []


def test_lines_are_read_in_order_and_blank_ones_are_passed_over(tmp_path: Path):
    delete = {"kind": "delete_entity", "entity": "Junk"}
    lines = read_lines(written(tmp_path, RENAME, "", delete))
    assert [line.number for line in lines] == [1, 3]


def test_who_decided_when_and_why_changes_neither_id_nor_digest(tmp_path: Path):
    plain = file_digest(written(tmp_path, RENAME))
    signed = {**RENAME, "by": "ann", "at": "2026-01-02", "why": "their full name"}
    assert file_digest(written(tmp_path, signed)) == plain
    assert file_digest(written(tmp_path, {**RENAME, "to": "Acme Inc."})) != plain


def test_a_document_is_named_by_its_id_or_by_a_path_whatever_that_begins_with():
    id = document_id("doc-plan.txt")
    for named in ("doc-plan.txt", id):
        decision = make_decision({**RENAME, "document": named}, "test")
        assert isinstance(decision, Scoped)
        assert decision.document_id == id


def test_decisions_that_were_written_are_read_back(tmp_path: Path):
    fields = [
        {**RENAME, "by": "ann", "document": "a.md", "quote": "the Acme\u2028works"},
        {"kind": "describe_entity", "entity": "Böhm", "description": "A mill.", "append": True},
        {"kind": "same", "a": "IBM", "b": "International Business Machines"},
        {"kind": "set_property", "entity": "Acme", "property": "height", "value": 12.5},
        {"kind": "delete_property", "entity": "Acme", "property": "owner", "value": "Ann"},
    ]
    decisions = [make_decision(one, "test") for one in fields]
    write_decisions(tmp_path / FILE, decisions)
    assert [line.decision for line in read_lines(tmp_path / FILE)] == decisions


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "no JSON"),
        ("[1]", "no object"),
        ({"kind": "renam", "entity": "A", "to": "B"}, "did you mean 'rename'"),
        ({"kind": "rename", "entity": "A"}, "field 'to'"),
        ({"kind": "rename", "entity": "A", "to": "B", "colour": "red"}, "field 'colour'"),
        ({"kind": "rename", "entity": "A", "to": " A "}, "has this name already"),
        ({"kind": "same", "a": "A", "b": "a"}, "one name but for case"),
        ({**STATEMENT, "quote": "x"}, "a quote needs the document"),
        ({"kind": "delete_statement", "source": "A", "target": "A"}, "one entity"),
        ({"kind": "describe_entity", "entity": "A", "description": "x" * 1501}, "1500"),
        ({"kind": "set_type", "entity": "A", "to": "B\0C"}, "to has a control character"),
        ({**RENAME, "why": "\ud800"}, "why has a control character, or a single surrogate"),
        ({"kind": "delete_entity", "entity": "A", "type": "\ud800"}, "type has a control"),
        ({"kind": "x" * 100_000}, "'x{40}' is no kind"),
        ({"kind": "set_property", "entity": "A", "property": "p"}, "field 'value'"),
        ({"kind": "set_property", "entity": "A", "property": "p", "value": "x" * 501}, "500"),
        (
            {"kind": "set_property", "entity": "A", "property": "p", "value": "x", "quote": "y"},
            "needs the document",
        ),
        ({"kind": ["rename"]}, "no kind of correction"),
        ('{"kind": "rename", "entity": ' + "9" * 5000 + "}", "no JSON"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_line_that_is_no_decision_is_refused_with_its_place(
    tmp_path: Path, line: dict | str, message: str
):
    path = written(tmp_path, RENAME, line)
    with pytest.raises(SettingsError, match=message) as refusal:
        read_lines(path)
    assert f"{path}:2" in str(refusal.value)


@pytest.mark.parametrize(
    "lines",
    [
        (RENAME, {**RENAME, "to": "Apex"}),
        (RENAME, {"kind": "delete_entity", "entity": "ACME"}),
        (RENAME, {"kind": "rename", "entity": "Acme Corporation", "to": "Acme"}),
        (
            {"kind": "set_type", "entity": "Acme", "to": "COMPANY"},
            {"kind": "set_type", "entity": "acme", "to": "PERSON"},
        ),
        (
            RENAME,
            {"kind": "set_type", "entity": "Acme", "to": "COMPANY"},
            {"kind": "set_type", "entity": "Acme Corporation", "to": "PERSON"},
        ),
        (
            {"kind": "delete_entity", "entity": "Acme"},
            {"kind": "describe_entity", "entity": "Acme", "description": "A mill."},
        ),
        (
            RENAME,
            {"kind": "set_property", "entity": "Acme", "property": "birth_date", "value": "1850"},
            {
                "kind": "set_property", "entity": "Acme Corporation", "property": "Birth date",
                "value": "1851",
            },
        ),
        (
            {"kind": "delete_property", "entity": "Acme", "property": "height"},
            {"kind": "set_property", "entity": "acme", "property": "height", "value": "2"},
        ),
        (
            {"kind": "delete_entity", "entity": "Acme"},
            {"kind": "set_property", "entity": "acme", "property": "height", "value": "2"},
        ),
        (
            {"kind": "delete_statement", "source": "A", "target": "B", "type": "owns"},
            {"kind": "turn_statement", "source": "A", "target": "B", "type": "Owns"},
        ),
        (
            {"kind": "delete_statement", "source": "A", "target": "B", "type": "owns"},
            {
                "kind": "add_statement", "source": "A", "target": "B", "type": "owns",
                "document": "a.md", "description": "A owns B.",
            },
        ),
        (
            {"kind": "delete_statement", "source": "A", "target": "B"},
            {
                "kind": "add_statement", "source": "A", "target": "B", "type": "owns",
                "document": "a.md", "description": "A owns B.",
            },
        ),
        (
            {"kind": "retype_statement", "source": "A", "target": "B", "to": "sells"},
            {"kind": "retype_statement", "source": "A", "target": "B", "type": "x", "to": "buys"},
        ),
        (
            {"kind": "rename", "entity": "A", "to": "B"},
            {"kind": "rename", "entity": "B", "to": "C"},
            {"kind": "rename", "entity": "C", "to": "B"},
        ),
        (RENAME, {"kind": "different", "a": "Acme", "b": "Acme Corporation"}),
        (
            {"kind": "same", "a": "A", "b": "B"},
            {"kind": "same", "a": "B", "b": "C"},
            {"kind": "different", "a": "A", "b": "C"},
        ),
    ],
)  # fmt: skip
def test_lines_that_contradict_each_other_are_refused_and_quoted(
    tmp_path: Path, lines: tuple[dict, ...]
):
    path = written(tmp_path, *lines)
    with pytest.raises(SettingsError) as refusal:
        read_lines(path)
    message = str(refusal.value)
    assert f"line {len(lines)}" in message
    assert all(str(name) in message for name in lines[-1].values())


def test_a_value_of_the_texts_is_deleted_and_another_one_is_set(tmp_path: Path):
    fields = {"entity": "A", "property": "height"}
    lines = [
        {"kind": "set_property", **fields, "value": "2"},
        {"kind": "delete_property", **fields, "value": "3"},
        {"kind": "delete_property", **fields, "document": "a.md"},
    ]
    assert len(read_lines(written(tmp_path, *lines))) == 3


def test_statements_of_a_type_are_deleted_and_the_others_are_turned(tmp_path: Path):
    ends = {"source": "A", "target": "B"}
    lines = [
        {"kind": "delete_statement", **ends, "type": "owns"},
        {"kind": "turn_statement", **ends},
    ]
    assert len(read_lines(written(tmp_path, *lines))) == 2


def test_who_has_set_a_value_is_its_source_and_changes_the_digest(tmp_path: Path):
    line = {"kind": "set_property", "entity": "A", "property": "height", "value": "2"}
    first = file_digest(written(tmp_path, line))
    assert file_digest(written(tmp_path, {**line, "why": "measured"})) == first
    assert file_digest(written(tmp_path, {**line, "by": "ann"})) != first


def test_decisions_on_different_documents_do_not_contradict_each_other(tmp_path: Path):
    lines = [{**RENAME, "to": f"Acme {name}", "document": f"{name}.md"} for name in "ab"]
    assert len(read_lines(written(tmp_path, *lines))) == 2


def test_a_line_twice_is_one_decision(tmp_path: Path):
    assert len(read_lines(written(tmp_path, RENAME, {**RENAME, "why": "again"}))) == 1


def test_a_contradiction_is_not_written(tmp_path: Path):
    path = written(tmp_path, RENAME)
    before = path.read_bytes()
    decisions = [line.decision for line in read_lines(path)]
    other = make_decision({**RENAME, "to": "Apex"}, "test")
    with pytest.raises(SettingsError):
        write_decisions(path, [*decisions, other])
    assert path.read_bytes() == before


def test_a_chain_of_thousands_of_renamings_is_checked_in_time_that_grows_with_its_length(
    tmp_path: Path,
):
    chain = [{"kind": "rename", "entity": f"N{n}", "to": f"N{n + 1}"} for n in range(3000)]
    start = time.process_time()
    assert len(read_lines(written(tmp_path, *chain))) == 3000
    assert time.process_time() - start < 5
