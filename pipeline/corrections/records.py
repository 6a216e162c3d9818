"""Apply corrections to the records that a text unit holds.

All corrections act on records of extractions, before these are merged. Merging then unites names,
types and descriptions as it does for any text. So there is no second way into the graph, and a text
unit is corrected whatever other text units say.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipeline.corrections.rules import Record, Rule, Rules, list_keys
from pipeline.corrections.values import (
    DecidedValue,
    leave_out,
    parse_properties,
    plain_phrase,
    property_key,
    read_decided,
    sign_value,
    write_properties,
)
from pipeline.text.ids import clean_name, match_key

ADDED_WEIGHT = 0.0
"""The weight of an entity record that a correction adds.

It carries a type or a description; the text does not name the entity once more."""
STATEMENT_WEIGHT = 1.0
"""The weight of an added statement, that of a text which states it once."""


@dataclass
class Unit:
    """A text unit while it is corrected.

    ``matches`` counts the records that each correction changed. ``deleted`` has the records that
    were deleted, each with the id of the correction.
    """

    id: str
    document_id: str
    order: int
    text: str
    records: list[Record]
    matches: Counter[str] = field(default_factory=Counter)
    deleted: list[tuple[str, Record]] = field(default_factory=list)

    def applies(self, rule: Rule) -> bool:
        """Check that the rule holds for this text unit, as far as document and quote say."""
        if rule.document_id and rule.document_id != self.document_id:
            return False
        return self.has(rule.quote)

    def has(self, quote: str) -> bool:
        """Check that the text has this phrase; every text has an empty one."""
        return not quote or plain_phrase(quote) in self._plain_text

    @cached_property
    def _plain_text(self) -> str:
        return plain_phrase(self.text)

    def delete(self, rule: Rule, is_meant: Callable[[Record], bool]) -> None:
        """Delete the records that are meant."""
        kept = []
        for record in self.records:
            if is_meant(record):
                self.deleted.append((rule.id, record))
                self.matches[rule.id] += 1
            else:
                kept.append(record)
        self.records = kept

    def append(self, **cells: Any) -> None:
        """Add a record with these cells behind the others."""
        order = max((record["order"] for record in self.records), default=-1) + 1
        blank = {"name": "", "type": "", "source": "", "target": "", "keywords": []}
        self.records.append(
            {**blank, **cells, "text_unit_id": self.id, "order": order, "grounded": True}
        )


def correct_unit(unit: Unit, rules: Rules) -> None:
    """Apply the rules to the records of a text unit.

    What a document is cited for is added first, so that all other rules see it. Rules about names
    before any correction follow, then those about types, descriptions and properties, which see the
    new names.
    """
    _add_cited(unit, rules)
    rules = rules.select_for(unit.records)
    for rule in rules.by_kind.get("delete_entity", ()):
        _delete_entity(unit, rule)
    _rename_entities(unit, rules)
    for rule in rules.by_kind.get("delete_statement", ()):
        unit.delete(rule, lambda record, rule=rule: _is_stated(record, rule, rules))
    for rule in rules.by_kind.get("describe_statement", ()):
        _describe_statement(unit, rule, rules)
    # A statement is found by its ends and type, so these change last: first the type, for a
    # statement is still found by its ends then.
    _retype_statements(unit, rules)
    for rule in rules.by_kind.get("set_type", ()):
        _set_type(unit, rule, rules)
    for rule in rules.by_kind.get("describe_entity", ()):
        _describe_entity(unit, rule, rules)
    for rule in rules.by_kind.get("delete_property", ()):
        _delete_property(unit, rule, rules)
    for rule in rules.by_kind.get("set_property", ()):
        _set_property(unit, rule, rules)


def _add_cited(unit: Unit, rules: Rules) -> None:
    """Add the statements and values of the unit's document: to units with the quote, or to the
    first one."""
    for rule in rules.additions.get(unit.document_id, ()):
        is_place = unit.has(rule.quote) if rule.quote else unit.order == 0
        if not is_place:
            continue
        unit.matches[rule.id] += 1
        if rule.kind == "set_property":
            _append_value(unit, rule.source, rule)
            continue
        for name, type in ((rule.source, rule.source_type), (rule.target, rule.target_type)):
            if type:
                unit.append(
                    kind="entity", name=name, type=type, description="", weight=ADDED_WEIGHT
                )
        unit.append(
            kind="relationship",
            source=rule.source,
            target=rule.target,
            description=rule.description,
            keywords=[rule.type] if rule.type else [],
            weight=STATEMENT_WEIGHT,
        )


def _delete_entity(unit: Unit, rule: Rule) -> None:
    """Delete the records of an entity, and the relationships of which it is an end."""
    key = match_key(rule.source)
    if unit.applies(rule) and _has_type(unit, key, rule.type):
        unit.delete(rule, lambda record: key in list_keys(record))


def _rename_entities(unit: Unit, rules: Rules) -> None:
    """Rename entities, each name once: a rule never sees the new name of another one.

    A rule for a document, a quote or a type goes before one for all.
    """
    new_names: dict[str, Rule] = {}
    for rule in rules.by_kind.get("rename", ()):
        key = match_key(rule.source)
        if not unit.applies(rule) or not _has_type(unit, key, rule.type):
            continue
        known = new_names.get(key)
        if known is None or _rank_scope(rule) > _rank_scope(known):
            new_names[key] = rule
    if not new_names:
        return
    for record in unit.records:
        for column in ("name", "source", "target"):
            rule = new_names.get(match_key(record[column]))
            if rule is not None:
                record[column] = clean_name(rule.to)
                unit.matches[rule.id] += 1


def _rank_scope(rule: Rule) -> tuple[bool, bool, bool]:
    """Return a rank that is greater for a rule with a narrower scope."""
    return bool(rule.quote), bool(rule.document_id), bool(rule.type)


def _has_type(unit: Unit, key: str, type: str) -> bool:
    """Check that the unit gives the entity this type; every unit does if ``type`` is empty."""
    if not type:
        return True
    types = {
        record["type"].casefold()
        for record in unit.records
        if record["kind"] == "entity" and match_key(record["name"]) == key
    }
    return type.casefold() in types


def _is_stated(record: Record, rule: Rule, rules: Rules) -> bool:
    """Check that the record is a statement of the rule's ends and type."""
    if record["kind"] != "relationship":
        return False
    ends = match_key(record["source"]), match_key(record["target"])
    if ends != (rules.follow(rule.source), rules.follow(rule.target)):
        return False
    keywords = [keyword.casefold() for keyword in record["keywords"]]
    return not rule.type or rule.type.casefold() in keywords[:1]


