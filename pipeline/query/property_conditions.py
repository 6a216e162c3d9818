"""Conditions on properties of entities, as ``where`` writes them: entity.founded >= 1850.

A document satisfies one if a text of it gives a property of some entity such a value. Before the
stores compare it, an operand is read as a value of the property: a number in the unit of the
property, a date with its precision, the text of any other value.
"""

from collections.abc import Sequence
from typing import Any

from pipeline.contract.conditions import Comparison, Conditions, Operators, as_text, property_of
from pipeline.errors import UsageError
from pipeline.ontology.property_values import Fault, number_text, read_number
from pipeline.stores.reads import PropertyForm, VectorReads
from pipeline.text.dates import parse_date

MOST_NAMED = 50
"""Most known properties that an error names."""


def resolve_properties(where: Conditions, vectors: VectorReads) -> Conditions:
    """Return the conditions with Comparisons as the operands of properties.

    Conditions without properties are returned as they are. Raises UsageError for a property of
    which nothing loaded has a value, and for an operand that is no value of it.
    """
    names = [property_of(field) for field in where if property_of(field)]
    if not names:
        return where
    forms: dict[str, list[PropertyForm]] = {}
    for form in vectors.properties(names):
        forms.setdefault(form.name, []).append(form)
    resolved: dict[str, Operators] = {}
    for field, condition in where.items():
        name = property_of(field)
        if not name:
            resolved[field] = condition
            continue
        if name not in forms:
            raise _unknown(field, vectors)
        comparisons: dict[str, Any] = {}
        for operator, operand in condition.items():
            comparisons[operator] = _resolve(field, operator, operand, forms[name])
        resolved[field] = comparisons
    return resolved


def _unknown(field: str, vectors: VectorReads) -> UsageError:
    names = sorted({form.name for form in vectors.properties()})
    if not names:
        action = "what was extracted has no properties (docs/knowledge.md)"
    else:
        more = ", ..." if len(names) > MOST_NAMED else ""
        action = f"there are: {', '.join(names[:MOST_NAMED])}{more}"
    return UsageError(f"where: '{field}': no entity has such a property; {action}")


def _resolve(field: str, operator: str, operand: Any, forms: Sequence[PropertyForm]) -> Any:
    """Return the operand as Comparisons with each form of the property that can have such a
    value."""
    if operator == "exists":
        return operand
    comparisons: list[Comparison] = []
    items = operand if isinstance(operand, list) else [operand]
    for item in items:
        comparisons_of_item: list[Comparison] = []
        faults: list[Fault] = []
        for form in forms:
            value = _read_operand(operator, item, form)
            if isinstance(value, Fault):
                faults.append(value)
            else:
                comparisons_of_item.append(Comparison(form.type, form.unit, value))
        if not comparisons_of_item:
            condition = f"'{field}' {operator} {item}"
            fact = faults[0].fact
            raise UsageError(f"where: {condition}: {fact}; write a value of the property")
        comparisons += comparisons_of_item
    return comparisons


def _read_operand(operator: str, operand: Any, form: PropertyForm) -> str | Fault:
    """Return the operand as values of this form are stored, or the reason why there is none."""
    text = as_text(operand)
    if operator == "matches":
        return text
    if form.type == "number":
        number = read_number(text, form.unit)
        return number if isinstance(number, Fault) else number_text(number)
    if form.type == "date":
        return parse_date(text) or Fault("", "no date that exists")
    return text
