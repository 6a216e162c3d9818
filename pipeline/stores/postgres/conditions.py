"""Conditions on documents as SQL: what ``contract.conditions.holds`` says of a document, said by
the database.

All that comes from the conditions, fields' names too, is a parameter.
"""

import hashlib
import re
import sys
import threading
from collections import OrderedDict
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
    any_,
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
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from pipeline.contract.conditions import NEGATED, OWN, Conditions, as_text, is_number
from pipeline.stores.postgres.schema import DOCUMENTS

SPACES = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f"
    " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Python strips off a text."""
A_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"
WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_SET = re.compile(r"\[(?:(?P<negated>!)|(?!!))(?P<items>.[^\]]*)\]", re.DOTALL)
Cell = ColumnElement[Any]
Test = ColumnElement[bool]
FEW = 2000
"""Documents that are named one by one: to go through an index until some of theirs come up takes
longer."""
MOST_REMEMBERED_BYTES = 8 * 2**20
"""The memory that remembered conditions and their documents' ids may take in one process."""


@dataclass(frozen=True)
class Allowed:
    """The documents that may be seen: those that satisfy all of the conditions. ``few``: their ids
    where they are known to be few."""

    within: Sequence[Conditions]
    few: tuple[str, ...] | None = None

    def has(self, document: ColumnElement[str], workspace: ColumnElement[str]) -> Test:
        """Whether the document of this id is one."""
        if not self.within:
            return true()
        if self.few is not None:
            return func.coalesce(document == func.any(list(self.few)), False)
        rows = DOCUMENTS.alias("allowed")
        found = exists().where(
            rows.c.workspace == workspace, rows.c.id == document, *_satisfied(rows, self.within)
        )
        return found.correlate_except(rows)


@dataclass
class AllowedDocuments:
    """Remember which conditions few documents satisfy; finding out takes a scan of all documents.

    What is remembered holds for one load. A reader that still sees the load before keeps its own
    `_Remembered` object, so it adds nothing to the answers about the new load.
    """

    remembered: "_Remembered" = field(default_factory=lambda: _Remembered(""))

    def find(
        self, connection: Connection, workspace: str, version: str, within: Sequence[Conditions]
    ) -> Allowed:
        """Return the documents that satisfy ``within``; ``version`` names the load that is
        shown."""
        remembered = self.remembered
        if remembered.version != version:
            self.remembered = remembered = _Remembered(version)
        # A digest, because a condition may be as long as a request.
        key = hashlib.sha256(repr(within).encode()).digest()
        known, few = remembered.look_up(key)
        if not known:
            rows = select(DOCUMENTS.c.id).where(
                DOCUMENTS.c.workspace == workspace, *_satisfied(DOCUMENTS, within)
            )
            found = connection.execute(rows.limit(FEW + 1)).scalars().all()
            few = tuple(found) if len(found) <= FEW else None
            remembered.add(key, few)
        return Allowed(within, few)


@dataclass
class _Remembered:
    """The answers about one load, least recently used first, within MOST_REMEMBERED_BYTES."""

    version: str
    answers: OrderedDict[bytes, tuple[str, ...] | None] = field(default_factory=OrderedDict)
    size: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __reduce__(self) -> tuple[type["_Remembered"], tuple[str]]:
        """Let a store be sent to another process, which begins without answers: a lock cannot be
        sent."""
        return _Remembered, (self.version,)

    def look_up(self, key: bytes) -> tuple[bool, tuple[str, ...] | None]:
        """Return whether the answer is remembered, and the answer."""
        with self.lock:
            if key not in self.answers:
                return False, None
            self.answers.move_to_end(key)
            return True, self.answers[key]

    def add(self, key: bytes, few: tuple[str, ...] | None) -> None:
        """Remember an answer, and forget the least recently used ones that no longer fit."""
        with self.lock:
            if key in self.answers:
                return
            self.answers[key] = few
            self.size += _bytes_of(key, few)
            while self.size > MOST_REMEMBERED_BYTES:
                oldest = self.answers.popitem(last=False)
                self.size -= _bytes_of(*oldest)


def _bytes_of(key: bytes, few: tuple[str, ...] | None) -> int:
    ids = sum(map(sys.getsizeof, few)) if few else 0
    return sys.getsizeof(key) + sys.getsizeof(few) + ids


def _satisfied(rows: Any, within: Sequence[Conditions]) -> list[Test]:
    return [
        _satisfies(rows, name, condition) for each in within for name, condition in each.items()
    ]


def _satisfies(rows: Any, field: str, condition: Mapping[str, Any]) -> Test:
    if field in OWN:
        return and_(*(_own(rows.c[field], name, operand) for name, operand in condition.items()))
    return and_(
        *(
            _of_metadata(rows.c.metadata[field], name, operand)
            for name, operand in condition.items()
        )
    )


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
        case((func.jsonb_typeof(cell) == "array", some), else_=_item_holds(cell, name, operand)),
        False,
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
        return _is_one_of(text, number, operand)
    wanted = as_text(operand)
    if name == "matches":
        return text.collate("C").regexp_match(_pattern(operand))
    if name == "=":
        same = (func.lower(text) if isinstance(operand, bool) else text) == wanted
        if number is None or _plain_number(wanted) is None:
            return same
        return case((number.is_not(None), number == _plain_number(wanted)), else_=same)
    if is_number(wanted):
        return case(
            (text.regexp_match(A_NUMBER), text.cast(Numeric).op(name)(Decimal(wanted))), else_=False
        )
    return text.collate("C").bool_op(name)(wanted)


def _is_one_of(text: Cell, number: Cell | None, operands: Sequence[Any]) -> Test:
    """Return the test that the value equals one of ``operands``, as "=" compares each of them.

    Each kind of operand is one bound array: the statement has the same text and the same few
    parameters for ten values and for a thousand.
    """
    truths = [as_text(operand) for operand in operands if isinstance(operand, bool)]
    texts = [as_text(operand) for operand in operands if not isinstance(operand, bool)]
    same_text = or_(_equals_any(text, texts, Text), _equals_any(func.lower(text), truths, Text))
    if number is None:
        return same_text
    plain = {wanted: _plain_number(wanted) for wanted in texts}
    numbers = [amount for amount in plain.values() if amount is not None]
    # A number in a document equals an operand that is a plain number by its value, not by its text.
    others = [wanted for wanted, amount in plain.items() if amount is None]
    same_number = or_(_equals_any(number, numbers, Numeric), _equals_any(text, others, Text))
    return case((number.is_not(None), same_number), else_=same_text)


def _equals_any(cell: Cell, values: Sequence[Any], kind: type[Text | Numeric[Any]]) -> Test:
    return cell == any_(literal(list(values), ARRAY(kind)))


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