def _describe_statement(unit: Unit, rule: Rule, rules: Rules) -> None:
    """Set the description of statements, or add the rule's text to it."""
    for record in unit.records:
        if _is_stated(record, rule, rules):
            parts = [record["description"]] if rule.append else []
            record["description"] = " ".join(part for part in [*parts, rule.description] if part)
            unit.matches[rule.id] += 1


def _retype_statements(unit: Unit, rules: Rules) -> None:
    """Set the types of statements and exchange their ends, as the rules say.

    Both are found by the type and the ends from before.
    """
    for record in unit.records:
        found = [
            rule
            for kind in ("retype_statement", "turn_statement")
            for rule in rules.by_kind.get(kind, ())
            if _is_stated(record, rule, rules)
        ]
        for rule in found:
            unit.matches[rule.id] += 1
            if rule.kind == "retype_statement":
                record["keywords"] = [rule.to, *list(record["keywords"])[1:]]
        if any(rule.kind == "turn_statement" for rule in found):
            record["source"], record["target"] = record["target"], record["source"]


def _set_type(unit: Unit, rule: Rule, rules: Rules) -> None:
    """Set the type in the records of an entity; where the unit only names it, add a record."""
    key = rules.follow(rule.source)
    entities = _find_entity_records(unit, key)
    for record in entities:
        record["type"] = rule.to
    if not entities and (name := _find_name(unit, key)):
        unit.append(kind="entity", name=name, type=rule.to, description="", weight=ADDED_WEIGHT)
    elif not entities:
        return
    unit.matches[rule.id] += max(len(entities), 1)


def _describe_entity(unit: Unit, rule: Rule, rules: Rules) -> None:
    """Set the description in the records of an entity, or add a record with one more.

    All text units give the same text, which merging then lists once.
    """
    key = rules.follow(rule.source)
    entities = _find_entity_records(unit, key)
    name = entities[0]["name"] if entities else _find_name(unit, key)
    if not name:
        return
    unit.matches[rule.id] += max(len(entities), 1)
    if entities and not rule.append:
        for record in entities:
            record["description"] = rule.description
        return
    type = entities[0]["type"] if entities else ""
    unit.append(
        kind="entity", name=name, type=type, description=rule.description, weight=ADDED_WEIGHT
    )


def _set_property(unit: Unit, rule: Rule, rules: Rules) -> None:
    """Add a record with the value to an entity of the unit, if the rule cites no document.

    All text units give the same value, which list_attributes then lists once, without a source.
    """
    key = rules.follow(rule.source)
    entities = _find_entity_records(unit, key)
    name = entities[0]["name"] if entities else _find_name(unit, key)
    if rule.document_id or not name:
        return
    unit.matches[rule.id] += max(len(entities), 1)
    _append_value(unit, name, rule)


def _append_value(unit: Unit, name: str, rule: Rule) -> None:
    """Add a record of an entity that has nothing but the value of a rule."""
    decided = DecidedValue(rule.value, sign_value(rule.id, rule.by), bool(rule.document_id))
    attributes = write_properties({rule.property: decided._asdict()})
    unit.append(
        kind="entity", name=name, description="", weight=ADDED_WEIGHT, attributes=attributes
    )


def _delete_property(unit: Unit, rule: Rule, rules: Rules) -> None:
    """Delete the values that the unit gives for a property of an entity, or one of them."""
    if not unit.applies(rule):
        return
    wanted = property_key(rule.property)
    for record in _find_entity_records(unit, rules.follow(rule.source)):
        properties = parse_properties(record.get("attributes"))
        kept: dict[str, Any] = {}
        for name, content in properties.items():
            # A value that a person has set is no value of the text.
            is_meant = property_key(name) == wanted and read_decided(content) is None
            values = leave_out(content, rule.value) if is_meant else content
            if values != []:
                kept[name] = values
        if kept != properties:
            record["attributes"] = write_properties(kept) if kept else None
            unit.matches[rule.id] += 1


def _find_entity_records(unit: Unit, key: str) -> list[Record]:
    return [
        record
        for record in unit.records
        if record["kind"] == "entity" and match_key(record["name"]) == key
    ]


def _find_name(unit: Unit, key: str) -> str:
    """Return how the unit writes the name of an end of a relationship, or "" if it does not."""
    for record in unit.records:
        for column in ("source", "target"):
            if match_key(record[column]) == key:
                return str(record[column])
    return ""
