"""Aliases of master data: which become renamings, which are ambiguous, and what people decide."""

import json
from collections.abc import Mapping, Sequence

import pandas as pd
import pytest

from pipeline.corrections.file import make_decision
from pipeline.verbs.add_aliases import MASTER_ROWS, add_aliases
from pipeline.verbs.read_corrections import list_rows

Names = Mapping[str, Sequence[str]]
ACME: Names = {"Acme Works": ["Acme", "AW Ltd"]}


def rows_of(names: Names) -> pd.DataFrame:
    """Return documents of rows that give these aliases to these names."""
    rows = []
    for line, (name, aliases) in enumerate(names.items(), start=2):
        metadata = {"row": line, "record": {"name": name, "aliases": list(aliases)}}
        rows.append((f"doc-{line}", f"tables/firms.csv#{line}", json.dumps(metadata)))
    return MASTER_ROWS.frame(rows)


def add(names: Names, *lines: Mapping[str, str]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Return the kind and the new name of each alias that is followed, and messages of rejects."""
    rows = rows_of(names)
    corrections = list_rows(make_decision(dict(line), "test") for line in lines)
    united, rejects = add_aliases(rows[["id"]], rows, corrections)
    assert set(corrections["id"]) <= set(united["id"])
    added = united[~united["id"].isin(corrections["id"])]
    cells = zip(added["source"], added["kind"], added["to"], strict=True)
    assert set(rejects["reason"]) <= {"ambiguous_alias"}
    return {alias: (kind, to) for alias, kind, to in cells}, list(rejects["message"])


def test_each_alias_is_renamed_to_the_name_of_its_row():
    assert add(ACME) == (
        {"Acme": ("rename", "Acme Works"), "AW Ltd": ("rename", "Acme Works")},
        [],
    )


def test_an_alias_that_is_a_spelling_of_its_own_name_changes_nothing():
    assert add({"Acme Works": ["ACME-WORKS", "acme works"]}) == ({}, [])


def test_an_alias_of_two_entities_links_nothing_and_both_rows_are_named():
    followed, messages = add({"Acme Works": ["Acme", "AW"], "Acme Group": ["ACME"]})
    assert followed == {"AW": ("rename", "Acme Works")}
    assert [message.partition(":")[0] for message in messages] == ["tables/firms.csv"] * 2
    assert "tables/firms.csv:3" in messages[0]
    assert "tables/firms.csv:2" in messages[1]


def test_the_name_of_a_row_is_no_alias_of_another_one():
    followed, (message,) = add({"Acme Works": ["Brask"], "Brask": ["Brask & Sons"]})
    assert followed == {"Brask & Sons": ("rename", "Brask")}
    assert message.startswith("tables/firms.csv:2: the alias 'Brask' of 'Acme Works'")


def test_rows_with_one_name_may_claim_one_alias():
    followed, messages = add({"Acme Works": ["Acme"], "ACME WORKS": ["Acme"]})
    assert followed == {"Acme": ("rename", "ACME WORKS")}
    assert not messages


def test_a_row_outside_the_documents_gives_no_alias():
    rows = rows_of(ACME)
    united, _ = add_aliases(rows[["id"]].head(0), rows, list_rows([]))
    assert united.empty


OTHERWISE = (
    {"kind": "rename", "entity": "ACME", "to": "Acme Austria"},
    {"kind": "delete_entity", "entity": "ACME"},
    {"kind": "different", "a": "Acme Works", "b": "Acme"},
)


@pytest.mark.parametrize("line", OTHERWISE)
def test_what_people_decide_about_an_alias_goes_before_the_table(line: Mapping[str, str]):
    assert add(ACME, line)[0] == {"AW Ltd": ("rename", "Acme Works")}


def test_a_decision_for_one_document_leaves_the_alias_to_the_others():
    line = {"kind": "rename", "entity": "Acme", "to": "Acme Austria", "document": "a.md"}
    assert add(ACME, line)[0]["Acme"] == ("rename", "Acme Works")


def test_aliases_follow_the_renaming_and_the_deletion_of_their_entity():
    renamed = {"kind": "rename", "entity": "Acme Works", "to": "Acme International"}
    assert set(add(ACME, renamed)[0].values()) == {("rename", "Acme International")}
    deleted = {"kind": "delete_entity", "entity": "Acme Works"}
    assert set(add(ACME, deleted)[0].values()) == {("delete_entity", "")}
