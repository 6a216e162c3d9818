"""The corrections that a text unit is compared with."""

from typing import Any

from pipeline.corrections.file import make_decision
from pipeline.corrections.rules import Rules
from pipeline.verbs.read_corrections import list_rows

ENTITY = {"source": "", "target": ""}


def select(*names: str, lines: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return kind and name of the rules for a text unit that has entities of these names."""
    rules = Rules.from_table(list_rows(make_decision(line, "test") for line in lines))
    selected = rules.select_for([{"name": name, **ENTITY} for name in names])
    return {(kind, rule.source) for kind, some in selected.by_kind.items() for rule in some}


def test_a_text_unit_is_compared_with_the_rules_about_its_names_alone():
    lines = [{"kind": "delete_entity", "entity": f"Mill {number}"} for number in range(100)]
    assert select("mill 7", "Ann", lines=lines) == {("delete_entity", "Mill 7")}


def test_rules_about_the_old_and_the_new_name_of_an_entity_are_selected():
    rename = {"kind": "rename", "entity": "Acme", "to": "Acme Corp"}
    lines = [
        rename,
        {"kind": "set_type", "entity": "Acme", "to": "MILL"},
        {"kind": "describe_entity", "entity": "Acme Corp", "description": "A mill."},
    ]
    about_both = {("set_type", "Acme"), ("describe_entity", "Acme Corp")}
    assert select("Acme", lines=lines) == {("rename", "Acme"), *about_both}
    assert about_both <= select("Acme Corp", lines=lines)
    # A renaming in one document gives the new name too.
    scoped = [{**rename, "document": "a.md"}, lines[2]]
    assert select("Acme", lines=scoped) == {
        ("rename", "Acme"),
        ("describe_entity", "Acme Corp"),
    }
