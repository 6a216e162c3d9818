"""Conditions on documents as SQL: what ``contract.conditions.holds`` says of a document, said by the database.

All that comes from the conditions, fields' names too, is a parameter.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Numeric,
    Text,
    and_,
    case,
    cast,
    column,
    exists,
    func,
    literal,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

from pipeline.contract.conditions import NEGATED, OWN, Conditions, as_text, is_number
from pipeline.stores.postgres.schema import DOCUMENTS

SPACES = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Python strips off a text."""
A_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"
WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_SET = re.compile(r"\[(?:(?P<negated>!)|(?!!))(?P<items>.[^\]]*)\]", re.DOTALL)
Cell = ColumnElement[Any]
Test = ColumnElement[bool]
FEW = 2000
"""Documents that are named one by one: to go through an index until some of theirs come up takes longer."""
MOST_REMEMBERED = 500


@dataclass(frozen=True)
class Allowed:
    """The documents that may be seen: those that satisfy all of the conditions. ``few``: their ids where they are known
    to be few."""

    within: Sequence[Conditions]
    few: tuple[str, ...] | None = None

    def has(self, document: ColumnElement[str], workspace: ColumnElement[str]) -> Test:
        """Whether the document of this id is one."""
        if not self.within:
            return true()
        if self.few is not None:
            return func.coalesce(document == func.any(list(self.few)), False)
        rows = DOCUMENTS.alias("allowed")
        found = exists().where(rows.c.workspace == workspace, rows.c.id == document, *_satisfied(rows, self.within))
        return found.correlate_except(rows)


@dataclass
class AllowedDocuments:
    """Remembers, while a workspace shows one load, which conditions few documents satisfy: it takes going through all
    of them to know. Load and answers are one value: who still reads the load before adds nothing to those of this."""

    known: tuple[str, dict[str, tuple[str, ...] | None]] = field(default_factory=lambda: ("", {}))

    def find(self, connection: Connection, workspace: str, version: str, within: Sequence[Conditions]) -> Allowed:
        """``version``: of the load that is shown."""
        shown, few = self.known
        if shown != version or len(few) >= MOST_REMEMBERED:
            few = {}
            self.known = version, few
        key = repr(within)
        if key not in few:
            rows = select(DOCUMENTS.c.id).where(DOCUMENTS.c.workspace == workspace, *_satisfied(DOCUMENTS, within))
            found = connection.execute(rows.limit(FEW + 1)).scalars().all()
            few[key] = tuple(found) if len(found) <= FEW else None
        return Allowed(within, few[key])


def _satisfied(rows: Any, within: Sequence[Conditions]) -> list[Test]:
    return [_satisfies(rows, name, condition) for each in within for name, condition in each.items()]


def _satisfies(rows: Any, field: str, condition: Mapping[str, Any]) -> Test:
    if field in OWN:
        return and_(*(_own(rows.c[field], name, operand) for name, operand in condition.items()))
    return and_(*(_of_metadata(rows.c.metadata[field], name, operand) for name, operand in condition.items()))


def _own(cell: Cell, name: str, operand: Any) -> Test:
    if name == "exists":
        return cell.is_not(None) == operand
    if name in NEGATED:
        return ~_own(cell, NEGATED[name], operand)
    return func.coalesce(_tested(func.btrim(cell, SPACES), None, name, operand), False)


def _of_metadata(cell: Cell, name: str, operand: Any) -> Test:
    """A list satisfies it where one of its items does."""
    if name == "exists":
        return func.coalesce(func.jsonb_typeof(cell) != "null", False) == operand
    if name in NEGATED:
        return ~_of_metadata(cell, NEGATED[name], operand)
    items = func.jsonb_array_elements(cell).table_valued(column("value", JSONB), name="item")
    some = exists().select_from(items).where(_item_holds(items.c.value, name, operand))
    return func.coalesce(
        case((func.jsonb_typeof(cell) == "array", some), else_=_item_holds(cell, name, operand)), False
    )


def _item_holds(value: Cell, name: str, operand: Any) -> Test:
    kind = func.jsonb_typeof(value)
    content = value.op("#>>", return_type=Text)(literal("{}", literal_execute=True))
    text = case(
        (kind == "string", func.btrim(content, SPACES)),
        (kind == "number", cast(func.trim_scale(cast(content, Numeric)), Text)),
        else_=content,
    )
    number = case((kind == "number", cast(content, Numeric)))
    return and_(kind != "null", _tested(text, number, name, operand))


def _tested(text: Cell, number: Cell | None, name: str, operand: Any) -> Test:
    """``number``: the value as one, null where it is none; None where it cannot be one."""
    if name == "in":
        return or_(*(_tested(text, number, "=", item) for item in operand))
    wanted = as_text(operand)
    if name == "matches":
        return text.collate("C").regexp_match(_pattern(operand))
    if name == "=":
        same = (func.lower(text) if isinstance(operand, bool) else text) == wanted
        if number is None or _plain_number(wanted) is None:
            return same
        return case((number.is_not(None), number == _plain_number(wanted)), else_=same)
    if is_number(wanted):
        return case((text.regexp_match(A_NUMBER), text.cast(Numeric).op(name)(Decimal(wanted))), else_=False)
    return text.collate("C").bool_op(name)(wanted)


def _plain_number(text: str) -> Decimal | None:
    """The number that is written so where it is written as it is in a document's fields."""
    as_written = is_number(text) and (WHOLE_NUMBER.fullmatch(text) or as_text(float(text)) == text)
    return Decimal(text) if as_written else None


def _pattern(glob: str) -> str:
    """A regular expression of PostgreSQL's that matches what ``fnmatch.fnmatchcase`` does."""
    parts, place = [], 0
    while place < len(glob):
        if (found := _SET.match(glob, place)) is not None:
            parts.append(_set(bool(found["negated"]), found["items"]))
            place = found.end()
            continue
        parts.append({"*": ".*", "?": "."}.get(glob[place]) or _literal(glob[place]))
        place += 1
    return f"^(?:{''.join(parts)})$"


def _set(negated: bool, items: str) -> str:
    inside, place = [], 0
    while place < len(items):
        first, last = items[place], items[place]
        if items[place + 1 : place + 2] == "-" and place + 2 < len(items):
            last, place = items[place + 2], place + 2
        place += 1
        inside += [f"{_literal(first)}-{_literal(last)}"] if first <= last else []
    if not inside:
        return "." if negated else "(?!.*)"
    return f"[{'^' if negated else ''}{''.join(inside)}]"


def _literal(character: str) -> str:
    return f"\\U{ord(character):08x}"
